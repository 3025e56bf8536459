-- The first schema. Instants and spans are microseconds; ids are the engine's own time-ordered integers.

-- Small numbers of the store itself. last_id: no id at or below it may be handed out again.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A queue owns one generation of tasks. Purging gives it a new generation and retires the old one, so that a purge
-- costs one row whatever the backlog, and reading the next due tasks never wades through purged ones.
CREATE TABLE queues (
    queue_id INTEGER PRIMARY KEY CHECK (queue_id > 0),
    name TEXT NOT NULL UNIQUE,
    generation INTEGER NOT NULL UNIQUE CHECK (generation > 0),
    state TEXT NOT NULL CHECK (state IN ('RUNNING', 'PAUSED', 'DISABLED')),
    purge_time INTEGER,
    task_ttl INTEGER NOT NULL CHECK (task_ttl >= 0),
    tombstone_ttl INTEGER NOT NULL CHECK (tombstone_ttl >= 0),
    settings TEXT NOT NULL CHECK (json_valid(settings))
) STRICT;

-- Generations whose tasks are gone for everybody but the sweeper. Until expire_time the names in it are blocked;
-- NULL: they are not, because the queue itself was deleted.
CREATE TABLE retired_generations (
    generation INTEGER PRIMARY KEY CHECK (generation > 0),
    queue_id INTEGER NOT NULL CHECK (queue_id > 0),
    expire_time INTEGER
) STRICT;

CREATE INDEX retired_generations_by_queue ON retired_generations (queue_id);

-- The body comes last, so that everything else is read without following its overflow pages.
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY CHECK (id > 0),
    generation INTEGER NOT NULL,
    name TEXT CHECK (name <> ''), -- only if the caller chose it
    schedule_time INTEGER NOT NULL,
    create_time INTEGER NOT NULL,
    dispatch_count INTEGER NOT NULL,
    response_count INTEGER NOT NULL,
    execution_count INTEGER NOT NULL,
    first_dispatch_time INTEGER,
    previous_response INTEGER,
    last_attempt TEXT,
    request TEXT NOT NULL,
    body BLOB NOT NULL,
    CHECK (dispatch_count >= response_count AND response_count >= execution_count AND execution_count >= 0)
) STRICT;

CREATE INDEX tasks_by_due_key ON tasks (generation, schedule_time, id);
CREATE UNIQUE INDEX tasks_by_name ON tasks (generation, name) WHERE name IS NOT NULL;

CREATE TABLE tombstones (
    queue_id INTEGER NOT NULL,
    name TEXT NOT NULL CHECK (name <> ''),
    expire_time INTEGER NOT NULL,
    PRIMARY KEY (queue_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_by_expire_time ON tombstones (expire_time);

CREATE TABLE queue_tombstones (
    name TEXT PRIMARY KEY,
    expire_time INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
    resource TEXT PRIMARY KEY,
    policy BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

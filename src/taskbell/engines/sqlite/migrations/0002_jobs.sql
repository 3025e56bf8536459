-- Cloud Scheduler: jobs, and the executions that are their history.

-- What callers define. The request holds the target, the deadline and the retry configuration; the body comes last, so
-- that everything else is read without following its overflow pages.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY CHECK (id > 0),
    name TEXT NOT NULL UNIQUE,
    schedule TEXT NOT NULL,
    time_zone TEXT NOT NULL,
    description TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('ENABLED', 'PAUSED', 'DISABLED', 'UPDATE_FAILED')),
    user_update_time INTEGER NOT NULL,
    request TEXT NOT NULL CHECK (json_valid(request)),
    body BLOB NOT NULL
) STRICT;

-- What moves with each instant and each attempt, one narrow row for each job: SQLite writes whole rows, and thousands of
-- these share the pages that a few jobs with their requests fill.
CREATE TABLE timers (
    job_id INTEGER PRIMARY KEY CHECK (job_id > 0),
    revision INTEGER NOT NULL,
    next_time INTEGER,
    last_attempt_time INTEGER,
    status_code INTEGER,
    status_message TEXT,
    CHECK ((status_code IS NULL) = (status_message IS NULL))
) STRICT;

-- A row id of its own keeps new rows together at the end, whatever job they are of; the index by key is the lock that
-- lets one instant of one job in once, and the order in which a history is read.
CREATE TABLE executions (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    instant INTEGER NOT NULL,
    is_forced INTEGER NOT NULL,
    disposition TEXT NOT NULL CHECK (
        disposition IN ('fired', 'late', 'forced', 'skipped_overlap', 'skipped_paused', 'missed', 'superseded')
    ),
    progress TEXT NOT NULL CHECK (progress IN ('open', 'succeeded', 'failed', 'cancelled', 'none')),
    header_time INTEGER,
    start_time INTEGER,
    last_attempt_time INTEGER,
    end_time INTEGER,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    retry_time INTEGER,
    response INTEGER,
    status_code INTEGER,
    status_message TEXT,
    reason TEXT NOT NULL,
    CHECK (is_forced = (disposition = 'forced')),
    CHECK (attempts >= failures AND failures >= 0),
    CHECK ((status_code IS NULL) = (status_message IS NULL))
) STRICT;

CREATE UNIQUE INDEX executions_by_key ON executions (job_id, instant, is_forced);
CREATE INDEX executions_open ON executions (job_id) WHERE progress = 'open';
CREATE INDEX executions_closed ON executions (instant) WHERE progress <> 'open';

-- Jobs whose histories are gone for everybody but the sweeper.
CREATE TABLE deleted_jobs (
    job_id INTEGER PRIMARY KEY CHECK (job_id > 0)
) STRICT;

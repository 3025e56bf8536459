-- Every statement of the SQLite engine. `-- name: x` begins one; queries.py loads them by these names.
-- Lists travel as one JSON text (json_each) and come back as one (json_group_array): each step of a statement gives the
-- interpreter lock away, and getting it back from a busy event loop costs more than the step.


-- Tasks: writing.

-- name: insert_tasks
-- Widened by the loader to several rows of values.
INSERT INTO tasks (
    id, generation, name, schedule_time, create_time, dispatch_count, response_count, execution_count,
    first_dispatch_time, previous_response, last_attempt, request, body
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: taken_names
-- Of the wanted names [position, generation, queue_id, name, id or null], those that are live (of a named task, or the
-- number of an unnamed one) or have a tombstone; the tombstone's end comes back, judged by the caller.
SELECT json_group_array(json_array(position, is_live, expire_time)) FROM (
    SELECT
        json_extract(wanted.value, '$[0]') AS position,
        EXISTS (
            SELECT 1 FROM tasks
            WHERE tasks.generation = json_extract(wanted.value, '$[1]') AND tasks.name = json_extract(wanted.value, '$[3]')
        ) OR EXISTS (
            SELECT 1 FROM tasks
            WHERE tasks.id = json_extract(wanted.value, '$[4]') AND tasks.name IS NULL AND tasks.generation = json_extract(wanted.value, '$[1]')
        ) AS is_live,
        (
            SELECT tombstones.expire_time FROM tombstones
            WHERE tombstones.queue_id = json_extract(wanted.value, '$[2]') AND tombstones.name = json_extract(wanted.value, '$[3]')
        ) AS expire_time
    FROM json_each(?) AS wanted
) WHERE is_live OR expire_time IS NOT NULL

-- name: live_ids
-- Of these ids, those whose tasks are there and not purged.
SELECT json_group_array(tasks.id) FROM tasks
WHERE tasks.id IN (SELECT value FROM json_each(?)) AND tasks.generation IN (SELECT generation FROM queues)

-- name: delete_tasks
DELETE FROM tasks
WHERE id IN (SELECT value FROM json_each(?)) AND generation IN (SELECT generation FROM queues)

-- name: retriable_ids
-- Of these retries [id, ..., dispatch_count, ...], those that `retry_tasks` would apply.
SELECT json_group_array(tasks.id) FROM json_each(?) AS retry
CROSS JOIN tasks ON tasks.id = json_extract(retry.value, '$[0]')
WHERE tasks.dispatch_count < json_extract(retry.value, '$[2]') AND tasks.generation IN (SELECT generation FROM queues)

-- name: retry_tasks
-- Guarded: an answer of an older attempt finds a greater dispatch_count and changes nothing.
UPDATE tasks SET
    schedule_time = json_extract(retry.value, '$[1]'),
    dispatch_count = json_extract(retry.value, '$[2]'),
    response_count = json_extract(retry.value, '$[3]'),
    execution_count = json_extract(retry.value, '$[4]'),
    first_dispatch_time = json_extract(retry.value, '$[5]'),
    previous_response = json_extract(retry.value, '$[6]'),
    last_attempt = json_extract(retry.value, '$[7]')
FROM json_each(?) AS retry
WHERE tasks.id = json_extract(retry.value, '$[0]')
    AND tasks.dispatch_count < json_extract(retry.value, '$[2]')
    AND tasks.generation IN (SELECT generation FROM queues)

-- name: delete_task_row
DELETE FROM tasks WHERE id = ?

-- name: insert_tombstones
-- [queue_id, name, expire_time] each. A name may have an older tombstone that ended and was not swept yet.
INSERT INTO tombstones (queue_id, name, expire_time)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?) WHERE true
ON CONFLICT (queue_id, name) DO UPDATE SET expire_time = max(expire_time, excluded.expire_time)


-- Tasks: reading.

-- name: due_page
-- The next tasks of a queue in the order of their due keys; bodies up to :inline_bytes as hex, longer ones null.
-- Two ranges of the index instead of one comparison of pairs, which would walk over all tasks of the same schedule time.
SELECT
    (SELECT generation FROM queues WHERE name = :queue) AS generation,
    (
        SELECT json_group_array(json_array(
            tasks.id, name, tasks.schedule_time, create_time, dispatch_count, response_count, execution_count,
            first_dispatch_time, previous_response, json(last_attempt), json(request), length(body),
            CASE WHEN length(body) <= :inline_bytes THEN hex(body) END
        ))
        FROM (
            SELECT schedule_time, id FROM tasks
            WHERE generation = (SELECT generation FROM queues WHERE name = :queue)
                AND schedule_time = :schedule_time AND id > :id
            UNION ALL
            SELECT schedule_time, id FROM tasks
            WHERE generation = (SELECT generation FROM queues WHERE name = :queue)
                AND schedule_time > :schedule_time
            ORDER BY schedule_time, id
            LIMIT :limit
        ) AS due
        CROSS JOIN tasks ON tasks.id = due.id
    ) AS page

-- name: body
SELECT body FROM tasks WHERE id = ?

-- name: task_by_name
SELECT
    json_array(
        id, name, schedule_time, create_time, dispatch_count, response_count, execution_count,
        first_dispatch_time, previous_response, json(last_attempt), json(request)
    ),
    body
FROM tasks
WHERE generation = (SELECT generation FROM queues WHERE name = :queue) AND name = :task_id

-- name: task_by_id
SELECT
    json_array(
        id, name, schedule_time, create_time, dispatch_count, response_count, execution_count,
        first_dispatch_time, previous_response, json(last_attempt), json(request)
    ),
    body
FROM tasks
WHERE id = :id AND name IS NULL AND generation = (SELECT generation FROM queues WHERE name = :queue)

-- name: blocked_until
-- Until when a name of a queue is blocked: by its tombstone, or because it was purged and is not swept yet. One row if
-- the queue exists, with null for a name that nothing blocks; no row if it does not.
SELECT (
    SELECT max(expire_time) FROM (
        SELECT tombstones.expire_time FROM tombstones
        WHERE tombstones.queue_id = queues.queue_id AND tombstones.name = :task_id
        UNION ALL
        SELECT retired.expire_time FROM retired_generations AS retired
        WHERE retired.queue_id = queues.queue_id
            AND EXISTS (SELECT 1 FROM tasks WHERE tasks.generation = retired.generation AND tasks.name = :task_id)
    )
)
FROM queues WHERE queues.name = :queue

-- name: count_tasks
-- Through the index, so that no row is touched.
SELECT generation, count(*) FROM tasks INDEXED BY tasks_by_due_key GROUP BY generation


-- Queues.

-- name: all_queues
SELECT queue_id, generation, name, state, purge_time, task_ttl, tombstone_ttl, settings FROM queues

-- name: all_retired_generations
SELECT generation, queue_id, expire_time FROM retired_generations ORDER BY generation

-- name: put_queue
INSERT INTO queues (queue_id, generation, name, state, purge_time, task_ttl, tombstone_ttl, settings)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue_id) DO UPDATE SET
    generation = excluded.generation,
    state = excluded.state,
    purge_time = excluded.purge_time,
    task_ttl = excluded.task_ttl,
    tombstone_ttl = excluded.tombstone_ttl,
    settings = excluded.settings

-- name: delete_queue
DELETE FROM queues WHERE queue_id = ?

-- name: queue_tombstone
SELECT expire_time FROM queue_tombstones WHERE name = ?

-- name: put_queue_tombstone
INSERT INTO queue_tombstones (name, expire_time) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET expire_time = excluded.expire_time

-- name: delete_queue_tombstone
DELETE FROM queue_tombstones WHERE name = ?

-- name: retire_generation
INSERT INTO retired_generations (generation, queue_id, expire_time) VALUES (?, ?, ?)


-- Small things.

-- name: policy
SELECT policy FROM policies WHERE resource = ?

-- name: put_policy
INSERT INTO policies (resource, policy) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET policy = excluded.policy

-- name: delete_policy
DELETE FROM policies WHERE resource = ?

-- name: record
SELECT value FROM records WHERE key = ?

-- name: put_record
INSERT INTO records (key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value


-- Upkeep.

-- name: last_id
-- The greatest id that may have been handed out. The newest rows may be gone, so the rows alone do not know.
SELECT max(
    coalesce((SELECT value FROM meta WHERE key = 'last_id'), 0),
    coalesce((SELECT max(id) FROM tasks), 0)
)

-- name: put_last_id
INSERT INTO meta (key, value) VALUES ('last_id', ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: old_tasks
-- The next rows of some generations, in the order of ids, which is the order of age. NOT INDEXED: along the table.
SELECT id, generation, name FROM tasks NOT INDEXED
WHERE id > ? AND id < ? AND generation IN (SELECT value FROM json_each(?))
ORDER BY id
LIMIT ?

-- name: last_id_before
SELECT max(id) FROM tasks WHERE id < ?

-- name: retired_tasks
SELECT id, name FROM tasks WHERE generation = ? LIMIT ?

-- name: delete_rows
DELETE FROM tasks WHERE id IN (SELECT value FROM json_each(?))

-- name: delete_retired_generation
DELETE FROM retired_generations WHERE generation = ?

-- name: delete_ended_tombstones
-- The pair stands in this order because SQLite then looks each one up; the other way round it scans the queue's.
DELETE FROM tombstones WHERE (name, queue_id) IN (
    SELECT name, queue_id FROM tombstones WHERE expire_time <= ? ORDER BY expire_time LIMIT ?
)

-- name: delete_ended_queue_tombstones
DELETE FROM queue_tombstones WHERE name IN (
    SELECT name FROM queue_tombstones WHERE expire_time <= ? ORDER BY expire_time LIMIT ?
)

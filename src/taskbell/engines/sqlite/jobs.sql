-- Every statement about jobs and executions; queries.sql says how these files are read and why lists travel as JSON.


-- Jobs: writing.

-- name: insert_job
INSERT INTO jobs (id, name, schedule, time_zone, description, state, user_update_time, request, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_job
UPDATE jobs SET
    schedule = ?3, time_zone = ?4, description = ?5, state = ?6, user_update_time = ?7, request = ?8, body = ?9
WHERE id = ?1 AND name = ?2

-- name: delete_job
DELETE FROM jobs WHERE id = ?

-- name: put_timer
INSERT INTO timers (job_id, revision, next_time, last_attempt_time, status_code, status_message)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id) DO UPDATE SET
    revision = excluded.revision,
    next_time = excluded.next_time,
    last_attempt_time = excluded.last_attempt_time,
    status_code = excluded.status_code,
    status_message = excluded.status_message

-- name: delete_timer
DELETE FROM timers WHERE job_id = ?

-- name: insert_deleted_job
-- Only if there is something to sweep, so that each step of a sweep finds a row to remove.
INSERT INTO deleted_jobs (job_id) SELECT ?1 WHERE EXISTS (SELECT 1 FROM executions WHERE job_id = ?1)

-- name: timer
SELECT next_time FROM timers WHERE job_id = ?

-- name: clear_status
UPDATE timers SET status_code = NULL, status_message = NULL WHERE job_id = ?


-- Jobs: reading. The columns are those of `job_of`.

-- name: job_by_name
SELECT
    jobs.id, name, schedule, time_zone, description, state, user_update_time, request,
    revision, next_time, last_attempt_time, status_code, status_message, body
FROM jobs CROSS JOIN timers ON timers.job_id = jobs.id
WHERE name = ?

-- name: job_page
-- The next jobs of a range of names; bodies up to :inline_bytes as hex, longer ones null.
SELECT json_group_array(json_array(
    jobs.id, jobs.name, schedule, time_zone, description, state, user_update_time, request,
    revision, next_time, last_attempt_time, status_code, status_message,
    CASE WHEN length(body) <= :inline_bytes THEN hex(body) END
))
FROM (
    SELECT id, name FROM jobs WHERE name > :after AND name < :end ORDER BY name LIMIT :limit
) AS listed
CROSS JOIN jobs ON jobs.id = listed.id
CROSS JOIN timers ON timers.job_id = listed.id

-- name: job_body
SELECT body FROM jobs WHERE id = ?

-- name: all_jobs
SELECT
    jobs.id, name, schedule, time_zone, description, state, user_update_time, request,
    revision, next_time, last_attempt_time, status_code, status_message, body
FROM jobs CROSS JOIN timers ON timers.job_id = jobs.id

-- name: job_id
SELECT id FROM jobs WHERE name = ?


-- Ticks.

-- name: refused_ticks
-- Of the steps [job_id, revision, time, next_time], the positions of those whose job has moved on or is gone; and of the
-- keys [position, job_id, instant, is_forced], the positions of those that stand for more than a dropped instant.
SELECT json_group_array(position) FROM (
    SELECT step.key AS position FROM json_each(?) AS step
    WHERE NOT EXISTS (
        SELECT 1 FROM timers
        WHERE timers.job_id = json_extract(step.value, '$[0]')
            AND timers.revision = json_extract(step.value, '$[1]')
            AND timers.next_time IS json_extract(step.value, '$[2]')
    )
    UNION ALL
    SELECT json_extract(wanted.value, '$[0]') AS position FROM json_each(?) AS wanted
    WHERE EXISTS (
        SELECT 1 FROM executions
        WHERE executions.job_id = json_extract(wanted.value, '$[1]')
            AND executions.instant = json_extract(wanted.value, '$[2]')
            AND executions.is_forced = json_extract(wanted.value, '$[3]')
            AND executions.disposition <> 'superseded'
    )
)

-- name: move_timers
UPDATE timers SET next_time = json_extract(step.value, '$[3]')
FROM json_each(?) AS step
WHERE timers.job_id = json_extract(step.value, '$[0]')

-- name: put_executions
-- Widened by the loader to several rows of values. Callers have checked what is there and may be replaced.
INSERT INTO executions (
    job_id, instant, is_forced, disposition, progress, header_time, start_time, last_attempt_time, end_time,
    attempts, failures, retry_time, response, status_code, status_message, reason
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id, instant, is_forced) DO UPDATE SET
    disposition = excluded.disposition,
    progress = excluded.progress,
    header_time = excluded.header_time,
    start_time = excluded.start_time,
    last_attempt_time = excluded.last_attempt_time,
    end_time = excluded.end_time,
    attempts = excluded.attempts,
    failures = excluded.failures,
    retry_time = excluded.retry_time,
    response = excluded.response,
    status_code = excluded.status_code,
    status_message = excluded.status_message,
    reason = excluded.reason

-- name: insert_absent_execution
INSERT INTO executions (
    job_id, instant, is_forced, disposition, progress, header_time, start_time, last_attempt_time, end_time,
    attempts, failures, retry_time, response, status_code, status_message, reason
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id, instant, is_forced) DO NOTHING


-- Progress.

-- name: open_positions
-- Of the executions [job_id, instant, is_forced, attempts, is_cancelled], the positions of those that are open with
-- fewer attempts, or with as many where the new one is cancelled.
SELECT json_group_array(wanted.key) FROM json_each(?) AS wanted
WHERE EXISTS (
    SELECT 1 FROM executions
    WHERE executions.job_id = json_extract(wanted.value, '$[0]')
        AND executions.instant = json_extract(wanted.value, '$[1]')
        AND executions.is_forced = json_extract(wanted.value, '$[2]')
        AND executions.progress = 'open'
        AND executions.attempts < json_extract(wanted.value, '$[3]') + json_extract(wanted.value, '$[4]')
)

-- name: follow_executions
-- Of [job_id, last_attempt_time, code, message, next_time, was_attempted]: the job's status is its execution's, if that
-- was attempted at all; a job that waits for the end of a run is told its next instant.
UPDATE timers SET
    last_attempt_time = iif(json_extract(fresh.value, '$[5]'), json_extract(fresh.value, '$[1]'), last_attempt_time),
    status_code = iif(json_extract(fresh.value, '$[5]'), json_extract(fresh.value, '$[2]'), status_code),
    status_message = iif(json_extract(fresh.value, '$[5]'), json_extract(fresh.value, '$[3]'), status_message),
    next_time = coalesce(next_time, json_extract(fresh.value, '$[4]'))
FROM json_each(?) AS fresh
WHERE timers.job_id = json_extract(fresh.value, '$[0]')

-- name: cancel_waiting
UPDATE executions SET progress = 'cancelled', end_time = :now, retry_time = NULL
WHERE job_id = :job_id AND progress = 'open' AND retry_time > :now AND is_forced = 0

-- name: cancel_open
UPDATE executions SET progress = 'cancelled', end_time = ?, retry_time = NULL
WHERE job_id = ? AND progress = 'open'


-- Executions: reading. The columns are those of `execution_of`.

-- name: open_executions
SELECT
    job_id, instant, disposition, progress, header_time, start_time, executions.last_attempt_time, end_time,
    attempts, failures, retry_time, response, executions.status_code, executions.status_message, reason, jobs.name
FROM executions CROSS JOIN jobs ON jobs.id = executions.job_id
WHERE progress = 'open'

-- name: execution_page
-- Newest first, before a key; two rows of one instant at most, so the bound on the instant alone finds the place.
SELECT json_group_array(json_array(
    job_id, instant, disposition, progress, header_time, start_time, last_attempt_time, end_time,
    attempts, failures, retry_time, response, status_code, status_message, reason
))
FROM (
    SELECT * FROM executions
    WHERE job_id = :job_id AND instant >= :since AND instant <= :instant
        AND (instant, is_forced) < (:instant, :is_forced)
        AND (:among = '[]' OR disposition IN (SELECT value FROM json_each(:among)))
    ORDER BY instant DESC, is_forced DESC
    LIMIT :limit
) AS listed

-- name: execution_by_key
SELECT
    job_id, instant, disposition, progress, header_time, start_time, last_attempt_time, end_time,
    attempts, failures, retry_time, response, status_code, status_message, reason
FROM executions
WHERE job_id = ? AND instant = ? AND is_forced = ?


-- Executions: upkeep.

-- name: first_deleted_job
SELECT job_id FROM deleted_jobs ORDER BY job_id LIMIT 1

-- name: delete_some_of_job
DELETE FROM executions WHERE id IN (SELECT id FROM executions WHERE job_id = ? LIMIT ?)

-- name: forget_deleted_job
DELETE FROM deleted_jobs WHERE job_id = ?

-- name: delete_old_executions
DELETE FROM executions WHERE id IN (
    SELECT id FROM executions WHERE progress <> 'open' AND instant < ? ORDER BY instant LIMIT ?
)

"""What becomes of a scheduled instant, and of an execution after each attempt (wire.md sections 9.1 to 9.5).

Pure decisions: the ticker asks, the engine records, and nothing here waits or sends.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import NamedTuple

from taskbell.core.attempt import response_status
from taskbell.core.instant import HOUR, SECOND, Instant, Span
from taskbell.core.job import Disposition, Execution, Job, JobRetryConfig, JobState, Progress
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.retry import backoff
from taskbell.core.schedule import Schedule
from taskbell.core.target import AppEngineTarget
from taskbell.core.throttle import retry_after

MOST_RETRIES = 5
"""The most that a duration alone allows; also the largest retry_count."""
ON_TIME: Span = 30 * SECOND
"""Starting later than this after the instant is called late."""
LONGEST_CATCH_UP: Span = HOUR
ROWS_OF_DOWNTIME = 1000
"""How many missed instants of one job get rows of their own; those before them share the oldest one's."""
LEFT_OUT = "The instants between this one and the next row went the same way."


@dataclass(frozen=True, slots=True)
class Due:
    """What instants that have come amount to: rows to insert, the one of them to start, and the next instant."""

    executions: tuple[Execution, ...]
    start: Execution | None
    next_time: Instant | None


def first_time(schedule: Schedule, now: Instant) -> Instant | None:
    """The first instant of a schedule that begins now."""
    return now + schedule.interval if schedule.interval is not None else schedule.next_after(now)


def may_wait(job: Job, schedule: Schedule) -> bool:
    """Whether an instant may wait for the execution before it to end, where that is the setting; windows never do."""
    return job.state is JobState.ENABLED and schedule.kind in {"unix-cron", "groc-specific"}


def due(
    job: Job, schedule: Schedule, now: Instant, *, is_open: bool, catch_up: Span | None, has_waited: bool = False
) -> Due:
    """Decide on every instant from the job's next_time up to now.

    `is_open`: an execution of the job, forced ones apart, has not ended. `catch_up`: how late a run may start after
    downtime; None means one period, at most an hour. `has_waited`: it is not downtime that made the instants late, but
    the execution before them, which has ended now.
    """
    assert job.next_time is not None
    came = _instants(job.next_time, schedule, now)
    rows = _refused_all(job, came, _why_not(job, is_open=is_open or has_waited))
    start = None
    if job.state is JobState.ENABLED and not is_open:
        latest = came.instants[-1]
        allowed = _catch_up(schedule, latest, came.following) if catch_up is None else catch_up
        if has_waited or now - latest <= max(ON_TIME, allowed):
            start = started(job, schedule, latest, now)
            rows[-1] = start
    if schedule.interval is not None:
        # An interval counts from the end of the run; where none started, from now.
        return Due(tuple(rows), start, None if start is not None else now + schedule.interval)
    return Due(tuple(rows), start, came.following)


class _Came(NamedTuple):
    """Instants that have come, the newest of them at least."""

    instants: list[Instant]
    following: Instant | None
    """The first that has not come; None also for an end-time interval."""
    is_cut: bool = False
    """Whether instants between the first and the second were left out."""


def _instants(first: Instant, schedule: Schedule, now: Instant) -> _Came:
    start = first
    found, following = _up_to(schedule, start, now)
    if len(found) == ROWS_OF_DOWNTIME:
        start = _start_of_newest(schedule, first, now)
        found, following = _up_to(schedule, start, now)
    return _Came([first, *found], following, is_cut=start > first)


def _up_to(schedule: Schedule, after: Instant, now: Instant) -> tuple[list[Instant], Instant | None]:
    """The instants after one up to now, cut off when they are too many for rows, and the one that follows."""
    found: list[Instant] = []
    following = schedule.next_after(after)
    while following is not None and following <= now and len(found) < ROWS_OF_DOWNTIME:
        found.append(following)
        following = schedule.next_after(following)
    return found, following


def _start_of_newest(schedule: Schedule, first: Instant, now: Instant) -> Instant:
    """After which instant the newest ones begin: few enough for rows, and at least half as many.

    There is one, and the search comes upon it, since instants are a minute apart at the least.
    """
    many, few = first, now
    while True:
        middle = (many + few) // 2
        count = len(_up_to(schedule, middle, now)[0])
        if count == ROWS_OF_DOWNTIME:
            many = middle
        elif count < ROWS_OF_DOWNTIME // 2:
            few = middle
        else:
            return middle


def _why_not(job: Job, *, is_open: bool) -> tuple[Disposition, str]:
    if job.state is not JobState.ENABLED:
        return Disposition.SKIPPED_PAUSED, f"The job was {job.state.value}."
    if is_open:
        return Disposition.SKIPPED_OVERLAP, "The execution before it had not ended."
    return Disposition.MISSED, "The server was down, and at most the latest instant is made up for."


def _refused(job: Job, instant: Instant, why: tuple[Disposition, str]) -> Execution:
    return Execution(job.id, job.name, instant, why[0], reason=why[1])


def _refused_all(job: Job, came: _Came, why: tuple[Disposition, str]) -> list[Execution]:
    rows = [_refused(job, instant, why) for instant in came.instants]
    if came.is_cut:
        rows[0] = replace(rows[0], reason=f"{rows[0].reason} {LEFT_OUT}")
    return rows


def _catch_up(schedule: Schedule, instant: Instant, following: Instant | None) -> Span:
    """One period of the schedule, at most an hour."""
    if schedule.interval is not None:
        return min(schedule.interval, LONGEST_CATCH_UP)
    return LONGEST_CATCH_UP if following is None else min(following - instant, LONGEST_CATCH_UP)


def started(job: Job, schedule: Schedule, instant: Instant, now: Instant) -> Execution:
    """The execution of a scheduled instant that starts now."""
    is_late = now - instant > ON_TIME
    return Execution(
        job.id,
        job.name,
        instant,
        Disposition.LATE if is_late else Disposition.FIRED,
        progress=Progress.OPEN,
        header_time=instant if schedule.kind == "unix-cron" else None,
        start_time=now,
        reason=f"It started {(now - instant) // SECOND} s after its time." if is_late else "",
    )


def has_come(job: Job, now: Instant) -> bool:
    """Whether the instant that a job waits for has come."""
    return job.next_time is not None and job.next_time <= now


def passed_over(job: Job, schedule: Schedule, now: Instant) -> tuple[Execution, ...]:
    """The rows of the instants that have come to a job that is not enabled."""
    assert job.next_time is not None
    return tuple(_refused_all(job, _instants(job.next_time, schedule, now), _why_not(job, is_open=False)))


def superseded(job: Job, schedule: Schedule, now: Instant) -> tuple[Execution, ...]:
    """The rows of what a job was waiting for when an edit replaced its schedule.

    That is the instant to come; or those that have come, when the edit was committed before they were begun.
    """
    if job.next_time is None:
        return ()
    if job.next_time > now:
        why = Disposition.SUPERSEDED, "An edit replaced the schedule before the instant came."
        return (_refused(job, job.next_time, why),)
    why = Disposition.SUPERSEDED, "An edit replaced the schedule before the instant was begun."
    return tuple(_refused_all(job, _instants(job.next_time, schedule, now), why))


def forced(job: Job, instant: Instant, header_time: Instant | None) -> Execution:
    """The execution that a RunJob call starts; `instant` is the call's, made unique by the caller."""
    return Execution(
        job.id,
        job.name,
        instant,
        Disposition.FORCED,
        progress=Progress.OPEN,
        header_time=header_time,
        start_time=instant,
        reason="It was run by force.",
    )


def is_exhausted(config: JobRetryConfig, failures: int, start_time: Instant, now: Instant) -> bool:
    """Whether an execution whose attempt has just failed for the `failures`-th time is over.

    | retry_count | max_retry_duration | retries |
    |---|---|---|
    | 0 | 0 | none |
    | n | 0 | exactly n |
    | 0 | d | at most 5, until d has passed |
    | n | d | until both are spent |
    """
    count, duration = config.retry_count, config.max_retry_duration
    has_time_passed = now - start_time >= duration
    if duration == 0:
        return failures > count
    if count == 0:
        return failures > MOST_RETRIES or has_time_passed
    return failures > count and has_time_passed


def retry_waits(config: JobRetryConfig, most: int) -> list[Span]:
    """The waits before each retry if every attempt failed at once, `most` of them at the most."""
    found: list[Span] = []
    elapsed: Span = 0
    while len(found) < most and not is_exhausted(config, len(found) + 1, 0, elapsed):
        found.append(backoff(config, len(found) + 1))
        elapsed += found[-1]
    return found


def attempted(execution: Execution, now: Instant) -> Execution:
    """The execution while its attempt is out."""
    return replace(execution, attempts=execution.attempts + 1, last_attempt_time=now, retry_time=None)


def after_attempt(execution: Execution, job: Job, outcome: Outcome, now: Instant, *, may_retry: bool) -> Execution:
    """The execution after its attempt ended; `may_retry` is False once its job was edited, paused or deleted."""
    status = response_status(outcome.status, timed_out=outcome.failure is Failure.TIMEOUT)
    ended = replace(execution, response=outcome.status, status=status, end_time=now)
    if outcome.is_success:
        return replace(ended, progress=Progress.SUCCEEDED)
    # App Engine's 503 is an error of the system, retried whatever the settings say.
    is_counted = not (outcome.status == 503 and isinstance(job.target, AppEngineTarget))
    failures = execution.failures + is_counted
    ended = replace(ended, failures=failures, reason=f"{execution.reason} {_failure(outcome)}".strip())
    assert execution.start_time is not None
    if not may_retry:
        return replace(ended, progress=Progress.CANCELLED)
    if is_counted and is_exhausted(job.retry_config, failures, execution.start_time, now):
        return replace(ended, progress=Progress.FAILED)
    config = job.retry_config
    wait = max(backoff(config, execution.attempts), retry_after(outcome.retry_after, now, config.max_backoff))
    return replace(ended, end_time=None, retry_time=now + wait, reason=execution.reason)


def cancelled(execution: Execution, now: Instant) -> Execution:
    """The execution that waited for an attempt when its job was edited or paused."""
    return replace(execution, progress=Progress.CANCELLED, end_time=now, retry_time=None)


def _failure(outcome: Outcome) -> str:
    if outcome.status is not None:
        return f"The last attempt was answered {outcome.status}."
    return f"The last attempt failed: {outcome.failure}{', ' + outcome.reason if outcome.reason else ''}."


def execution_key(execution: Execution) -> str:
    """The Idempotency-Key: one for all attempts of an execution, and for no other execution of any job."""
    kind = "forced" if execution.is_forced else "scheduled"
    text = f"{execution.job}/{execution.job_id}/{kind}/{execution.instant}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]

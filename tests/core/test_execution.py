"""What becomes of a scheduled instant, and of an execution after each attempt (wire.md sections 9.1 to 9.5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskbell.core.execution import (
    ON_TIME,
    ROWS_OF_DOWNTIME,
    after_attempt,
    attempted,
    cancelled,
    due,
    execution_key,
    first_time,
    forced,
    has_come,
    is_exhausted,
    may_wait,
    passed_over,
    retry_waits,
    started,
    superseded,
)
from taskbell.core.instant import DAY, MINUTE, SECOND, Instant, Span
from taskbell.core.job import Disposition, Execution, Job, JobRetryConfig, JobState, Progress
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.schedule import Schedule, fires, parse_schedule
from taskbell.core.target import AppEngineTarget, HttpTarget
from taskbell.core.task import Status

NOW = 1_800_000_000 * SECOND
"""2027-01-15T08:00:00Z."""
FAILED = Outcome(status=500)
SYSTEM_ERROR = Outcome(status=503)
EVERY_MINUTE = parse_schedule("* * * * *", "")
INTERVAL = parse_schedule("every 10 minutes", "")
MISSED = Disposition.MISSED


def a_job(next_time: Instant | None = NOW, **fields: Any) -> Job:
    """A job that waits for an instant."""
    job = Job(7, "projects/p/locations/l/jobs/j", HttpTarget("http://h/"), "* * * * *", next_time=next_time)
    return replace(job, **fields)


def open_execution(job: Job | None = None) -> Execution:
    """An execution that has just started."""
    return started(job or a_job(), EVERY_MINUTE, NOW, NOW)


# Retries.


def retries(config: JobRetryConfig, *outcomes: Outcome, took: Span = 0, job: Job | None = None) -> list[Span]:
    """The waits between attempts that each took so long and went like this, the last one again and again."""
    job = replace(job or a_job(), retry_config=config)
    execution, now = open_execution(job), NOW
    waits: list[Span] = []
    for attempt in range(100):
        execution = attempted(execution, now)
        now += took
        execution = after_attempt(execution, job, outcomes[min(attempt, len(outcomes) - 1)], now, may_retry=True)
        if execution.retry_time is None:
            return waits
        waits.append(execution.retry_time - now)
        now = execution.retry_time
    return waits


def seconds(*counts: int) -> list[Span]:
    """Spans of whole seconds."""
    return [count * SECOND for count in counts]


QUICK = {"min_backoff": 10 * SECOND, "max_backoff": 300 * SECOND, "max_doublings": 3}


@pytest.mark.parametrize(
    ("count", "duration", "waits"),
    [
        (0, 0, []),
        (1, 0, [10]),
        (5, 0, [10, 20, 40, 80, 160]),
        (0, 30, [10, 20]),
        (0, 31, [10, 20, 40]),
        (0, 3600, [10, 20, 40, 80, 160]),
        (2, 5, [10, 20]),
        (2, 100, [10, 20, 40, 80]),
        (5, 1000, [10, 20, 40, 80, 160, 240, 300, 300]),
        (3, 300, [10, 20, 40, 80, 160]),
    ],
)
def test_the_table_of_retries(count: int, duration: int, waits: list[int]) -> None:
    """None; exactly n; at most five until d has passed; until both are spent."""
    config = JobRetryConfig(count, duration * SECOND, **QUICK)

    assert retries(config, FAILED) == seconds(*waits)
    assert retry_waits(config, 100) == seconds(*waits)


@pytest.mark.parametrize(
    ("least", "most", "doublings", "waits"),
    [
        (10, 300, 3, [10, 20, 40, 80, 160, 240, 300, 300]),
        (10, 120, 2, [10, 20, 40, 80, 120, 120, 120, 120]),
        (5, 3600, 5, [5, 10, 20, 40, 80, 160, 320, 480]),
        (0, 0, 5, [0] * 8),
    ],
)
def test_the_documented_series(least: int, most: int, doublings: int, waits: list[int]) -> None:
    """Doublings, then linear growth, then the largest."""
    config = JobRetryConfig(5, DAY, least * SECOND, most * SECOND, doublings)

    assert retry_waits(config, 8) == seconds(*waits)


def test_what_attempts_take_counts_as_time_that_has_passed() -> None:
    """The duration runs from the begin of the first attempt."""
    assert retries(JobRetryConfig(0, 100 * SECOND, **QUICK), FAILED, took=30 * SECOND) == seconds(10, 20)
    assert retries(JobRetryConfig(1, 100 * SECOND, **QUICK), FAILED, took=200 * SECOND) == seconds(10)


def test_app_engines_503_is_tried_again_without_being_counted() -> None:
    """Whatever the settings say; its waits grow all the same. Any other failure counts, and so does an HTTP 503."""
    app_engine = a_job(target=AppEngineTarget())
    none, one = JobRetryConfig(0, 0, **QUICK), JobRetryConfig(1, 0, **QUICK)

    assert retries(none, SYSTEM_ERROR, SYSTEM_ERROR, FAILED, job=app_engine) == seconds(10, 20)
    assert retries(one, SYSTEM_ERROR, FAILED, SYSTEM_ERROR, FAILED, job=app_engine) == seconds(10, 20, 40)
    assert len(retries(none, SYSTEM_ERROR, job=app_engine)) == 100
    assert retries(none, Outcome(failure=Failure.TIMEOUT), job=app_engine) == []
    assert retries(none, SYSTEM_ERROR) == []


@pytest.mark.parametrize(
    ("header", "wait"),
    [("120", 120), ("5", 10), ("9999", 300), ("soon", 10), ("Fri, 15 Jan 2027 08:01:30 GMT", 90)],
)
def test_a_retry_after_makes_the_wait_longer(header: str, wait: int) -> None:
    """Never shorter than the backoff, never longer than the largest."""
    outcome = Outcome(status=429, retry_after=header)

    assert retries(JobRetryConfig(1, 0, **QUICK), outcome) == seconds(wait)


@settings(deadline=None)
@given(
    st.integers(0, 5), st.integers(0, 1000), st.integers(1, 100), st.integers(0, 1000), st.integers(0, 20)
)  # fmt: skip
def test_retries_end(count: int, duration: int, least: int, more: int, doublings: int) -> None:
    """Every setting with a wait of its own ends, and no wait leaves its bounds."""
    config = JobRetryConfig(count, duration * SECOND, least * SECOND, (least + more) * SECOND, doublings)
    waits = retry_waits(config, 2000)

    assert len(waits) < 2000
    assert all(least * SECOND <= wait <= (least + more) * SECOND for wait in waits)
    assert len(waits) >= count
    assert duration or len(waits) == count
    assert is_exhausted(config, len(waits) + 1, 0, sum(waits))


# Attempts.


def test_an_attempt_is_counted_when_it_begins() -> None:
    """And the retry that was waited for is no more."""
    waiting = replace(open_execution(), attempts=1, retry_time=NOW + SECOND)
    out = attempted(waiting, NOW + 2 * SECOND)

    assert (out.attempts, out.last_attempt_time, out.retry_time) == (2, NOW + 2 * SECOND, None)


def test_success_ends_an_execution() -> None:
    """With the answer's code."""
    ended = after_attempt(attempted(open_execution(), NOW), a_job(), Outcome(status=204), NOW + 5, may_retry=True)

    assert (ended.progress, ended.end_time, ended.response) == (Progress.SUCCEEDED, NOW + 5, 204)
    assert ended.status == Status(0, "OK")
    assert (ended.failures, ended.reason) == (0, "")


@pytest.mark.parametrize(
    ("outcome", "code", "reason"),
    [
        (Outcome(status=404), 5, "The last attempt was answered 404."),
        (Outcome(status=500), 13, "The last attempt was answered 500."),
        (Outcome(failure=Failure.TIMEOUT), 4, "The last attempt failed: timeout."),
        (Outcome(failure=Failure.UNREACHABLE, reason="refused"), 14, "The last attempt failed: unreachable, refused."),
    ],
)
def test_failure_ends_an_execution_whose_retries_are_spent(outcome: Outcome, code: int, reason: str) -> None:
    """And says how the last attempt went."""
    ended = after_attempt(attempted(open_execution(), NOW), a_job(), outcome, NOW + 5, may_retry=True)

    assert (ended.progress, ended.end_time, ended.failures) == (Progress.FAILED, NOW + 5, 1)
    assert ended.status is not None
    assert (ended.status.code, ended.reason) == (code, reason)


def test_failure_with_retries_left_keeps_it_open() -> None:
    """With the answer of the attempt, and no end."""
    job = a_job(retry_config=JobRetryConfig(1))
    waiting = after_attempt(attempted(open_execution(), NOW), job, FAILED, NOW + 5, may_retry=True)

    assert (waiting.progress, waiting.end_time, waiting.response) == (Progress.OPEN, None, 500)
    assert (waiting.retry_time, waiting.reason) == (NOW + 5 + 5 * SECOND, "")


@pytest.mark.parametrize("outcome", [FAILED, SYSTEM_ERROR])
def test_nothing_is_tried_again_once_the_job_was_changed(outcome: Outcome) -> None:
    """Also where retries are left, and where a failure would not count."""
    job = a_job(retry_config=JobRetryConfig(5), target=AppEngineTarget())
    ended = after_attempt(attempted(open_execution(job), NOW), job, outcome, NOW + 5, may_retry=False)

    assert (ended.progress, ended.end_time, ended.retry_time) == (Progress.CANCELLED, NOW + 5, None)


def test_a_cancelled_execution_waits_for_nothing() -> None:
    """It keeps what its attempts came to."""
    waiting = replace(open_execution(), attempts=1, response=500, retry_time=NOW + SECOND)

    assert cancelled(waiting, NOW) == replace(
        waiting, progress=Progress.CANCELLED, end_time=NOW, retry_time=None
    )  # fmt: skip


# Instants.


def test_an_instant_on_time_starts() -> None:
    """It is fired, and the schedule goes on."""
    job = a_job()
    decision = due(job, EVERY_MINUTE, NOW + 3, is_open=False, catch_up=None)

    expected = Execution(
        7,
        job.name,
        NOW,
        Disposition.FIRED,
        Progress.OPEN,
        header_time=NOW,
        start_time=NOW + 3,
    )
    assert decision.start == expected
    assert decision.executions == (expected,)
    assert decision.next_time == NOW + MINUTE


@pytest.mark.parametrize(("late", "disposition"), [(ON_TIME, "fired"), (ON_TIME + 1, "late")])
def test_late_is_what_starts_well_after_its_time(late: Span, disposition: str) -> None:
    """Half a minute is no downtime."""
    decision = due(a_job(), parse_schedule("0 8 * * *", ""), NOW + late, is_open=False, catch_up=None)

    assert decision.start is not None
    assert decision.start.disposition.value == disposition


@pytest.mark.parametrize(
    ("fields", "is_open", "disposition"),
    [
        ({"state": JobState.PAUSED}, False, "skipped_paused"),
        ({"state": JobState.DISABLED}, False, "skipped_paused"),
        ({"state": JobState.PAUSED}, True, "skipped_paused"),
        ({}, True, "skipped_overlap"),
    ],
)
@pytest.mark.parametrize("schedule", [EVERY_MINUTE, INTERVAL])
def test_what_keeps_an_instant_from_starting(
    schedule: Schedule, fields: dict[str, Any], disposition: str, *, is_open: bool
) -> None:
    """The job's state, and an execution that is open. The schedule goes on."""
    decision = due(a_job(**fields), schedule, NOW, is_open=is_open, catch_up=None)

    assert decision.start is None
    assert [row.disposition.value for row in decision.executions] == [disposition]
    assert decision.next_time == first_time(schedule, NOW)


def test_an_interval_waits_for_the_end_of_its_run() -> None:
    """Nobody knows the next instant before."""
    decision = due(a_job(), INTERVAL, NOW, is_open=False, catch_up=None)

    assert decision.start is not None
    assert (decision.start.header_time, decision.next_time) == (None, None)


@pytest.mark.parametrize(
    ("schedule", "has_header"),
    [("0 8 * * *", True), ("every day 08:00", False), ("every 2 hours synchronized", False), ("every 2 hours", False)],
)
def test_only_unix_cron_has_a_schedule_time(schedule: str, *, has_header: bool) -> None:
    """As Google guarantees it."""
    decision = due(a_job(), parse_schedule(schedule, ""), NOW, is_open=False, catch_up=None)

    assert decision.start is not None
    assert (decision.start.header_time is not None) == has_header


schedules = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "0 * * * *", "* 9 * * *", "0,1 0 * * *", "0 0 1 * *", "every 6 hours synchronized",
     "every 3 minutes from 10:00 to 11:00", "every monday 09:00", "* * 1 1 *"]
)  # fmt: skip
zones = st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"])


@settings(deadline=None)
@given(schedules, zones, st.integers(0, 3 * 366 * DAY), st.booleans(), st.sampled_from(list(JobState)))
def test_every_instant_has_its_row(text: str, zone: str, down: Span, is_open: bool, state: JobState) -> None:  # noqa: FBT001
    """One each, in order, none beyond now; of too many the newest, and the first speaks for the rest."""
    schedule = parse_schedule(text, zone)
    first = schedule.next_after(NOW)
    assert first is not None
    now = first + down
    decision = due(a_job(first, state=state), schedule, now, is_open=is_open, catch_up=None)
    rows = decision.executions

    assert rows[0].instant == first
    assert 1 <= len(rows) <= ROWS_OF_DOWNTIME
    following = fires(schedule, first if len(rows) == 1 else rows[1].instant - 1, len(rows))
    assert [row.instant for row in rows[1:]] == following[: len(rows) - 1]
    assert decision.next_time == schedule.next_after(now) == following[-1]
    is_cut = len(rows) > 1 and schedule.next_after(first) != rows[1].instant
    assert is_cut == ("between this one and the next row" in rows[0].reason)
    assert not is_cut or len(rows) >= ROWS_OF_DOWNTIME // 2
    assert all(row.disposition not in {Disposition.FIRED, Disposition.LATE} for row in rows[:-1])
    assert decision.start is None or decision.start == rows[-1]
    assert decision.start is None or (state is JobState.ENABLED and not is_open)


def test_a_due_job_with_years_of_missed_minutes_is_decided_quickly() -> None:
    """It takes thousands of steps at the most, not one for each minute."""
    steps = 0

    class Counting:
        interval = None

        def next_after(self, instant: Instant) -> Instant:
            nonlocal steps
            steps += 1
            return instant // MINUTE * MINUTE + MINUTE

    schedule: Schedule = Counting()  # type: ignore[assignment]
    decision = due(a_job(), schedule, NOW + 3650 * DAY, is_open=True, catch_up=None)

    assert 500 <= len(decision.executions) <= 1000
    assert steps < 30_000


@pytest.mark.parametrize(
    ("text", "state", "waits"),
    [
        ("* * * * *", JobState.ENABLED, True),
        ("every day 08:00", JobState.ENABLED, True),
        ("every 2 hours synchronized", JobState.ENABLED, False),
        ("every 2 hours", JobState.ENABLED, False),
        ("* * * * *", JobState.PAUSED, False),
    ],
)
def test_what_may_wait_for_the_end_of_an_execution(text: str, state: JobState, *, waits: bool) -> None:
    """Where that is the setting: calendars of jobs that are enabled."""
    assert may_wait(a_job(state=state), parse_schedule(text, "")) == waits


def test_what_has_waited_starts_however_late() -> None:
    """The latest of the instants; it was not downtime that the others fell to."""
    decision = due(a_job(), EVERY_MINUTE, NOW + 150 * SECOND, is_open=False, catch_up=0, has_waited=True)

    assert [row.disposition for row in decision.executions] == [Disposition.SKIPPED_OVERLAP] * 2 + [Disposition.FIRED]
    assert decision.start == decision.executions[-1]


# Edits.


def test_an_edit_drops_the_instant_to_come() -> None:
    """One row; none for an interval that waits for its run."""
    assert [(row.instant, row.disposition) for row in superseded(a_job(NOW + 9), EVERY_MINUTE, NOW)] == [
        (NOW + 9, Disposition.SUPERSEDED)
    ]
    assert superseded(a_job(None), INTERVAL, NOW) == ()


def test_an_edit_drops_instants_that_have_come_and_were_not_begun() -> None:
    """A row each, not of the one to come, which was never promised."""
    rows = superseded(a_job(), EVERY_MINUTE, NOW + 2 * MINUTE)

    assert [(row.instant - NOW) // MINUTE for row in rows] == [0, 1, 2]
    assert {row.reason for row in rows} == {"An edit replaced the schedule before the instant was begun."}


def test_a_resume_passes_over_what_came_to_the_paused_job() -> None:
    """A row each."""
    job = a_job(state=JobState.PAUSED)
    rows = passed_over(job, EVERY_MINUTE, NOW + MINUTE)

    assert [row.disposition for row in rows] == [Disposition.SKIPPED_PAUSED] * 2
    assert [has_come(a_job(each), NOW) for each in (NOW - 1, NOW, NOW + 1, None)] == [True, True, False, False]


# Keys.


def test_keys_tell_executions_apart() -> None:
    """Jobs of one name in two projects or locations, a job made anew, instants, and forced runs from scheduled ones."""
    one = open_execution()
    others = [
        replace(one, job="projects/q/locations/l/jobs/j"),
        replace(one, job="projects/p/locations/m/jobs/j"),
        replace(one, job_id=8),
        replace(one, instant=NOW + 1),
        forced(a_job(), NOW, NOW),
    ]
    keys = {execution_key(each) for each in [one, *others]}

    assert len(keys) == 6
    assert all(len(key) == 32 for key in keys)


def test_a_key_is_one_over_all_attempts() -> None:
    """Whatever else of the execution changes."""
    one = open_execution()
    late = replace(one, disposition=Disposition.LATE, attempts=3, retry_time=NOW, response=500, reason="x")

    assert execution_key(late) == execution_key(one)

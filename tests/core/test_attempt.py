"""Attempt bookkeeping (wire.md sections 5.2, 5.3 and 5.6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.attempt import after_failure, dispatched, response_status
from taskbell.core.instant import HOUR, MINUTE, SECOND
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.queue import RetryConfig
from taskbell.core.target import HttpTarget
from taskbell.core.task import Attempt, Status, Task

NOW = 1_800_000_000 * SECOND
CONFIG = RetryConfig(max_attempts=3, min_backoff=10 * SECOND, max_backoff=300 * SECOND, max_doublings=3)
TASK = Task(
    id=7,
    queue="projects/p/locations/l/queues/q",
    task_id="t",
    named=True,
    target=HttpTarget("http://h/"),
    schedule_time=NOW - SECOND,
    create_time=NOW - MINUTE,
    dispatch_deadline=10 * MINUTE,
    retry_config=CONFIG,
)
FAILED = Outcome(status=503)


@pytest.mark.parametrize("status", [200, 201, 204, 226, 299])
def test_r03_every_status_of_the_two_hundreds_is_a_success(status: int) -> None:
    """200 to 299, whether it has a name or not."""
    assert Outcome(status=status).is_success
    assert response_status(status, timed_out=False) == Status(0, "OK")


@pytest.mark.parametrize("status", [199, 300, 301, 302, 304, 308, 400, 404, 409, 410, 422, 429, 500, 503, 599])
def test_r03_r06_every_other_status_is_a_failure(status: int) -> None:
    """3xx and 4xx are failures too, 304 included."""
    assert not Outcome(status=status).is_success


def test_no_answer_is_a_failure() -> None:
    """Silence acknowledges nothing."""
    assert not Outcome(failure=Failure.BROKEN).is_success


@pytest.mark.parametrize(
    ("status", "code", "name"),
    [
        (400, 3, "INVALID_ARGUMENT"),
        (401, 16, "UNAUTHENTICATED"),
        (403, 7, "PERMISSION_DENIED"),
        (404, 5, "NOT_FOUND"),
        (409, 6, "ALREADY_EXISTS"),
        (413, 2, "UNKNOWN"),
        (302, 2, "UNKNOWN"),
        (429, 8, "RESOURCE_EXHAUSTED"),
        (499, 1, "CANCELLED"),
        (500, 13, "INTERNAL"),
        (501, 12, "UNIMPLEMENTED"),
        (502, 2, "UNKNOWN"),
        (503, 14, "UNAVAILABLE"),
        (504, 4, "DEADLINE_EXCEEDED"),
    ],
)
def test_an_answer_maps_to_a_status_in_the_known_form(status: int, code: int, name: str) -> None:
    """The form that users match on."""
    assert response_status(status, timed_out=False) == Status(code, f"{name}({code}): HTTP status code {status}")


@pytest.mark.parametrize(("timed_out", "code", "name"), [(True, 4, "DEADLINE_EXCEEDED"), (False, 14, "UNAVAILABLE")])
def test_h16_without_an_answer_the_status_says_why_with_code_0(code: int, name: str, *, timed_out: bool) -> None:
    """A passed deadline is DEADLINE_EXCEEDED."""
    assert response_status(None, timed_out=timed_out) == Status(code, f"{name}({code}): HTTP status code 0")


def test_a_dispatch_counts_and_begins_the_first_and_the_last_attempt() -> None:
    """Everything else of the task stays as it was."""
    out = dispatched(TASK, NOW)

    assert out == replace(
        TASK, dispatch_count=1, first_dispatch_time=NOW, last_attempt=Attempt(TASK.schedule_time, NOW)
    )


def test_every_field_of_a_task_survives_a_second_dispatch() -> None:
    """A field that is added later must not be forgotten when the task is copied."""
    task = replace(
        TASK,
        dispatch_count=4,
        response_count=3,
        execution_count=2,
        first_dispatch_time=NOW - HOUR,
        last_attempt=Attempt(NOW - HOUR, NOW - HOUR, NOW - HOUR, Status(13, "INTERNAL(13): HTTP status code 500")),
        previous_response=500,
    )

    assert dispatched(task, NOW) == replace(task, dispatch_count=5, last_attempt=Attempt(TASK.schedule_time, NOW))


def test_the_first_dispatch_time_is_set_once() -> None:
    """Later attempts leave it."""
    out = dispatched(replace(TASK, first_dispatch_time=NOW - HOUR, dispatch_count=1), NOW)

    assert out.first_dispatch_time == NOW - HOUR
    assert out.dispatch_count == 2


def test_s10_a_failed_attempt_leaves_its_answer_and_the_next_schedule_time() -> None:
    """The wait counts from the failure; the last attempt keeps the time it was scheduled for."""
    retry = after_failure(dispatched(TASK, NOW), FAILED, CONFIG, NOW + SECOND)

    assert retry is not None
    assert retry.schedule_time == NOW + SECOND + 10 * SECOND
    assert retry.last_attempt == Attempt(
        NOW - SECOND, NOW, NOW + SECOND, Status(14, "UNAVAILABLE(14): HTTP status code 503")
    )
    assert (retry.dispatch_count, retry.response_count, retry.previous_response) == (1, 1, 503)


def test_no_answer_raises_no_response_count_and_has_no_response_time() -> None:
    """Only attempts that received a response count."""
    outcome = Outcome(failure=Failure.TIMEOUT)
    retry = after_failure(dispatched(TASK, NOW), outcome, CONFIG, NOW + MINUTE)

    assert retry is not None
    assert retry.response_count == 0
    assert retry.last_attempt == Attempt(NOW - SECOND, NOW, None, Status(4, "DEADLINE_EXCEEDED(4): HTTP status code 0"))


def test_s07_a_forced_run_that_fails_waits_from_the_call_on() -> None:
    """Not from the failure, and not from the time it had."""
    call = NOW - 5 * SECOND
    retry = after_failure(dispatched(TASK, call), FAILED, CONFIG, NOW, base=call)

    assert retry is not None
    assert retry.schedule_time == call + 10 * SECOND


def test_r05_the_attempt_that_exhausts_the_task_leaves_nothing() -> None:
    """The third of three."""
    task: Task | None = TASK
    now = NOW
    counts = []
    while task is not None:
        out = dispatched(task, now)
        counts.append(out.dispatch_count)
        task = after_failure(out, FAILED, CONFIG, now)
        now += HOUR

    assert counts == [1, 2, 3]


def test_r04_with_a_duration_too_both_must_be_spent() -> None:
    """More than max_attempts while the time lasts."""
    config = replace(CONFIG, max_retry_duration=100 * SECOND)
    task = replace(dispatched(TASK, NOW), dispatch_count=9)

    assert after_failure(task, FAILED, config, NOW + 99 * SECOND) is not None
    assert after_failure(task, FAILED, config, NOW + 100 * SECOND) is None


@pytest.mark.parametrize(("text", "wait"), [("60", 60), ("3", 10), ("100000", 300), ("nonsense", 10)])
def test_retry_after_lengthens_the_wait_up_to_max_backoff_and_never_shortens_it(text: str, wait: int) -> None:
    """The task's own backoff stands below it."""
    outcome = Outcome(status=429, retry_after=text)
    retry = after_failure(dispatched(TASK, NOW), outcome, CONFIG, NOW)

    assert retry is not None
    assert retry.schedule_time == NOW + wait * SECOND

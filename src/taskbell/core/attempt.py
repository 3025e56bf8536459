"""Attempt bookkeeping: what an outcome means, and what becomes of the task (wire.md sections 5.2, 5.3 and 5.6)."""

from __future__ import annotations

from dataclasses import replace

from taskbell.core.instant import Instant
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.queue import RetryConfig
from taskbell.core.retry import backoff, is_exhausted
from taskbell.core.target import AppEngineTarget
from taskbell.core.task import Attempt, Status, Task
from taskbell.core.throttle import retry_after

_STATUS_BY_HTTP = {
    400: (3, "INVALID_ARGUMENT"),
    401: (16, "UNAUTHENTICATED"),
    403: (7, "PERMISSION_DENIED"),
    404: (5, "NOT_FOUND"),
    409: (6, "ALREADY_EXISTS"),
    429: (8, "RESOURCE_EXHAUSTED"),
    499: (1, "CANCELLED"),
    500: (13, "INTERNAL"),
    501: (12, "UNIMPLEMENTED"),
    503: (14, "UNAVAILABLE"),
    504: (4, "DEADLINE_EXCEEDED"),
}


def response_status(http_status: int | None, *, timed_out: bool) -> Status:
    """google.rpc.Status of an answer, or of its absence, in the form users know."""
    if http_status is None:
        code, name = (4, "DEADLINE_EXCEEDED") if timed_out else (14, "UNAVAILABLE")
        return Status(code, f"{name}({code}): HTTP status code 0")
    if 200 <= http_status <= 299:
        return Status(0, "OK")
    code, name = _STATUS_BY_HTTP.get(http_status, (2, "UNKNOWN"))
    return Status(code, f"{name}({code}): HTTP status code {http_status}")


def dispatched(task: Task, now: Instant) -> Task:
    """The task while its attempt is out: one dispatch more, the last attempt begun now."""
    # Spelled out, since this runs for every attempt and `replace` takes several times as long.
    return Task(
        task.id,
        task.queue,
        task.task_id,
        task.named,
        task.target,
        task.schedule_time,
        task.create_time,
        task.dispatch_deadline,
        task.retry_config,
        task.dispatch_count + 1,
        task.response_count,
        task.execution_count,
        now if task.first_dispatch_time is None else task.first_dispatch_time,
        Attempt(task.schedule_time, now),
        task.previous_response,
    )


def after_failure(
    task: Task, outcome: Outcome, config: RetryConfig, now: Instant, base: Instant | None = None
) -> Task | None:
    """The task as it stands for its next attempt, or None when its attempts are exhausted.

    `task` is what `dispatched` returned. `base` is what the wait counts from: now, or the call's instant for a forced
    run (wire.md section 4.10). A Retry-After may lengthen the wait, up to max_backoff.
    """
    assert task.last_attempt is not None
    assert task.first_dispatch_time is not None
    if is_exhausted(config, task.dispatch_count, task.first_dispatch_time, now):
        return None
    wait = max(backoff(config, task.dispatch_count), retry_after(outcome.retry_after, now, config.max_backoff))
    answered = outcome.status is not None
    return replace(
        task,
        schedule_time=(now if base is None else base) + wait,
        response_count=task.response_count + answered,
        execution_count=task.execution_count + counts_as_execution(task, outcome.status),
        previous_response=previous_response(task, outcome.status),
        last_attempt=Attempt(
            task.last_attempt.schedule_time,
            task.last_attempt.dispatch_time,
            now if answered else None,
            response_status(outcome.status, timed_out=outcome.failure is Failure.TIMEOUT),
        ),
    )


def counts_as_execution(task: Task, http_status: int | None) -> bool:
    """Whether a failed answer raises ExecutionCount: recorded for HTTP all but 5xx, for App Engine all answers."""
    if http_status is None:
        return False
    return isinstance(task.target, AppEngineTarget) or http_status < 500


def previous_response(task: Task, http_status: int | None) -> int:
    """What PreviousResponse will say: the status; without one 504 (HTTP) or 0 (App Engine), as recorded."""
    if http_status is not None:
        return http_status
    return 0 if isinstance(task.target, AppEngineTarget) else 504

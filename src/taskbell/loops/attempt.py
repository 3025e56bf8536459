"""One attempt, start to end, as a flat pipeline.

    begin -> address -> authorize -> confirm -> send -> judge -> settle -> emit

Each step takes what the one before left. An attempt that was overtaken (its task deleted, purged, or run by force while
it was out) ends without touching the row, unless it succeeded: a success completes the task whoever else is trying.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from taskbell.clock import Clock
from taskbell.core import attempt as rules
from taskbell.core.errors import TaskbellError
from taskbell.core.headers import dispatch_headers
from taskbell.core.instant import SECOND, Instant, Span
from taskbell.core.limits import GOOGLE
from taskbell.core.override import overridden, rerouted
from taskbell.core.queue import RetryConfig
from taskbell.core.target import HTTP_BODY_METHODS, AppEngineTarget, HttpTarget
from taskbell.core.task import Task
from taskbell.engine import Engine, Settlement
from taskbell.events import AttemptFinished, Events, Result
from taskbell.loops.lane import Lane
from taskbell.sender import Failure, Minter, Outcome, Request, Sender, TokenUnavailableError

log = structlog.get_logger("taskbell.attempt")

SETTLE_RETRY_WAIT: Span = SECOND


@dataclass(frozen=True, slots=True)
class Attempts:
    """What every attempt needs: contracts only."""

    engine: Engine
    senders: Mapping[type, Sender]
    """By the type of the target."""
    minter: Minter
    clock: Clock
    events: Events


@dataclass(slots=True)
class Run:
    """One attempt's state on its way through the pipeline."""

    lane: Lane
    task: Task
    """As dispatched."""
    began: Span
    """Monotonic."""
    forced_time: Instant | None = None
    retry_config: RetryConfig = field(init=False)

    def __post_init__(self) -> None:
        self.retry_config = self.task.retry_config or self.lane.queue.retry_config


async def attempt(run: Run, using: Attempts) -> Task | None:
    """Make the attempt; return the task as it waits for its next one, or None when it is over or not ours any more."""
    try:
        outcome = await deliver(run, using)
    except Exception as fault:  # A fault of ours is one failed attempt: the task must not be lost over it.
        log.exception("attempt.failed", task=run.task.name)
        outcome = Outcome(failure=Failure.UNSENDABLE, reason=f"internal error: {fault!r}")
    retry, result = judge(run, outcome, using.clock.now())
    if result is not Result.SUPERSEDED:
        was_applied = await settle(run, retry, using)
        retry, result = (retry, result) if was_applied else (None, Result.SUPERSEDED)
    emit(run, retry, result, outcome, using)
    return retry


async def deliver(run: Run, using: Attempts) -> Outcome:
    """Address, authorize, confirm and send."""
    target = run.task.target
    sender = using.senders.get(type(target))
    if sender is None:
        return Outcome(failure=Failure.UNSENDABLE, reason=f"no sender is configured for {type(target).__name__}")
    if isinstance(target, HttpTarget) and run.lane.queue.http_override is not None:
        target = overridden(target, run.lane.queue.http_override)
    elif isinstance(target, AppEngineTarget) and run.lane.queue.routing_override is not None:
        target = rerouted(target, run.lane.queue.routing_override)
    try:
        bearer = await authorize(run.task, target, using.minter)
    except TokenUnavailableError as unavailable:
        return Outcome(failure=Failure.UNSENDABLE, reason=str(unavailable))
    if not run.lane.is_current(run.task):
        return Outcome(failure=Failure.UNSENDABLE, reason="overtaken before it was sent")
    return await sender.send(address(run.task, target, bearer))


async def authorize(task: Task, target: HttpTarget | AppEngineTarget, minter: Minter) -> str | None:
    """A fresh bearer where the target wants one; the default audience is the task's URL as its creator gave it."""
    if isinstance(target, AppEngineTarget) or target.token is None:
        return None
    assert isinstance(task.target, HttpTarget)
    return await minter.bearer(target.token, task.target.url)


def address(task: Task, target: HttpTarget | AppEngineTarget, bearer: str | None) -> Request:
    """The request of this attempt. `target` is the task's own with what its queue lays over it."""
    headers = dispatch_headers(task, target.headers, bearer)
    body = target.body if target.method in HTTP_BODY_METHODS else None
    if isinstance(target, HttpTarget):
        return Request(target.method, target.url, headers, body, task.dispatch_deadline or GOOGLE.default_http_deadline)
    # How long it may take without a deadline of its own depends on how its service scales, which the sender knows.
    return Request(target.method, target.relative_uri, headers, body, task.dispatch_deadline, target.routing)


def judge(run: Run, outcome: Outcome, now: Instant) -> tuple[Task | None, Result]:
    """What becomes of the task."""
    if outcome.is_success:
        return None, Result.COMPLETED
    if not run.lane.is_current(run.task):
        return None, Result.SUPERSEDED
    retry = rules.after_failure(run.task, outcome, run.retry_config, now, run.forced_time)
    return retry, Result.EXHAUSTED if retry is None else Result.RETRY


async def settle(run: Run, retry: Task | None, using: Attempts) -> bool:
    """Commit the outcome; while the store cannot take it, try again: forgetting it would repeat the work."""
    while True:
        try:
            (was_applied,) = await using.engine.settle([Settlement(run.task, retry)], using.clock.now())
        except TaskbellError as refusal:
            log.warning("settle.refused", task=run.task.name, reason=refusal.message)
            await using.clock.wait(asyncio.Event(), SETTLE_RETRY_WAIT)
        else:
            return was_applied


def emit(run: Run, retry: Task | None, result: Result, outcome: Outcome, using: Attempts) -> None:
    """Tell who is interested."""
    now, wait = using.clock.now(), None
    if retry is not None:
        wait = retry.schedule_time - now
    using.events.emit(AttemptFinished(run.task, result, outcome, using.clock.monotonic() - run.began, wait))

"""One execution of a job, first attempt to end, as a flat pipeline.

    attempt (address -> authorize -> confirm -> send) -> judge -> record -> wait for the retry -> attempt ...

Every attempt is recorded before the next begins, so a server that dies takes the execution up where it stood, under the
same key.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from taskbell.core import execution as rules
from taskbell.core.errors import TaskbellError
from taskbell.core.instant import SECOND, Span, rfc3339
from taskbell.core.job import Execution, Job
from taskbell.core.job_headers import execution_headers
from taskbell.core.schedule import Schedule
from taskbell.core.target import HTTP_BODY_METHODS, AppEngineTarget, HttpTarget, PubsubTarget
from taskbell.engine import Progression
from taskbell.events import ExecutionAttempted
from taskbell.loops.attempt import Attempts
from taskbell.sender import Failure, Outcome, Request, TokenUnavailableError

log = structlog.get_logger("taskbell.execution")

RECORD_RETRY_WAIT: Span = SECOND
LONGEST_WAIT: Span = 10 * SECOND
"""A wait for a retry looks at the wall clock again after this time, so that a step of it is noticed."""


@dataclass(slots=True)
class ExecutionRun:
    """An execution that is open here."""

    job: Job
    schedule: Schedule
    execution: Execution
    may_retry: bool = True
    """False once the job was edited, paused or deleted: the attempt that is out is the last one."""
    is_parked: bool = False
    """The server stops: the retry that is waited for is taken up by the next start."""
    is_gone: bool = False
    """The job was deleted: not even an attempt that was just being prepared goes out."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends the wait for a retry."""

    @property
    def may_wait(self) -> bool:
        """Whether a retry may be waited for."""
        return self.may_retry and not self.is_parked

    def park(self) -> None:
        """Make no attempt after the one that is out."""
        self.is_parked = True
        self.stopped.set()

    def stop_retrying(self, *, is_gone: bool) -> None:
        """Callers changed the job."""
        self.may_retry = False
        self.is_gone = self.is_gone or is_gone
        self.stopped.set()


async def execute(run: ExecutionRun, using: Attempts) -> None:
    """Attempt until the execution is over."""
    while run.execution.is_open and await is_time(run, using):
        began = using.clock.monotonic()
        run.execution = rules.attempted(run.execution, using.clock.now())
        outcome = await deliver(run, using)
        now = using.clock.now()
        run.execution = rules.after_attempt(run.execution, run.job, outcome, now, may_retry=run.may_retry)
        is_recorded = await record(run, using)
        duration = using.clock.monotonic() - began
        using.events.emit(ExecutionAttempted(run.job, run.execution, outcome, duration))
        if not is_recorded:
            return


async def is_time(run: ExecutionRun, using: Attempts) -> bool:
    """Wait until the retry is due; False when the job was changed meanwhile, which has closed the execution."""
    while (retry_time := run.execution.retry_time) is not None:
        if not run.may_wait:
            return False
        left = retry_time - using.clock.now()
        if left <= 0:
            break
        await using.clock.wait(run.stopped, min(left, LONGEST_WAIT))
        if run.may_wait:
            run.stopped.clear()
    return not run.is_gone


async def deliver(run: ExecutionRun, using: Attempts) -> Outcome:
    """Address, authorize, confirm and send."""
    try:
        target = run.job.target
        sender = using.senders.get(type(target))
        if sender is None:
            return Outcome(failure=Failure.UNSENDABLE, reason=f"no sender is configured for {type(target).__name__}")
        bearer = None
        if isinstance(target, HttpTarget) and target.token is not None:
            bearer = await using.minter.bearer(target.token, target.url)
        if run.is_gone:
            return Outcome(failure=Failure.UNSENDABLE, reason="the job was deleted before it was sent")
        return await sender.send(address(run, bearer))
    except TokenUnavailableError as unavailable:
        return Outcome(failure=Failure.UNSENDABLE, reason=str(unavailable))
    except Exception as fault:
        # A fault of ours is one failed attempt: the job must go on.
        log.exception("attempt.failed", job=run.job.name)
        return Outcome(failure=Failure.UNSENDABLE, reason=f"internal error: {fault!r}")


def address(run: ExecutionRun, bearer: str | None) -> Request:
    """The request of this attempt."""
    job, target = run.job, run.job.target
    if isinstance(target, PubsubTarget):
        return Request("POST", target.topic, target.attributes, target.body, None)
    return Request(
        method=target.method,
        url=target.relative_uri if isinstance(target, AppEngineTarget) else target.url,
        headers=execution_headers(job, run.execution, schedule_text(run), bearer),
        body=target.body if target.method in HTTP_BODY_METHODS else None,
        deadline=job.attempt_deadline,
        routing=target.routing if isinstance(target, AppEngineTarget) else None,
    )


def schedule_text(run: ExecutionRun) -> str | None:
    """The ScheduleTime header: the nominal instant with the zone's offset, in whole seconds."""
    header_time = run.execution.header_time
    if header_time is None:
        return None
    whole = header_time // SECOND * SECOND
    return rfc3339(whole, run.schedule.zone.offset(whole))


async def record(run: ExecutionRun, using: Attempts) -> bool:
    """Commit the attempt; while the store cannot take it, try again. False: the execution was closed by others."""
    execution, next_time = run.execution, None
    if not execution.is_open and run.schedule.interval is not None and not execution.is_forced:
        assert execution.end_time is not None
        next_time = execution.end_time + run.schedule.interval
    while True:
        try:
            (is_recorded,) = await using.engine.progress([Progression(execution, next_time)])
        except TaskbellError as refusal:
            log.warning("record.refused", job=run.job.name, reason=refusal.message)
            await using.clock.wait(asyncio.Event(), RECORD_RETRY_WAIT)
        else:
            return is_recorded

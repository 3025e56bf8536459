"""One execution of a job, first attempt to end, as a flat pipeline.

    attempt (address -> authorize -> confirm -> send) -> judge -> record -> wait for the retry -> attempt ...

Every attempt is recorded before the next begins, so a server that dies takes the execution up where it stood, under the
same key.

Callers may change the job meanwhile (`stop`). What is out then ends as it ends; nothing is sent after it. The store
closes the executions whose retry is still to come with the change itself; those that it could not see as waiting, since
their attempt was just being recorded or had not begun, are closed here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from taskbell.core import execution as rules
from taskbell.core.errors import TaskbellError
from taskbell.core.instant import SECOND, Span, rfc3339
from taskbell.core.job import Execution, Job, JobState
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


@dataclass(slots=True, eq=False)
class ExecutionRun:
    """An execution that is open here."""

    job: Job
    schedule: Schedule
    execution: Execution
    may_retry: bool = True
    """False once the job was edited or paused: the attempt that is out is the last one."""
    halt: str = ""
    """Why nothing may be sent any more, not even by an attempt that is just being prepared."""
    is_out: bool = False
    """An attempt is out or being recorded, so `execution` is ahead of the store."""
    is_closed: bool = False
    """The store has closed the execution."""
    is_parked: bool = False
    """The server stops: what is left to do is taken up by the next start."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends the wait for a retry."""

    @property
    def may_attempt(self) -> bool:
        """Whether an attempt may begin, now or after a wait."""
        may_begin = self.may_retry or not self.execution.attempts
        return may_begin and not (self.halt or self.is_closed or self.is_parked)

    def park(self) -> None:
        """Make no attempt after the one that is out."""
        self.is_parked = True
        self.stopped.set()

    def stop(self, job: Job) -> None:
        """Callers have edited or paused the job, which is `job` now."""
        self.may_retry = False
        if job.state is not JobState.ENABLED:
            self.halt = "the job was paused before it was sent"
        retry_time = self.execution.retry_time
        if not self.is_out and retry_time is not None and retry_time > job.user_update_time:
            self.is_closed = True
        self.stopped.set()

    def abandon(self) -> None:
        """Callers have deleted the job, and with it the execution."""
        self.halt = "the job was deleted before it was sent"
        self.is_closed = True
        self.stopped.set()


async def execute(run: ExecutionRun, using: Attempts, slots: asyncio.Semaphore) -> None:
    """Attempt until the execution is over. A slot is held by an attempt, not by the wait for the next one."""
    while run.execution.is_open and await is_time(run, using):
        async with slots:
            if run.may_attempt:
                await attempt(run, using)
    if run.execution.is_open and not run.is_parked and not run.is_closed:
        run.execution = rules.cancelled(run.execution, using.clock.now())
        await record(run, using)


async def attempt(run: ExecutionRun, using: Attempts) -> None:
    """One attempt, from its begin to its record."""
    began, run.is_out = using.clock.monotonic(), True
    run.execution = rules.attempted(run.execution, using.clock.now())
    outcome = await deliver(run, using)
    now = using.clock.now()
    run.execution = rules.after_attempt(run.execution, run.job, outcome, now, may_retry=run.may_retry)
    await record(run, using)
    using.events.emit(ExecutionAttempted(run.job, run.execution, outcome, using.clock.monotonic() - began))


async def is_time(run: ExecutionRun, using: Attempts) -> bool:
    """Wait until the next attempt is due; False when there may be none any more.

    A retry is due when its wait has passed or its instant has come, so that a wall clock that is set back does not make
    the wait longer.
    """
    clock, retry_time = using.clock, run.execution.retry_time
    if retry_time is not None:
        end = clock.monotonic() + retry_time - clock.now()
        while run.may_attempt and (left := min(retry_time - clock.now(), end - clock.monotonic())) > 0:
            await clock.wait(run.stopped, min(left, LONGEST_WAIT))
            run.stopped.clear()
    return run.may_attempt


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
        if run.halt:
            return Outcome(failure=Failure.UNSENDABLE, reason=run.halt)
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


async def record(run: ExecutionRun, using: Attempts) -> None:
    """Commit how the execution stands; while the store cannot take it, try again."""
    run.is_out = True
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
            break
    run.is_out = False
    run.is_closed = run.is_closed or not is_recorded

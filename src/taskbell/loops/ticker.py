"""The ticker: a heap of the next instants of all jobs, and the executions that are open here.

At an instant the engine inserts its row and moves the job on in one transaction, and only a step that was committed
starts an execution. So whatever happens to this process, one instant makes at most one execution.

The service calls it after each commit (`service/scheduling.py` is the contract). Everything here happens in one event
loop; while a batch of steps is being committed, changed jobs may come in, and the commit's answer tells which steps
were overtaken by them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from taskbell.clock import Clock
from taskbell.core import execution as rules
from taskbell.core.errors import InvalidArgument, NotFound
from taskbell.core.execution import Due
from taskbell.core.instant import SECOND, Instant, Span
from taskbell.core.job import Execution, Job
from taskbell.core.schedule import Schedule, parse_schedule
from taskbell.engine import Tick
from taskbell.loops.attempt import Attempts
from taskbell.loops.execution import ExecutionRun, execute
from taskbell.loops.loop import Loop

log = structlog.get_logger("taskbell.ticker")

LONGEST_WAIT: Span = SECOND
"""The timer never sleeps longer while any job waits, so a step of the wall clock is noticed within this time."""
IDLE_WAIT: Span = 60 * SECOND
BATCH = 1000
"""Steps in one commit: a herd of jobs on one minute starts in waves, the first after one short commit."""


class Alarm(NamedTuple):
    """An entry of the heap; void once the job's next_time or id is another."""

    time: Instant
    name: str
    job_id: int
    revision: int


@dataclass(slots=True)
class Timer:
    """A job as this node knows it."""

    job: Job
    runs: list[ExecutionRun] = field(default_factory=list)
    """The executions that are open: at most one scheduled one, and forced ones beside it."""

    @property
    def is_open(self) -> bool:
        """Whether a scheduled execution is open."""
        return any(not run.execution.is_forced for run in self.runs)

    def is_as(self, job: Job) -> bool:
        """Whether nobody has moved the job on since it was `job`."""
        return (self.job.id, self.job.revision, self.job.next_time) == (job.id, job.revision, job.next_time)

    @property
    def alarm(self) -> Alarm | None:
        """When the job is due."""
        job = self.job
        if job.next_time is None:
            return None
        return Alarm(job.next_time, job.name, job.id, job.revision)


class Ticker(Loop):
    """Fires the jobs that this node owns."""

    def __init__(self, using: Attempts, clock: Clock, *, catch_up: Span | None, max_open: int) -> None:
        super().__init__(clock)
        self._using = using
        self._engine = using.engine
        self._catch_up = catch_up
        self._timers: dict[str, Timer] = {}
        self._heap: list[Alarm] = []
        self._runs: dict[asyncio.Task[None], ExecutionRun] = {}
        self._slots = asyncio.Semaphore(max_open)
        self._is_draining = False
        self._drained = asyncio.Event()

    async def load(self) -> None:
        """Take on every job, and go on with the executions that a stop or a crash left open."""
        for job in await self._engine.all_jobs():
            self._timers[job.name] = Timer(job)
        self._heap = [alarm for timer in self._timers.values() if (alarm := timer.alarm) is not None]
        heapq.heapify(self._heap)
        for execution in await self._engine.open_executions():
            timer = self._timers.get(execution.job)
            if timer is not None and timer.job.id == execution.job_id:
                self._start(timer, execution)

    # The contract with the service.

    def job_changed(self, job: Job) -> None:
        """A job was created, or callers changed it."""
        timer = self._timers.get(job.name)
        if timer is None or timer.job.id != job.id:
            timer = self._timers[job.name] = Timer(job)
        else:
            self._stop_retrying(timer, is_gone=False)
            timer.job = job
        self._set(timer)

    def job_deleted(self, job: Job) -> None:
        """A job is gone."""
        timer = self._timers.get(job.name)
        if timer is not None and timer.job.id == job.id:
            self._stop_retrying(timer, is_gone=True)
            del self._timers[job.name]

    def run(self, job: Job, execution: Execution) -> None:
        """Begin a forced execution that was committed."""
        timer = self._timers.get(job.name)
        if timer is not None and timer.job.id == job.id and not self._is_draining:
            self._start(timer, execution)

    def current(self, job: Job) -> Job:
        """The job with the retry that is waited for and the attempt that is out."""
        timer = self._timers.get(job.name)
        if timer is None or timer.job.id != job.id:
            return job
        last, retry_time = job.last_attempt_time, None
        for run in timer.runs:
            retry_time = retry_time or run.execution.retry_time
            last = max(filter(None, (last, run.execution.last_attempt_time)), default=None)
        return replace(job, last_attempt_time=last, next_time=retry_time or job.next_time)

    # The loop.

    async def run_once(self) -> Span:
        """Take one step for every job that is due, in batches; say when the next one is."""
        now = self.clock.now()
        due = self._due(now)
        while due and not self._is_draining:
            await self._step(due[:BATCH], now)
            due = due[BATCH:]
        while self._heap and self._is_void(self._heap[0]):
            heapq.heappop(self._heap)
        if not self._heap:
            return IDLE_WAIT
        return max(0, min(self._heap[0].time - self.clock.now(), LONGEST_WAIT))

    async def drain(self, grace: Span) -> int:
        """Fire no more; let attempts that are out end within the grace period. Returns how many did not."""
        self._is_draining = True
        for run in self._runs.values():
            run.park()
        if self._runs:
            await self.clock.wait(self._drained, grace)
        cut = list(self._runs)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        return len(cut)

    def _due(self, now: Instant) -> list[Timer]:
        due = []
        while self._heap and self._heap[0].time <= now:
            alarm = heapq.heappop(self._heap)
            if not self._is_void(alarm):
                due.append(self._timers[alarm.name])
        return due

    def _is_void(self, alarm: Alarm) -> bool:
        timer = self._timers.get(alarm.name)
        return timer is None or timer.alarm != alarm

    async def _step(self, timers: Sequence[Timer], now: Instant) -> None:
        """Commit one step for each of the jobs, and start what was committed."""
        steps = [(timer, timer.job, due) for timer in timers if (due := self._decide(timer, now)) is not None]
        ticks = [Tick(job, due.executions, due.next_time) for _, job, due in steps]
        applied = await self._commit(ticks, timers)
        for (timer, job, due), is_applied in zip(steps, applied, strict=True):
            if not is_applied:
                await self._refresh(timer, job, due)
                continue
            if timer.is_as(job):
                timer.job = replace(timer.job, next_time=due.next_time)
                self._set(timer)
            if due.start is not None and self._timers.get(job.name) is timer:
                self._start(timer, due.start)

    async def _commit(self, ticks: list[Tick], timers: Sequence[Timer]) -> list[bool]:
        try:
            return await self._engine.tick(ticks)
        except BaseException:
            # Nothing happened: the same instants are due again.
            for timer in timers:
                self._set(timer)
            raise

    def _decide(self, timer: Timer, now: Instant) -> Due | None:
        schedule = self._schedule(timer.job)
        if schedule is None:
            return None
        return rules.due(timer.job, schedule, now, is_open=timer.is_open, catch_up=self._catch_up)

    async def _refresh(self, timer: Timer, job: Job, due: Due) -> None:
        """A step was refused: take the job as it is stored, and pass over an instant that has its row already.

        Callers may have moved the job on meanwhile. Or the clock went back, and an edit planned instants again that had
        come before: they have their rows, and nothing fires twice.
        """
        try:
            stored = await self._engine.job(job.name)
        except NotFound:
            return
        if not timer.is_as(job):
            return
        if Timer(stored).is_as(job):
            await self._engine.tick([Tick(job, (), due.next_time)])
            stored = replace(stored, next_time=due.next_time)
        timer.job = stored
        self._set(timer)

    def _schedule(self, job: Job) -> Schedule | None:
        try:
            return parse_schedule(job.schedule, job.time_zone)
        except InvalidArgument as refusal:
            log.warning("schedule.invalid", job=job.name, reason=refusal.message)
            return None

    def _set(self, timer: Timer) -> None:
        alarm = timer.alarm
        if alarm is not None:
            heapq.heappush(self._heap, alarm)
            self.wake.set()

    def _start(self, timer: Timer, execution: Execution) -> None:
        schedule = self._schedule(timer.job)
        if schedule is None:
            return
        run = ExecutionRun(timer.job, schedule, execution)
        timer.runs.append(run)
        task = asyncio.get_running_loop().create_task(self._execute(timer, run))
        self._runs[task] = run
        task.add_done_callback(self._done)

    async def _execute(self, timer: Timer, run: ExecutionRun) -> None:
        try:
            async with self._slots:
                await execute(run, self._using)
        finally:
            timer.runs.remove(run)
        execution, interval = run.execution, run.schedule.interval
        is_waited_for = timer.job.next_time is None and not execution.is_forced
        if is_waited_for and interval is not None and execution.end_time is not None:
            timer.job = replace(timer.job, next_time=execution.end_time + interval)
            self._set(timer)

    def _done(self, task: asyncio.Task[None]) -> None:
        run = self._runs.pop(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("execution.failed", job=run.job.name, reason=repr(fault))
        if self._is_draining and not self._runs:
            self._drained.set()

    def _stop_retrying(self, timer: Timer, *, is_gone: bool) -> None:
        for run in timer.runs:
            if is_gone or not run.execution.is_forced:
                run.stop_retrying(is_gone=is_gone)

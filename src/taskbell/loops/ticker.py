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
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import structlog

from taskbell.clock import Clock
from taskbell.core import execution as rules
from taskbell.core.errors import InvalidArgument, NotFound
from taskbell.core.execution import Due, first_time
from taskbell.core.instant import SECOND, Instant, Span
from taskbell.core.job import Disposition, Execution, Job
from taskbell.core.schedule import Schedule, parse_schedule
from taskbell.engine import Tick
from taskbell.loops.attempt import Attempts
from taskbell.loops.execution import ExecutionRun, execute
from taskbell.loops.loop import Loop

log = structlog.get_logger("taskbell.ticker")

LONGEST_WAIT: Span = SECOND
"""The timer never sleeps longer while any job waits, so a step of the wall clock is noticed within this time."""
IDLE_WAIT: Span = 60 * SECOND
BATCH = 200
"""Rows in one commit, about: a herd of jobs on one minute starts in waves, the first after one short commit."""


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
    is_waiting: bool = False
    """Its instant has come and waits for the execution before it to end."""

    @property
    def is_open(self) -> bool:
        """Whether a scheduled execution is open."""
        return any(not run.execution.is_forced and not run.is_closed for run in self.runs)

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


class Step(NamedTuple):
    """What is to be committed for a job."""

    timer: Timer
    job: Job
    """As it was when it was decided."""
    due: Due


# Most jobs share few schedules, and reading one costs several times what its next instant does.
_parsed = lru_cache(maxsize=10_000)(parse_schedule)


class Ticker(Loop):
    """Fires the jobs that this node owns."""

    def __init__(
        self, using: Attempts, clock: Clock, *, catch_up: Span | None, max_open: int, delays_overlap: bool = False
    ) -> None:
        """`delays_overlap`: an instant that comes while an execution is open waits for its end, and is not skipped."""
        super().__init__(clock)
        self._delays_overlap = delays_overlap
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
                self._take_up(timer, execution)

    def _take_up(self, timer: Timer, execution: Execution) -> None:
        """Go on with an execution; where callers changed the job since it began, with what is left of it."""
        run = self._start(timer, execution)
        began = execution.start_time
        is_changed = began is not None and timer.job.user_update_time > began
        if run is not None and not execution.is_forced and is_changed:
            run.stop(timer.job)
            run.is_closed = False  # The store says that it is open.

    # The contract with the service.

    def job_changed(self, job: Job) -> None:
        """A job was created, or callers changed it."""
        timer = self._timers.get(job.name)
        if timer is None or timer.job.id != job.id:
            timer = self._timers[job.name] = Timer(job)
        else:
            timer.job, timer.is_waiting = job, False
            for run in timer.runs:
                if not run.execution.is_forced:
                    run.stop(job)
                if not run.is_out:
                    run.job = job
        self._set(timer)

    def job_deleted(self, job: Job) -> None:
        """A job is gone."""
        timer = self._timers.get(job.name)
        if timer is not None and timer.job.id == job.id:
            for run in timer.runs:
                run.abandon()
            del self._timers[job.name]

    def run(self, job: Job, execution: Execution) -> None:
        """Begin a forced execution that was committed."""
        timer = self._timers.get(job.name)
        if timer is not None and timer.job.id == job.id:
            self._start(timer, execution)

    def current(self, job: Job) -> Job:
        """The job with the retry that is waited for and the attempt that is out."""
        timer = self._timers.get(job.name)
        if timer is None or timer.job.id != job.id:
            return job
        last, retry_time = job.last_attempt_time, None
        for run in timer.runs:
            if run.may_attempt:
                retry_time = retry_time or run.execution.retry_time
            last = max(filter(None, (last, run.execution.last_attempt_time)), default=None)
        return replace(job, last_attempt_time=last, next_time=retry_time or job.next_time)

    # The loop.

    async def run_once(self) -> Span:
        """Take one step for every job that is due, in batches; say when the next one is."""
        now = self.clock.now()
        due = deque(self._due(now))
        try:
            while due and not self._is_draining:
                await self._step(self._decided(due, now))
        finally:
            # Not come to: a store that cannot be reached must not make us forget jobs.
            for timer in due:
                self._set(timer)
        while self._heap and self._is_void(self._heap[0]):
            heapq.heappop(self._heap)
        if not self._heap or self._is_draining:
            return IDLE_WAIT
        return max(0, min(self._heap[0].time - self.clock.now(), LONGEST_WAIT))

    async def drain(self, grace: Span) -> int:
        """Fire no more; let attempts that are out end within the grace period. Returns how many did not."""
        self._is_draining = True
        for task, run in self._runs.items():
            run.park()
            if not run.is_out:
                task.cancel()
        if self._runs:
            await self.clock.wait(self._drained, grace)
        cut = list(self._runs)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        return len(cut)

    def _due(self, now: Instant) -> Iterator[Timer]:
        while self._heap and self._heap[0].time <= now:
            alarm = heapq.heappop(self._heap)
            if not self._is_void(alarm):
                yield self._timers[alarm.name]

    def _is_void(self, alarm: Alarm) -> bool:
        timer = self._timers.get(alarm.name)
        return timer is None or timer.alarm != alarm

    def _decided(self, due: deque[Timer], now: Instant) -> list[Step]:
        """Take timers off the queue until their steps make one commit."""
        steps: list[Step] = []
        rows = 0
        while due and rows < BATCH:
            timer = due[0]
            schedule = self._schedule(timer.job)
            if schedule is not None and timer.is_open and self._delays_overlap and rules.may_wait(timer.job, schedule):
                timer.is_waiting = True
            elif schedule is not None:
                decision = rules.due(
                    timer.job,
                    schedule,
                    now,
                    is_open=timer.is_open,
                    catch_up=self._catch_up,
                    has_waited=timer.is_waiting,
                )
                steps.append(Step(timer, timer.job, decision))
                rows += len(decision.executions)
            due.popleft()
        return steps

    async def _step(self, steps: list[Step]) -> None:
        """Commit steps, and start what was committed."""
        left = deque(steps)
        try:
            applied = await self._engine.tick([Tick(job, due.executions, due.next_time) for _, job, due in steps])
            for step, is_applied in zip(steps, applied, strict=True):
                if is_applied:
                    self._go_on(step)
            left = deque(step for step, is_applied in zip(steps, applied, strict=True) if not is_applied)
            while left:
                await self._refresh(left[0])
                left.popleft()
        finally:
            # Nothing happened to these: the same instants are due again.
            for timer, _, _ in left:
                self._set(timer)

    def _go_on(self, step: Step) -> None:
        """A step was committed."""
        timer, job, due = step
        timer.is_waiting = False
        if timer.is_as(job):
            timer.job = replace(timer.job, next_time=due.next_time)
            self._set(timer)
        if due.start is None or self._timers.get(job.name) is not timer:
            return
        run = self._start(timer, due.start)
        if run is not None and timer.job.revision != job.revision:
            run.stop(timer.job)  # Changed since the commit.

    async def _refresh(self, step: Step) -> None:
        """A step was refused: take the job as it is stored, and pass over instants that have their rows already.

        Callers may have moved the job on meanwhile. Or the clock went back, and an edit planned instants again that had
        come before: they have their rows, and nothing fires twice.
        """
        timer, job, due = step
        try:
            stored = await self._engine.job(job.name)
            if not Timer(stored).is_as(job):
                if self._is_current(timer, job) and stored.id == job.id:
                    timer.job = stored
                    self._set(timer)
                return
            rest = await self._without_rows(job, due)
        except NotFound:
            return
        if (await self._engine.tick([Tick(job, rest.executions, rest.next_time)]))[0]:
            self._go_on(Step(timer, job, rest))
        elif self._is_current(timer, job):
            self._set(timer)

    async def _without_rows(self, job: Job, due: Due) -> Due:
        """What is left of a step whose instants have rows, some of them."""
        rest: list[Execution] = []
        for execution in due.executions:
            try:
                stored = await self._engine.execution(job.name, execution.instant, is_forced=False)
            except NotFound:
                rest.append(execution)
            else:
                # What an edit had dropped gives way, as in any step.
                if stored.disposition is Disposition.SUPERSEDED:
                    rest.append(execution)
        start = due.start if due.start in rest else None
        next_time = due.next_time
        if next_time is None and start is None and (schedule := self._schedule(job)) is not None:
            next_time = first_time(schedule, self.clock.now())
        return Due(tuple(rest), start, next_time)

    def _is_current(self, timer: Timer, job: Job) -> bool:
        """Whether nobody has moved the job on here since it was `job`."""
        return self._timers.get(job.name) is timer and timer.is_as(job)

    def _schedule(self, job: Job) -> Schedule | None:
        try:
            return _parsed(job.schedule, job.time_zone)
        except InvalidArgument as refusal:
            log.warning("schedule.invalid", job=job.name, reason=refusal.message)
            return None

    def _set(self, timer: Timer) -> None:
        alarm = timer.alarm
        if alarm is not None and self._timers.get(alarm.name) is timer:
            heapq.heappush(self._heap, alarm)
            self.wake.set()
            if len(self._heap) > 2 * len(self._timers) + BATCH:
                self._heap = [alarm for timer in self._timers.values() if (alarm := timer.alarm) is not None]
                heapq.heapify(self._heap)

    def _start(self, timer: Timer, execution: Execution) -> ExecutionRun | None:
        schedule = self._schedule(timer.job)
        if schedule is None or self._is_draining:
            return None  # The next start takes it up.
        run = ExecutionRun(timer.job, schedule, execution)
        timer.runs.append(run)
        task = asyncio.get_running_loop().create_task(self._execute(timer, run))
        self._runs[task] = run
        task.add_done_callback(self._done)
        return run

    async def _execute(self, timer: Timer, run: ExecutionRun) -> None:
        try:
            await execute(run, self._using, self._slots)
        finally:
            timer.runs.remove(run)
            if timer.is_waiting:
                self._set(timer)
        end_time, interval = run.execution.end_time, run.schedule.interval
        if interval is None or end_time is None or run.execution.is_forced or run.is_closed:
            return
        if timer.job.next_time is None:
            # The record of the last attempt has told the store the same.
            timer.job = replace(timer.job, next_time=end_time + interval)
            self._set(timer)
        else:
            await self._put_off(timer, end_time)

    async def _put_off(self, timer: Timer, end_time: Instant) -> None:
        """An edit, or a pause and resume, planned the next run while this one was going on: count from its end."""
        job, schedule = timer.job, self._schedule(timer.job)
        if schedule is None or schedule.interval is None or job.next_time is None:
            return
        next_time = end_time + schedule.interval
        if job.next_time < next_time and (await self._engine.tick([Tick(job, (), next_time)]))[0]:
            self._go_on(Step(timer, job, Due((), None, next_time)))

    def _done(self, task: asyncio.Task[None]) -> None:
        run = self._runs.pop(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("execution.failed", job=run.job.name, reason=repr(fault))
        if self._is_draining and not self._runs:
            self._drained.set()

"""The dispatcher: all lanes of this node, one timer, and the attempts that are out.

The service calls it after each commit (`service/dispatch.py` is the contract); the engine is read ahead, a window per
queue. Everything here happens in one event loop, so between two awaits nothing else moves.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import structlog

from taskbell.clock import Clock
from taskbell.core import attempt as rules
from taskbell.core.errors import QUEUE_DOES_NOT_EXIST, REQUESTED_ENTITY_NOT_FOUND, NotFound, TaskbellError, Unavailable
from taskbell.core.instant import SECOND, Instant, Span
from taskbell.core.queue import Queue
from taskbell.core.task import Task
from taskbell.core.throttle import is_overload
from taskbell.events import AttemptFinished, Result, TaskDispatched
from taskbell.loops.attempt import Attempts, Run, attempt
from taskbell.loops.lane import UNBOUNDED, ClockStep, Lane, Reading, Window
from taskbell.loops.loop import Loop

log = structlog.get_logger("taskbell.dispatcher")

LONGEST_WAIT: Span = SECOND
"""The timer never sleeps longer while anything waits, so a step of the wall clock is noticed within this time."""
IDLE_WAIT: Span = 60 * SECOND
STEP_TOLERANCE: Span = SECOND // 2
"""Going back by less than this is no step: nothing waits noticeably longer for it."""


class Dispatcher(Loop):
    """Dispatches the tasks of the queues that this node owns."""

    def __init__(self, using: Attempts, clock: Clock, window: Window, *, max_out: int = UNBOUNDED) -> None:
        """`max_out`: attempts that may be out over all queues; forced runs go past it, as past all pacing."""
        super().__init__(clock)
        self._max_out = max_out
        self._out = 0
        self._starved: dict[str, None] = {}
        """Lanes that could begin more but for `max_out`, the longest waiting first."""
        self._using = using
        self._engine = using.engine
        self._window = window
        self._lanes: dict[str, Lane] = {}
        self._dirty: dict[str, None] = {}
        """Lanes to look at, in the order in which something happened to them."""
        self._timers: list[tuple[Span, str]] = []
        self._timer_of: dict[str, Span] = {}
        self._attempts: set[asyncio.Future[None]] = set()
        self._latest_now = 0
        self._is_draining = False
        self._drained = asyncio.Event()
        using.events.subscribe(AttemptFinished, self._pace)

    async def load(self) -> None:
        """Take on every queue of the engine; their tasks are read as the lanes run."""
        for queue in await self._engine.all_queues():
            self._lanes[queue.name] = Lane(queue, self.clock.monotonic(), self._window, empty=False)
            self._dirty[queue.name] = None

    # The contract with the service.

    def offer(self, tasks: Sequence[Task]) -> None:
        """These tasks wait, by a create or a retry that was committed."""
        now = self._now()
        for task in tasks:
            lane = self._lanes.get(task.queue)
            if lane is not None:
                lane.offer(task, now)
                self._touch(task.queue)

    def forget(self, task: Task) -> None:
        """The task was deleted."""
        lane = self._lanes.get(task.queue)
        if lane is not None:
            lane.forget(task.id)
            self._touch(task.queue)

    async def run(self, queue: str, read: Callable[[], Awaitable[Task]]) -> Task:
        """Begin an attempt now, past bucket, slots and pause."""
        lane = self._lane(queue)
        task = None
        while task is None:
            task = await self._current_state(lane, read)
        if lane.is_purged(task.id) or self._lanes.get(queue) is not lane:
            raise NotFound(REQUESTED_ENTITY_NOT_FOUND)
        if self._is_draining:
            raise Unavailable("The server is shutting down.")
        now = self._now()
        return self._begin(lane, replace(task, schedule_time=min(task.schedule_time, now)), now, forced=True)

    async def _current_state(self, lane: Lane, read: Callable[[], Awaitable[Task]]) -> Task | None:
        """The newest state of the task that `read` finds, or None where it changed meanwhile and must be read again."""
        reading = lane.begin_reading()
        try:
            task = await read()
        finally:
            lane.abandon_reading(reading)
            # The lane may have waited for this to end before it reads ahead.
            self._touch(lane.queue.name)
        known = lane.known(task.id) or reading.arrivals.get(task.id)
        return task if known is None and task.id not in reading.changed else known

    def queue_changed(self, queue: Queue) -> None:
        """A queue is new, or its state or configuration is."""
        lane = self._lanes.get(queue.name)
        if lane is None:
            self._lanes[queue.name] = Lane(queue, self.clock.monotonic(), self._window, empty=True)
        else:
            lane.configure(queue, self.clock.monotonic())
        self._touch(queue.name)

    def queue_purged(self, queue: Queue, through: int) -> None:
        """A purge was committed."""
        self._lane(queue.name).purge(through)
        self.queue_changed(queue)

    def queue_deleted(self, name: str) -> None:
        """A queue is gone with its tasks; attempts that are out end without effect."""
        lane = self._lanes.pop(name, None)
        if lane is not None:
            lane.running.clear()

    def current(self, task: Task) -> Task:
        """The task as its attempt that is out left it."""
        lane = self._lanes.get(task.queue)
        running = lane.running.get(task.id) if lane is not None else None
        if running is None or running.dispatch_count <= task.dispatch_count:
            return task
        return replace(
            task,
            dispatch_count=running.dispatch_count,
            first_dispatch_time=running.first_dispatch_time,
            last_attempt=running.last_attempt,
        )

    # The loop.

    async def run_once(self) -> Span:
        """Begin every attempt that may begin, start the reads that lanes want, and say when to look again."""
        now, monotonic = self._now(), self.clock.monotonic()
        while self._timers and self._timers[0][0] <= monotonic:
            time, name = heapq.heappop(self._timers)
            # A timer that an earlier one has replaced means nothing any more.
            if self._timer_of.get(name) == time:
                del self._timer_of[name]
                self._dirty[name] = None
        # Who has waited longest for room goes first, or a busy lane would take each place that it has just freed.
        while self._starved and self._out < self._max_out and not self._is_draining:
            name = next(iter(self._starved))
            del self._starved[name]
            self._advance(name, now, monotonic)
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            self._advance(name, now, monotonic)
        if not self._timers:
            return IDLE_WAIT
        return max(0, min(self._timers[0][0] - monotonic, LONGEST_WAIT))

    async def drain(self, grace: Span) -> int:
        """Begin no more attempts; let those that are out end within the grace period. Returns how many did not."""
        self._is_draining = True
        if self._attempts:
            await self.clock.wait(self._drained, grace)
        cut = list(self._attempts)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        return len(cut)

    def _advance(self, name: str, now: Instant, monotonic: Span) -> None:
        lane = self._lanes.get(name)
        if lane is None or self._is_draining:
            self._starved.pop(name, None)
            return
        for task in lane.take(now, monotonic, max(0, self._max_out - self._out)):
            self._begin(lane, task, now, forced=False)
        if lane.wants_read:
            self._start(self._read_ahead(lane, lane.begin_reading()))
        delay = lane.next_delay(now)
        if delay == 0 and self._out >= self._max_out:
            self._starved.setdefault(name)
            return
        self._starved.pop(name, None)
        if delay is not None:
            self._set_timer(name, monotonic + min(delay, LONGEST_WAIT))

    def _begin(self, lane: Lane, task: Task, now: Instant, *, forced: bool) -> Task:
        """Record the dispatch and let the attempt run."""
        out = rules.dispatched(task, now)
        lane.began(out)
        self._out += 1
        run = Run(lane, out, self.clock.monotonic(), forced_time=now if forced else None)
        self._using.events.emit(TaskDispatched(out, now - task.schedule_time))
        self._start(self._attempt(run))
        return out

    async def _attempt(self, run: Run) -> None:
        retry: Task | None = None
        try:
            retry = await attempt(run, self._using)
        finally:
            run.lane.settled(run.task.id)
            run.lane.ended(run.task)
            self._out -= 1
            if retry is not None:
                self.offer([retry])
            self._touch(run.task.queue)

    async def _read_ahead(self, lane: Lane, reading: Reading) -> None:
        """Read the next window of a lane from the engine."""
        try:
            tasks = await self._engine.due_tasks(lane.queue.name, lane.horizon, self._window.tasks, self._window.bytes)
        except TaskbellError as refusal:
            log.warning("read.refused", queue=lane.queue.name, reason=refusal.message)
            lane.abandon_reading(reading)
            self._set_timer(lane.queue.name, self.clock.monotonic() + LONGEST_WAIT)
            return
        is_last = len(tasks) < self._window.tasks and sum(task.size for task in tasks) <= self._window.bytes
        lane.end_reading(reading, tasks, is_last=is_last, now=self._now())
        self._touch(lane.queue.name)

    def _pace(self, event: AttemptFinished) -> None:
        """Slow a queue down for an overloaded handler, and speed it up again."""
        lane = self._lanes.get(event.task.queue)
        if lane is None:
            return
        if event.result is Result.COMPLETED:
            moved = lane.throttle.succeeded()
        else:
            moved = is_overload(event.task, event.outcome.status) and lane.throttle.overloaded(self.clock.monotonic())
        if moved:
            lane.repace(self.clock.monotonic())

    def _now(self) -> Instant:
        """Wall time; notices when the clock goes back, so that what was due stays due."""
        now = self.clock.now()
        if now < self._latest_now - STEP_TOLERANCE:
            step = ClockStep(self._latest_now, self._engine.next_id(now))
            log.warning("clock.stepped_back", seconds=(self._latest_now - now) / SECOND)
            for name, lane in self._lanes.items():
                lane.clock_stepped_back(step)
                self._dirty[name] = None
            self._latest_now = now
        self._latest_now = max(self._latest_now, now)
        return now

    def _lane(self, queue: str) -> Lane:
        lane = self._lanes.get(queue)
        if lane is None:
            raise NotFound(QUEUE_DOES_NOT_EXIST)
        return lane

    def _touch(self, name: str) -> None:
        self._dirty[name] = None
        self.wake.set()

    def _set_timer(self, name: str, monotonic: Span) -> None:
        """Look at a lane at this time at the latest. An earlier timer of the same lane stands for both."""
        known = self._timer_of.get(name)
        if known is None or monotonic < known:
            self._timer_of[name] = monotonic
            heapq.heappush(self._timers, (monotonic, name))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._attempts.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._attempts.discard(task)
        if self._is_draining and not self._attempts:
            self._drained.set()

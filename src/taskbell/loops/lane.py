"""One queue's pacing: which of its tasks may be attempted now. No I/O, no clock, no tasks of the event loop.

The dispatcher owns the lanes and is their only caller. A lane holds a bounded window of its queue's waiting tasks in
memory; the rest stays in the engine. `horizon` is the line between the two: every waiting task whose due key is at or
before the horizon is here, and none beyond it is; no horizon means that all of them are here. So

- a task that is offered goes into memory when it lies before the horizon, and is ignored (the engine has it) otherwise;
- when the window grows too large, its far end is dropped and the horizon moves to what is left;
- when the window runs low and there is a horizon, the dispatcher reads the next stretch from the engine.

While such a read is under way, tasks may be created, deleted, run and settled. The lane notes the ids that changed and
the tasks offered meanwhile, so that a stale copy out of the read never comes back to life and no new task is missed.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from taskbell.core.bucket import Bucket
from taskbell.core.instant import EARLIEST, Instant, Span
from taskbell.core.queue import Queue, QueueState
from taskbell.core.task import DueKey, Task
from taskbell.core.throttle import Throttle

UNBOUNDED = sys.maxsize
BEFORE_ALL = DueKey(EARLIEST, -1)
_STALE_KEYS = 64
"""How many keys of tasks that are no longer held may lie about before it is worth looking for them."""


@dataclass(frozen=True, slots=True)
class Window:
    """How much of a queue may be in memory: tasks, and bytes as counted by Task.size."""

    tasks: int = 1000
    bytes: int = 4 << 20


class ClockStep(NamedTuple):
    """The wall clock went back: what was due at `latest_now` stays due for tasks created before, by id."""

    latest_now: Instant
    last_id: int


class Reading:
    """One read of the engine that is under way."""

    __slots__ = ("arrivals", "changed", "dropped")

    def __init__(self) -> None:
        self.changed: set[int] = set()
        self.arrivals: dict[int, Task] = {}
        self.dropped: DueKey | None = None

    def drop(self, key: DueKey) -> None:
        """Tasks from this key on are not all in memory, whatever the read says."""
        self.dropped = key if self.dropped is None else min(self.dropped, key)


class Lane:
    """The pacing of one queue."""

    def __init__(self, queue: Queue, monotonic: Span, window: Window, *, empty: bool) -> None:
        self.queue = queue
        self.window = window
        limits = queue.rate_limits
        self.throttle = Throttle(limits.max_dispatches_per_second)
        self.bucket = Bucket(limits.max_dispatches_per_second, limits.max_burst_size, monotonic)
        self.running: dict[int, Task] = {}
        """The newest attempt that is out, by task id: the task as dispatched."""
        self.slots_taken = 0
        """Attempts that are out, older ones of one task included."""
        self.horizon: DueKey | None = None if empty else BEFORE_ALL
        self._held: dict[int, Task] = {}
        self._held_bytes = 0
        self._ready: list[DueKey] = []
        self._waiting: list[DueKey] = []
        self._purged_through = -1
        self._readings: list[Reading] = []
        self._step: ClockStep | None = None

    # What the queue is allowed.

    def configure(self, queue: Queue, monotonic: Span) -> None:
        """The queue's state or configuration changed."""
        self.queue = queue
        self.throttle.configure(queue.rate_limits.max_dispatches_per_second)
        self.repace(monotonic)

    def repace(self, monotonic: Span) -> None:
        """The effective rate moved."""
        self.bucket.adjust(self.throttle.rate, self.queue.rate_limits.max_burst_size, monotonic)

    # Tasks that come and go.

    def offer(self, task: Task, now: Instant) -> None:
        """The task waits, by a create or a retry that was committed."""
        key = task.due_key
        is_near = self.horizon is None or key <= self.horizon
        for reading in self._readings:
            reading.changed.add(task.id)
            if not is_near:
                self._note_arrival(reading, task)
        if is_near:
            self._hold(task, now)
            self._trim()

    def forget(self, task_id: int) -> None:
        """The task is gone: no attempt of it begins, and the outcome of one that is out means nothing."""
        self._note_change(task_id)
        self._drop(task_id)
        self.running.pop(task_id, None)

    def purge(self, through: int) -> None:
        """All tasks with ids up to `through` are gone."""
        self._purged_through = max(self._purged_through, through)
        for task_id in [i for i in self._held if i <= through]:
            self._drop(task_id)
        for task_id in [i for i in self.running if i <= through]:
            del self.running[task_id]

    def is_purged(self, task_id: int) -> bool:
        """Whether a purge covered the task."""
        return task_id <= self._purged_through

    def known(self, task_id: int) -> Task | None:
        """The newest state of a task that memory has: out, or waiting."""
        return self.running.get(task_id) or self._held.get(task_id)

    # Attempts.

    def take(self, now: Instant, monotonic: Span, room: int = UNBOUNDED) -> list[Task]:
        """The tasks whose attempts begin now, `room` at the most; their tokens are spent and they are no longer held.

        A task past its time to live is let go: the sweeper removes its row.
        """
        if self.queue.state is not QueueState.RUNNING:
            return []
        self._promote(now)
        free = min(room, self.queue.rate_limits.max_concurrent_dispatches - self.slots_taken)
        # The bucket is asked even where nothing is free: `next_delay` counts from when it was last filled.
        allowed = min(free, self.bucket.available(monotonic))
        taken: list[Task] = []
        while self._ready and len(taken) < allowed:
            key = heapq.heappop(self._ready)
            task = self._held.get(key.id)
            if task is None or task.due_key != key:
                continue
            self._drop(key.id)
            if task.create_time + self.queue.task_ttl > now:
                taken.append(task)
        self.bucket.take(len(taken))
        return taken

    def began(self, task: Task) -> None:
        """An attempt is out; `task` is as dispatched."""
        self._note_change(task.id)
        self._drop(task.id)
        self.running[task.id] = task
        self.slots_taken += 1

    def is_current(self, task: Task) -> bool:
        """Whether this attempt is the newest of its task, which was neither deleted nor purged."""
        return self.running.get(task.id) is task

    def ended(self, task: Task) -> None:
        """The attempt no longer takes a slot."""
        self.slots_taken -= 1
        if self.is_current(task):
            del self.running[task.id]

    def settled(self, task_id: int) -> None:
        """The task's row changed by a settlement."""
        self._note_change(task_id)

    # Reading ahead.

    @property
    def wants_read(self) -> bool:
        """Whether the window is low, the engine has more, and no read is under way."""
        if self.horizon is None or self._readings or self.queue.state is not QueueState.RUNNING:
            return False
        return len(self._held) <= self.window.tasks // 2 and self._held_bytes <= self.window.bytes // 2

    def begin_reading(self) -> Reading:
        """Start to note what changes while the engine is being read."""
        reading = Reading()
        self._readings.append(reading)
        return reading

    def abandon_reading(self, reading: Reading) -> None:
        """Stop noting; the read failed or was for a single task."""
        self._readings.remove(reading)

    def end_reading(self, reading: Reading, tasks: Sequence[Task], *, is_last: bool, now: Instant) -> None:
        """Take in what was read after the horizon; `is_last` says that nothing lies beyond it."""
        self._readings.remove(reading)
        end = None if is_last or not tasks else tasks[-1].due_key
        if reading.dropped is not None and (end is None or reading.dropped <= end):
            # More arrived meanwhile than we may keep: everything from the first one dropped on is read again later.
            end = DueKey(reading.dropped.schedule_time, reading.dropped.id - 1)
        self.horizon = end
        fresh = (task for task in tasks if task.id not in reading.changed)
        for task in (*fresh, *reading.arrivals.values()):
            if (end is None or task.due_key <= end) and task.id not in self._held:
                self._hold(task, now)
        self._trim()

    # Time.

    def clock_stepped_back(self, step: ClockStep) -> None:
        """What is due stays due although the wall clock now says otherwise."""
        self._promote(step.latest_now)
        if self._step is None or step.latest_now > self._step.latest_now:
            self._step = step

    def next_delay(self, now: Instant) -> Span | None:
        """How long until `take` may return something, after it has just been called; None: only an event can tell."""
        if self.queue.state is not QueueState.RUNNING:
            return None
        self._skip_stale(self._ready)
        if self._ready:
            has_slot = self.slots_taken < self.queue.rate_limits.max_concurrent_dispatches
            return self.bucket.delay() if has_slot else None
        self._skip_stale(self._waiting)
        return max(0, self._waiting[0].schedule_time - now) if self._waiting else None

    @property
    def held(self) -> int:
        """Waiting tasks in memory."""
        return len(self._held)

    def _hold(self, task: Task, now: Instant) -> None:
        if task.id <= self._purged_through or task.id in self.running:
            # A newer attempt is out (a forced run, or one that a read made possible before its create was answered):
            # its own end says how the task goes on.
            return
        self._drop(task.id)
        self._held[task.id] = task
        self._held_bytes += task.size
        heapq.heappush(self._ready if self._is_due(task, now) else self._waiting, task.due_key)
        if len(self._ready) + len(self._waiting) > 2 * len(self._held) + _STALE_KEYS:
            self._compact()

    def _drop(self, task_id: int) -> None:
        """Remove from memory; the heaps' keys go stale and are skipped when they surface."""
        task = self._held.pop(task_id, None)
        if task is not None:
            self._held_bytes -= task.size

    def _is_due(self, task: Task, now: Instant) -> bool:
        if task.schedule_time <= now:
            return True
        step = self._step
        if step is None or task.dispatch_count:
            return False
        return task.schedule_time <= step.latest_now and task.id <= step.last_id

    def _promote(self, now: Instant) -> None:
        while self._waiting and self._waiting[0].schedule_time <= now:
            heapq.heappush(self._ready, heapq.heappop(self._waiting))

    def _skip_stale(self, heap: list[DueKey]) -> None:
        while heap:
            task = self._held.get(heap[0].id)
            if task is not None and task.due_key == heap[0]:
                return
            heapq.heappop(heap)

    def _trim(self) -> None:
        """Drop the far end of a window that has outgrown its bounds by half, down to the bounds."""
        if len(self._held) <= self.window.tasks * 3 // 2 and self._held_bytes <= self.window.bytes * 3 // 2:
            return
        kept_bytes = 0
        keep: list[Task] = []
        for task in sorted(self._held.values(), key=lambda task: task.due_key):
            kept_bytes += task.size
            if keep and (len(keep) >= self.window.tasks or kept_bytes > self.window.bytes):
                break
            keep.append(task)
        if len(keep) == len(self._held):
            return
        self.horizon = keep[-1].due_key
        kept = {task.id for task in keep}
        for reading in self._readings:
            reading.drop(DueKey(self.horizon.schedule_time, self.horizon.id + 1))
        for task_id in [i for i in self._held if i not in kept]:
            self._drop(task_id)
        self._compact()

    def _compact(self) -> None:
        """Let go of stale keys: far-off tasks that are deleted would otherwise leave theirs until they are due."""
        self._ready = self._only_held(self._ready)
        self._waiting = self._only_held(self._waiting)

    def _only_held(self, keys: Iterable[DueKey]) -> list[DueKey]:
        """A heap of the keys that still stand; sorted is a heap."""
        return sorted({key for key in keys if key.id in self._held and self._held[key.id].due_key == key})

    def _note_change(self, task_id: int) -> None:
        for reading in self._readings:
            reading.changed.add(task_id)
            reading.arrivals.pop(task_id, None)

    def _note_arrival(self, reading: Reading, task: Task) -> None:
        key = task.due_key
        if len(reading.arrivals) < self.window.tasks:
            reading.arrivals[task.id] = task
        else:
            reading.drop(key)

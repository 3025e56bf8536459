"""The reference engine: plain dicts that do what the contract says, and nothing to outlive the process.

It is the oracle of the other engines' tests, so it implements the meaning directly (a purge removes its tasks at once)
and owes nothing to SQL. Every verb runs without an await inside, so it is atomic and verbs take effect as called.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from taskbell.core.errors import (
    QUEUE_DOES_NOT_EXIST,
    QUEUE_EXISTED_TOO_RECENTLY,
    QUEUE_EXISTS,
    REQUESTED_ENTITY_NOT_FOUND,
    TASK_EXISTED_RECENTLY,
    TASK_EXISTED_TOO_RECENTLY,
    TASK_EXISTS,
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    TaskbellError,
)
from taskbell.core.instant import Instant, Span
from taskbell.core.queue import Queue, QueueState
from taskbell.core.task import DueKey, Task
from taskbell.engine import Settlement, Swept
from taskbell.engines.ids import IdSequence, floor_id
from taskbell.engines.memory_jobs import MemoryJobs
from taskbell.events import Events


def make_engine(rest: str, _: Events | None) -> MemoryEngine:
    """The engine of `memory:`. It commits nothing, so it has nothing to tell."""
    check_store(rest)
    return MemoryEngine()


def check_store(rest: str) -> None:
    """There is nothing to check but the URL."""
    if rest:
        raise InvalidArgument(f"The store memory: takes nothing after its colon, and was given {rest!r}.")


@dataclass(slots=True)
class _Shelf:
    """A queue with what it holds."""

    queue: Queue
    tasks: dict[int, Task] = field(default_factory=dict)
    due: list[DueKey] = field(default_factory=list)
    """The keys of all tasks, sorted."""
    names: dict[str, int] = field(default_factory=dict)
    """Names that callers chose, to the ids of their tasks."""
    tombstones: dict[str, Instant] = field(default_factory=dict)
    """Names of former tasks, to the instants from which they are free."""

    def find(self, task_id: str) -> Task | None:
        """The task of a chosen name, else the task without one whose number this is."""
        if task_id in self.names:
            return self.tasks[self.names[task_id]]
        if task_id.isascii() and task_id.isdigit():
            task = self.tasks.get(int(task_id[:20]))
            if task is not None and not task.named and task.task_id == task_id:
                return task
        return None

    def add(self, task: Task) -> None:
        self.tasks[task.id] = task
        bisect.insort(self.due, task.due_key)
        if task.named:
            self.names[task.task_id] = task.id

    def remove(self, task: Task) -> None:
        del self.tasks[task.id]
        del self.due[bisect.bisect_left(self.due, task.due_key)]
        if task.named:
            del self.names[task.task_id]

    def bury(self, task: Task, now: Instant) -> None:
        """Remove a task and block its name, if it had one, for the queue's tombstone_ttl."""
        self.remove(task)
        if task.named:
            self.tombstones[task.task_id] = now + self.queue.tombstone_ttl

    def is_blocked(self, task_id: str, now: Instant) -> bool:
        return self.tombstones.get(task_id, now) > now

    def page(self, after: DueKey | None, limit: int) -> list[Task]:
        start = 0 if after is None else bisect.bisect_right(self.due, after)
        return [self.tasks[key.id] for key in self.due[start : start + limit]]


class MemoryEngine(MemoryJobs):
    """Everything in this process. See `taskbell.engine.Engine` for what every verb promises."""

    def __init__(self) -> None:
        super().__init__()
        self._shelves: dict[str, _Shelf] = {}
        self._tombstones: dict[str, Instant] = {}
        self._policies: dict[str, bytes] = {}
        self._records: dict[str, bytes] = {}
        self._ids = IdSequence(0)

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def next_id(self, now: Instant) -> int:
        """A new id."""
        return self._ids.next_id(now)

    # Tasks, hot.

    async def create_tasks(self, tasks: Sequence[Task]) -> list[TaskbellError | None]:
        """Insert tasks."""
        return [self._create(task) for task in tasks]

    def _create(self, task: Task) -> TaskbellError | None:
        shelf = self._shelves.get(task.queue)
        if shelf is None:
            return NotFound(QUEUE_DOES_NOT_EXIST)
        if task.named and shelf.find(task.task_id) is not None:
            return AlreadyExists(TASK_EXISTS)
        if task.named and shelf.is_blocked(task.task_id, task.create_time):
            return AlreadyExists(TASK_EXISTED_TOO_RECENTLY)
        shelf.add(task)
        return None

    async def settle(self, settlements: Sequence[Settlement], now: Instant) -> list[bool]:
        """Apply outcomes."""
        return [self._settle(settlement, now) for settlement in settlements]

    def _settle(self, settlement: Settlement, now: Instant) -> bool:
        shelf = self._shelves.get(settlement.task.queue)
        task = None if shelf is None else shelf.tasks.get(settlement.task.id)
        if shelf is None or task is None:
            return False
        retry = settlement.retry
        if retry is None:
            shelf.bury(task, now)
            return True
        if task.dispatch_count >= retry.dispatch_count:
            return False
        shelf.remove(task)
        shelf.add(retry)
        return True

    async def due_tasks(self, queue: str, after: DueKey | None, limit: int, max_bytes: int) -> list[Task]:
        """The next tasks of a queue."""
        shelf = self._shelves.get(queue)
        tasks: list[Task] = []
        size = 0
        for task in [] if shelf is None else shelf.page(after, limit):
            if size > max_bytes:
                break
            tasks.append(task)
            size += task.size
        return tasks

    # Tasks, by name.

    async def task(self, queue: str, task_id: str, now: Instant) -> Task:
        """One task."""
        shelf = self._shelf(queue)
        task = shelf.find(task_id)
        if task is not None:
            return task
        raise NotFound(TASK_EXISTED_RECENTLY if shelf.is_blocked(task_id, now) else REQUESTED_ENTITY_NOT_FOUND)

    async def tasks(self, queue: str, after: DueKey | None, limit: int, *, bodies: bool) -> list[Task]:
        """One page of tasks."""
        page = self._shelf(queue).page(after, limit)
        return page if bodies else [replace(task, target=replace(task.target, body=b"")) for task in page]

    async def delete_task(self, queue: str, task_id: str, now: Instant) -> Task:
        """Remove one task."""
        shelf = self._shelf(queue)
        task = shelf.find(task_id)
        if task is None:
            raise NotFound(REQUESTED_ENTITY_NOT_FOUND)
        shelf.bury(task, now)
        return task

    # Queues.

    async def create_queue(self, queue: Queue, now: Instant) -> None:
        """Insert a queue."""
        if queue.name in self._shelves:
            raise AlreadyExists(QUEUE_EXISTS)
        self._refuse_tombstoned(queue.name, now)
        self._insert(queue)

    async def update_queue(self, name: str, change: Callable[[Queue | None], Queue], now: Instant) -> Queue:
        """Replace or insert a queue."""
        shelf = self._shelves.get(name)
        if shelf is not None:
            shelf.queue = change(shelf.queue)
            return shelf.queue
        self._refuse_tombstoned(name, now)
        queue = change(None)
        self._insert(queue)
        return queue

    async def queue(self, name: str) -> Queue:
        """One queue."""
        return self._shelf(name).queue

    async def queues(self, parent: str, after: str, limit: int) -> list[Queue]:
        """Queues of a location after a name."""
        prefix = parent + "/queues/"
        names = sorted(name for name in self._shelves if name.startswith(prefix) and name > after)
        return [self._shelves[name].queue for name in names[:limit]]

    async def all_queues(self) -> list[Queue]:
        """Every queue."""
        return [shelf.queue for shelf in self._shelves.values()]

    async def set_queue_state(self, name: str, state: QueueState) -> Queue:
        """Pause or resume."""
        shelf = self._shelf(name)
        shelf.queue = replace(shelf.queue, state=state)
        return shelf.queue

    async def purge_queue(self, name: str, now: Instant) -> tuple[Queue, int]:
        """Remove all tasks that were created before."""
        through = self.next_id(now)
        shelf = self._shelf(name)
        for task in list(shelf.tasks.values()):
            shelf.bury(task, now)
        shelf.queue = replace(shelf.queue, purge_time=now)
        return shelf.queue, through

    async def delete_queue(self, name: str, now: Instant, tombstone: Span) -> None:
        """Remove a queue."""
        if name not in self._shelves:
            raise NotFound(REQUESTED_ENTITY_NOT_FOUND)
        del self._shelves[name]
        self._policies.pop(name, None)
        if tombstone > 0:
            self._tombstones[name] = now + tombstone

    # Small things.

    async def policy(self, resource: str) -> bytes | None:
        """A stored policy."""
        return self._policies.get(resource)

    async def set_policy(self, resource: str, policy: bytes, expected: bytes | None) -> bool:
        """Replace a policy."""
        if expected is not None and self._policies.get(resource) != expected:
            return False
        self._policies[resource] = policy
        return True

    async def record(self, key: str) -> bytes | None:
        """A small record."""
        return self._records.get(key)

    async def put_record(self, key: str, value: bytes, *, replace: bool = True) -> bytes:
        """Store a small record."""
        if replace or key not in self._records:
            self._records[key] = value
        return self._records[key]

    # Upkeep.

    async def sweep(self, now: Instant, limit: int) -> Swept:
        """Remove what has ended. Purged tasks and deleted queues are gone already."""
        expired = sorted(
            (shelf.queue.task_ttl, task.id, name)
            for name, shelf in self._shelves.items()
            for task in shelf.tasks.values()
            if task.id < floor_id(now - shelf.queue.task_ttl)
        )[:limit]
        for _, task_id, name in expired:
            self._shelves[name].bury(self._shelves[name].tasks[task_id], now)
        tombstones = 0
        for shelf in self._shelves.values():
            for name in _ended(shelf.tombstones, now, limit - tombstones):
                del shelf.tombstones[name]
                tombstones += 1
        queues = _ended(self._tombstones, now, limit)
        for name in queues:
            del self._tombstones[name]
        return Swept(len(expired), 0, tombstones, len(queues))

    async def depths(self) -> dict[str, int]:
        """Waiting tasks of each queue."""
        return {name: len(shelf.tasks) for name, shelf in self._shelves.items()}

    def _shelf(self, name: str) -> _Shelf:
        shelf = self._shelves.get(name)
        if shelf is None:
            raise NotFound(QUEUE_DOES_NOT_EXIST)
        return shelf

    def _refuse_tombstoned(self, name: str, now: Instant) -> None:
        if self._tombstones.get(name, now) > now:
            raise FailedPrecondition(QUEUE_EXISTED_TOO_RECENTLY)

    def _insert(self, queue: Queue) -> None:
        self._tombstones.pop(queue.name, None)
        self._shelves[queue.name] = _Shelf(queue)


def _ended(tombstones: dict[str, Instant], now: Instant, limit: int) -> list[str]:
    return [name for name, expire_time in tombstones.items() if expire_time <= now][:limit]

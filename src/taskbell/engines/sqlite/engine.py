"""The SQLite engine: one file, one writer thread that groups commits, a few reading threads.

What waits goes through `writer.py`, where each batch is one transaction (`batch.py`, `verbs.py`, `sweep.py`); reads of
tasks go to `reader.py`; queues are answered from memory (`catalog.py`), which follows the commits. Jobs: `jobs.py`.
"""

from __future__ import annotations

import asyncio
import bisect
import sqlite3
from collections.abc import Callable, Sequence

from taskbell.core.errors import QUEUE_DOES_NOT_EXIST, NotFound, TaskbellError
from taskbell.core.instant import Instant, Span
from taskbell.core.queue import Queue, QueueState
from taskbell.core.task import DueKey, Task
from taskbell.engine import Settlement, Swept
from taskbell.engines.ids import IdSequence
from taskbell.engines.sqlite import verbs
from taskbell.engines.sqlite.catalog import Catalog, QueueRow, queue_row
from taskbell.engines.sqlite.jobs import SqliteJobs
from taskbell.engines.sqlite.queries import QUERIES
from taskbell.engines.sqlite.reader import Reader, due_page, named_task, small_value
from taskbell.engines.sqlite.rows import ROW_OVERHEAD, new_task
from taskbell.engines.sqlite.store import StoreLock, connect_reader, open_store, refusal_of
from taskbell.engines.sqlite.sweep import Walks, sweep
from taskbell.engines.sqlite.writer import Create, Settle, Writer
from taskbell.events import Events

_NO_LIMIT = 2**62


class SqliteEngine(SqliteJobs):
    """One SQLite file. See `taskbell.engine.Engine` for what every verb promises."""

    def __init__(self, path: str, events: Events | None = None) -> None:
        super().__init__()
        self._path = path
        self._events = events or Events()
        self._queues: dict[str, QueueRow] = {}
        self._names: list[str] | None = None
        self._counted: asyncio.Future[dict[int, int]] | None = None
        self._walks: Walks = {}

    async def open(self) -> None:
        """Lock and migrate the file, and read what belongs in memory: the queues and the last id, not the tasks."""
        loop = asyncio.get_running_loop()
        lock, connection, snapshot, rows, last_id = await loop.run_in_executor(None, _open, self._path)
        self._lock = lock
        self._ids = IdSequence(last_id)
        self._queues = dict(rows)
        self._reader = Reader(self._path)
        self._writer = Writer(self._path, connection, Catalog(rows), last_id, self._events)
        # The writer counts what changes from here on; the tasks there already are counted in the background.
        self._counted = loop.run_in_executor(None, _count, snapshot, self._path)
        self._writer.start(self._follow)

    async def close(self) -> None:
        """Let the writer finish, end the threads, let go of the file."""
        writer, reader, lock, counted = self._writer, self._reader, self._lock, self._counted
        if writer is None or reader is None or lock is None or counted is None:
            return
        await writer.stop(self._ids.last)
        if self._lock is None:
            return  # Closed by another caller meanwhile.
        self._lock = None
        await asyncio.gather(counted, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, reader.close)
        lock.release()

    def next_id(self, now: Instant) -> int:
        """A new id."""
        return self._ids.next_id(now)

    # Tasks, hot.

    async def create_tasks(self, tasks: Sequence[Task]) -> list[TaskbellError | None]:
        """Insert tasks."""
        writer = self._open_writer()
        rows = [new_task(task) for task in tasks]
        operation = Create(writer.future(), sum(task.size for task in tasks), self._ids.last, tasks=rows)
        answers: list[TaskbellError | None] = await writer.submit(operation)
        return answers

    async def settle(self, settlements: Sequence[Settlement], now: Instant) -> list[bool]:
        """Apply outcomes."""
        writer = self._open_writer()
        size = ROW_OVERHEAD * len(settlements)
        operation = Settle(writer.future(), size, self._ids.last, settlements=settlements, now=now)
        answers: list[bool] = await writer.submit(operation)
        return answers

    async def due_tasks(self, queue: str, after: DueKey | None, limit: int, max_bytes: int) -> list[Task]:
        """The next tasks of a queue."""
        if queue not in self._queues:
            return []
        page = await self._read(lambda connection: due_page(connection, queue, after, limit, max_bytes, bodies=True))
        return page.tasks

    # Tasks, by name.

    async def task(self, queue: str, task_id: str, now: Instant) -> Task:
        """One task."""
        return await self._read(lambda connection: named_task(connection, queue, task_id, now))

    async def tasks(self, queue: str, after: DueKey | None, limit: int, *, bodies: bool) -> list[Task]:
        """One page of tasks."""
        page = await self._read(
            lambda connection: due_page(connection, queue, after, limit, _NO_LIMIT, bodies=bodies),
        )
        if not page.has_queue:
            raise NotFound(QUEUE_DOES_NOT_EXIST)
        return page.tasks

    async def delete_task(self, queue: str, task_id: str, now: Instant) -> Task:
        """Remove one task."""
        task: Task = await self._change(lambda batch: verbs.delete_task(batch, queue, task_id, now))
        return task

    # Queues.

    async def create_queue(self, queue: Queue, now: Instant) -> None:
        """Insert a queue."""
        ids = (self.next_id(now), self.next_id(now))
        await self._change(lambda batch: verbs.create_queue(batch, queue, ids, now))

    async def update_queue(self, name: str, change: Callable[[Queue | None], Queue], now: Instant) -> Queue:
        """Replace or insert a queue."""
        ids = (self.next_id(now), self.next_id(now))
        queue: Queue = await self._change(lambda batch: verbs.update_queue(batch, name, change, ids, now))
        return queue

    async def queue(self, name: str) -> Queue:
        """One queue."""
        row = self._queues.get(name)
        if row is None:
            raise NotFound(QUEUE_DOES_NOT_EXIST)
        return row.queue

    async def queues(self, parent: str, after: str, limit: int) -> list[Queue]:
        """Queues of a location after a name."""
        if self._names is None:
            self._names = sorted(self._queues)
        prefix = parent + "/queues/"
        start = bisect.bisect_right(self._names, max(after, prefix))
        page: list[Queue] = []
        for name in self._names[start : start + limit]:
            if not name.startswith(prefix):
                break
            page.append(self._queues[name].queue)
        return page

    async def all_queues(self) -> list[Queue]:
        """Every queue."""
        return [row.queue for row in self._queues.values()]

    async def set_queue_state(self, name: str, state: QueueState) -> Queue:
        """Pause or resume."""
        queue: Queue = await self._change(lambda batch: verbs.set_queue_state(batch, name, state))
        return queue

    async def purge_queue(self, name: str, now: Instant) -> tuple[Queue, int]:
        """Remove all tasks whose creation was asked for before this call."""
        # Creates asked for earlier stand before this in the writer's queue, so they are of the old generation; the id
        # tells the caller the same frontier.
        through = self.next_id(now)
        generation = self.next_id(now)
        queue: Queue = await self._change(lambda batch: verbs.purge_queue(batch, name, generation, now))
        return queue, through

    async def delete_queue(self, name: str, now: Instant, tombstone: Span) -> None:
        """Remove a queue."""
        await self._change(lambda batch: verbs.delete_queue(batch, name, now, tombstone))

    # Small things.

    async def policy(self, resource: str) -> bytes | None:
        """A stored policy."""
        return await self._read(lambda connection: small_value(connection, "policy", resource))

    async def set_policy(self, resource: str, policy: bytes, expected: bytes | None) -> bool:
        """Replace a policy."""
        is_set: bool = await self._change(lambda batch: verbs.set_policy(batch, resource, policy, expected))
        return is_set

    async def record(self, key: str) -> bytes | None:
        """A small record."""
        return await self._read(lambda connection: small_value(connection, "record", key))

    async def put_record(self, key: str, value: bytes, *, replace: bool = True) -> bytes:
        """Store a small record."""
        stored: bytes = await self._change(lambda batch: verbs.put_record(batch, key, value, replace=replace))
        return stored

    # Upkeep.

    async def sweep(self, now: Instant, limit: int) -> Swept:
        """Remove what has ended."""
        walks = self._walks
        swept: Swept
        swept, self._walks = await self._change(lambda batch: sweep(batch, now, limit, walks))
        return swept

    async def depths(self) -> dict[str, int]:
        """Waiting tasks of each queue: counted once at the start, followed since."""
        writer = self._open_writer()
        assert self._counted is not None
        counted = await asyncio.shield(self._counted)
        return {
            name: counted.get(row.generation, 0) + writer.depths.get(row.generation, 0)
            for name, row in self._queues.items()
        }

    def _follow(self, changes: dict[str, QueueRow | None]) -> None:
        """Take over what a commit did to the queues; runs on the event loop before its callers are answered."""
        assert self._writer is not None
        self._names = None
        for name, row in changes.items():
            former = self._queues.pop(name, None)
            if former is not None and (row is None or row.generation != former.generation):
                # Nothing changes a retired generation's count any more, and nobody asks for it.
                self._writer.depths.pop(former.generation, None)
            if row is not None:
                self._queues[name] = row


def _open(path: str) -> tuple[StoreLock, sqlite3.Connection, sqlite3.Connection, dict[str, QueueRow], int]:
    """Everything that opening needs of the disk. Blocks."""
    lock = StoreLock(path)
    try:
        connection = open_store(path)
        retired: dict[int, tuple[int, ...]] = {}
        try:
            for generation, queue_id, _ in connection.execute(QUERIES["all_retired_generations"]):
                retired[queue_id] = (*retired.get(queue_id, ()), generation)
            rows = [queue_row(row, retired.get(row[0], ())) for row in connection.execute(QUERIES["all_queues"])]
            (last_id,) = connection.execute(QUERIES["last_id"]).fetchone()
            snapshot = _snapshot(path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        lock.release()
        raise refusal_of(error, path) from error
    except BaseException:
        lock.release()
        raise
    return lock, connection, snapshot, {row.queue.name: row for row in rows}, last_id


def _snapshot(path: str) -> sqlite3.Connection:
    """A connection that goes on seeing the state of now, whatever the writer does later."""
    snapshot = connect_reader(path)
    try:
        snapshot.execute("BEGIN")
        snapshot.execute("PRAGMA user_version").fetchone()  # The first read is what fixes the state.
    except BaseException:
        snapshot.close()
        raise
    return snapshot


def _count(snapshot: sqlite3.Connection, path: str) -> dict[int, int]:
    """Tasks of each generation in the snapshot."""
    try:
        return dict(snapshot.execute(QUERIES["count_tasks"]).fetchall())
    except sqlite3.Error as error:
        raise refusal_of(error, path) from error
    finally:
        snapshot.close()

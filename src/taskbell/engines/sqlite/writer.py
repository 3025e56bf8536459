"""The writer thread: everything that waits becomes one transaction, answered after its commit.

Callers on the event loop append operations; the thread takes all of them at once, so what arrived while the last
commit ran goes into the next one, and a lonely operation commits at once. A batch is whole or absent: a database error
rolls it back and every operation in it is told so; the next batch tries the database afresh.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from taskbell.core.errors import Internal, ResourceExhausted, TaskbellError, Unavailable
from taskbell.core.instant import SECOND, Instant
from taskbell.engine import Settlement
from taskbell.engines.ids import id_span
from taskbell.engines.sqlite.batch import Batch, CreateAnswers, Recount
from taskbell.engines.sqlite.catalog import Catalog, QueueRow
from taskbell.engines.sqlite.rows import NewTask
from taskbell.engines.sqlite.store import connect_writer, is_broken, refusal_of
from taskbell.events import BatchCommitted, Events

_BATCH_OPERATIONS = 1000
_BATCH_BYTES = 32 * 1024 * 1024
_WAITING_OPERATIONS = 100_000
_WAITING_BYTES = 256 * 1024 * 1024
_ID_MARGIN = id_span(10 * SECOND)
"""How far ahead the persisted `last_id` runs, so that it is written every ten seconds and not with each commit."""


@dataclass(slots=True, eq=False)
class Operation:
    """One verb on its way through the writer."""

    future: asyncio.Future[Any]
    size: int
    last_id: int
    """The greatest id handed out before the verb was called."""
    outcome: Any = None
    error: BaseException | None = None

    def run(self, batch: Batch) -> None:
        """Do it, or collect it for the batch's next flush. Runs again, from the start, if its batch is rolled back."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Create(Operation):
    """Insert tasks."""

    tasks: Sequence[NewTask] = ()

    def run(self, batch: Batch) -> None:
        answers: CreateAnswers = [None] * len(self.tasks)
        self.outcome = answers
        batch.create(self.tasks, answers)


@dataclass(slots=True, eq=False)
class Settle(Operation):
    """Apply outcomes."""

    settlements: Sequence[Settlement] = ()
    now: Instant = 0

    def run(self, batch: Batch) -> None:
        answers = [True] * len(self.settlements)
        self.outcome = answers
        batch.settle(self.settlements, self.now, answers)


@dataclass(slots=True, eq=False)
class Verb(Operation):
    """Any other verb: sees everything before it, and is seen by everything after it."""

    change: Callable[[Batch], Any] = field(default=lambda _: None)

    def run(self, batch: Batch) -> None:
        batch.flush()
        self.error = None
        try:
            self.outcome = self.change(batch)
        except TaskbellError as refusal:
            # Verbs check before they write, so a refused one has left nothing behind.
            self.error = refusal


Published = Callable[[dict[str, QueueRow | None]], None]


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, catalog: Catalog, last_id: int, events: Events
    ) -> None:
        self._path = path
        self._events = events
        self._connection: sqlite3.Connection | None = connection
        self._catalog = catalog
        self._stored_last_id = last_id
        self._waiting: SimpleQueue[Operation | None] = SimpleQueue()
        self._waiting_operations = 0
        self._waiting_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._closing = False
        self._published: Published = lambda _: None
        self._thread = threading.Thread(target=self._run, name="taskbell-sqlite-writer", daemon=True)
        self.depths: Counter[int] = Counter()
        """Tasks gained by each generation since the start. Written by the thread, read by anybody."""

    def start(self, published: Published) -> None:
        """Begin. `published` gets the queues that a commit changed, on the event loop, before the answers go out."""
        self._published = published
        self._thread.start()

    def future(self) -> asyncio.Future[Any]:
        """A future for an operation."""
        return self._loop.create_future()

    async def submit(self, operation: Operation) -> Any:
        """Have an operation done; returns or raises its outcome after the commit."""
        if self._closing:
            raise Unavailable("The store is closing.")
        if self._waiting_operations >= _WAITING_OPERATIONS or self._waiting_bytes >= _WAITING_BYTES:
            raise ResourceExhausted("Too much waits to be written to the store. Try again in a moment.")
        self._waiting_operations += 1
        self._waiting_bytes += operation.size
        self._waiting.put(operation)
        return await operation.future

    async def stop(self, last_id: int) -> None:
        """Commit what was accepted and end the thread."""
        if not self._closing:
            self._closing = True
            final = Verb(self._loop.create_future(), 0, 0, change=lambda batch: batch.execute("put_last_id", last_id))
            self._waiting.put(final)
            self._waiting.put(None)
            with contextlib.suppress(TaskbellError):
                # Without it the margin that is stored stands, which is as safe.
                await final.future
        await self._stopped.wait()
        self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            operations, running = self._take()
            if operations:
                self._commit(operations)
        if self._connection is not None:
            self._connection.close()
        self._call_loop(self._stopped.set)

    def _take(self) -> tuple[list[Operation], bool]:
        """Everything that waits, up to a bound; False once there will be nothing more."""
        operation = self._waiting.get()
        operations: list[Operation] = []
        size = 0
        while operation is not None:
            operations.append(operation)
            size += operation.size
            if len(operations) >= _BATCH_OPERATIONS or size >= _BATCH_BYTES:
                break
            try:
                operation = self._waiting.get_nowait()
            except Empty:
                break
        return operations, operation is not None

    def _commit(self, operations: list[Operation]) -> None:
        begin_time = time.monotonic_ns()
        try:
            changes = self._transact(operations)
        except sqlite3.IntegrityError as error:
            self._isolate(operations, Internal(f"The store refused an impossible row: {error}."))
        except sqlite3.Error as error:
            for operation in operations:
                operation.error = refusal_of(error, self._path)
            self._call_loop(self._answer, operations)
        except Exception as error:  # noqa: BLE001  # The thread must outlive any operation; its caller gets the error.
            self._isolate(operations, error)
        else:
            committed = BatchCommitted(len(operations), (time.monotonic_ns() - begin_time) // 1000)
            self._call_loop(self._publish, operations, changes, committed)

    def _isolate(self, operations: list[Operation], error: Exception) -> None:
        """One operation of the batch is broken: let the others through one by one, and tell only that one's caller."""
        if len(operations) > 1:
            for operation in operations:
                self._commit([operation])
        else:
            operations[0].error = error
            self._call_loop(self._answer, operations)

    def _transact(self, operations: list[Operation]) -> dict[str, QueueRow | None]:
        connection = self._connection
        if connection is None:
            connection = self._connection = connect_writer(self._path)
        try:
            try:
                batch = self._perform(connection, operations, careful=False)
            except Recount:
                self._rollback()
                batch = self._perform(connection, operations, careful=True)
        except BaseException as error:
            self._rollback()
            if isinstance(error, sqlite3.Error) and is_broken(error):
                self._reconnect()
            raise
        self.depths.update(batch.depths)
        return self._catalog.commit()

    def _perform(self, connection: sqlite3.Connection, operations: list[Operation], *, careful: bool) -> Batch:
        connection.execute("BEGIN IMMEDIATE")
        batch = Batch(connection, self._catalog, careful=careful)
        for operation in operations:
            operation.run(batch)
        batch.flush()
        last_id = max(operation.last_id for operation in operations)
        if last_id > self._stored_last_id:
            batch.execute("put_last_id", last_id + _ID_MARGIN)
        connection.execute("COMMIT")
        if last_id > self._stored_last_id:
            self._stored_last_id = last_id + _ID_MARGIN
        return batch

    def _rollback(self) -> None:
        self._catalog.rollback()
        if self._connection is not None and self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _reconnect(self) -> None:
        """After an error of the disk the next batch has a fresh connection, which sees the disk as it is then."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _publish(
        self, operations: list[Operation], changes: dict[str, QueueRow | None], committed: BatchCommitted
    ) -> None:
        """On the event loop, after a commit: first what it changed, then its callers, each in order."""
        if changes:
            self._published(changes)
        self._answer(operations)
        self._events.emit(committed)

    def _answer(self, operations: list[Operation]) -> None:
        for operation in operations:
            self._waiting_operations -= 1
            self._waiting_bytes -= operation.size
            future = operation.future
            if future.done():
                continue  # The caller was cancelled; the effect stands.
            if operation.error is None:
                future.set_result(operation.outcome)
            else:
                future.set_exception(operation.error)

    def _call_loop(self, callback: Callable[..., None], *arguments: Any) -> None:
        # A loop that is closed has no callers left to answer.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

"""Reading beside the writer: a small pool of threads, each with its own connection to the last committed state."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from taskbell.core.errors import (
    QUEUE_DOES_NOT_EXIST,
    REQUESTED_ENTITY_NOT_FOUND,
    TASK_EXISTED_RECENTLY,
    NotFound,
)
from taskbell.core.instant import Instant
from taskbell.core.task import DueKey, Task
from taskbell.engines.sqlite.queries import QUERIES
from taskbell.engines.sqlite.rows import ROW_OVERHEAD, numbered_id, task_of, task_of_row
from taskbell.engines.sqlite.store import connect_reader, refusal_of

T = TypeVar("T")

_THREADS = 2
_INLINE_BYTES = 4096
"""Bodies up to here come with their page; longer ones are fetched one by one, so that a page stays small in memory."""
_FIRST = DueKey(-(2**63), 0)


class Page(NamedTuple):
    """Tasks of a queue in due order, or the news that there is no such queue."""

    has_queue: bool
    tasks: list[Task]


class Reader:
    """The reading connections and their threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._own = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="taskbell-sqlite-reader")

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, query)

    def close(self) -> None:
        """End the threads after what they are doing; blocks."""
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()

    def _run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
            if connection is None:
                connection = self._own.connection = connect_reader(self._path)
                self._connections.append(connection)
            return query(connection)
        except sqlite3.Error as error:
            raise refusal_of(error, self._path) from error


def due_page(
    connection: sqlite3.Connection, queue: str, after: DueKey | None, limit: int, max_bytes: int, *, bodies: bool
) -> Page:
    """Up to `limit` tasks after a key, stopping once their sizes have passed `max_bytes`.

    Large bodies take a statement each, so the page has one snapshot: a row that went in between would make the page
    look like the last one.
    """
    connection.execute("BEGIN")
    try:
        return _due_page(connection, queue, after, limit, max_bytes, bodies=bodies)
    finally:
        connection.execute("COMMIT")


def _due_page(
    connection: sqlite3.Connection, queue: str, after: DueKey | None, limit: int, max_bytes: int, *, bodies: bool
) -> Page:
    schedule_time, last_id = after or _FIRST
    generation, page = connection.execute(
        QUERIES["due_page"],
        {
            "queue": queue,
            "schedule_time": schedule_time,
            "id": last_id,
            "limit": limit,
            "inline_bytes": _INLINE_BYTES if bodies else -1,
        },
    ).fetchone()
    if generation is None:
        return Page(has_queue=False, tasks=[])
    rows: list[list[Any]] = json.loads(page)
    # The rows were read in this order; that the aggregate keeps it is SQLite's habit, not its promise.
    rows.sort(key=_due_key)
    tasks: list[Task] = []
    size = 0
    for fields in rows:
        if size > max_bytes:
            break
        tasks.append(task_of(queue, fields, _body(connection, fields) if bodies else b""))
        size += fields[11] + ROW_OVERHEAD
    return Page(has_queue=True, tasks=tasks)


def _due_key(fields: list[Any]) -> tuple[int, int]:
    return fields[2], fields[0]


def _body(connection: sqlite3.Connection, fields: list[Any]) -> bytes:
    """The body of a row: with the row if it is short, otherwise read by itself."""
    if fields[12] is not None:
        return bytes.fromhex(fields[12])
    row: tuple[bytes] = connection.execute(QUERIES["body"], (fields[0],)).fetchone()
    return row[0]


def named_task(connection: sqlite3.Connection, queue: str, task_id: str, now: Instant) -> Task:
    """One task, or the NotFound that fits."""
    connection.execute("BEGIN")  # One snapshot: a task that moves to its tombstone between two statements is seen once.
    try:
        return _named_task(connection, queue, task_id, now)
    finally:
        connection.execute("COMMIT")


def _named_task(connection: sqlite3.Connection, queue: str, task_id: str, now: Instant) -> Task:
    row = connection.execute(QUERIES["task_by_name"], {"queue": queue, "task_id": task_id}).fetchone()
    number = numbered_id(task_id)
    if row is None and number is not None:
        row = connection.execute(QUERIES["task_by_id"], {"queue": queue, "id": number}).fetchone()
    if row is not None:
        return task_of_row(queue, row)
    blocked = connection.execute(QUERIES["blocked_until"], {"queue": queue, "task_id": task_id}).fetchone()
    if blocked is None:
        raise NotFound(QUEUE_DOES_NOT_EXIST)
    if blocked[0] is not None and blocked[0] > now:
        raise NotFound(TASK_EXISTED_RECENTLY)
    raise NotFound(REQUESTED_ENTITY_NOT_FOUND)


def small_value(connection: sqlite3.Connection, statement: str, key: str) -> bytes | None:
    """A policy or a record."""
    row: tuple[bytes] | None = connection.execute(QUERIES[statement], (key,)).fetchone()
    return None if row is None else row[0]

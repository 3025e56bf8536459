"""One transaction of the writer: creates and settles collected into few wide statements, other verbs one by one.

Creates and settles of different tasks cannot see each other, so all creates of a batch go into one insert and all
settles into one delete and one update, however they were interleaved. Whatever could see them makes them happen first
(`flush`): the same id or name again, or any other verb.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from taskbell.core.errors import (
    QUEUE_DOES_NOT_EXIST,
    TASK_EXISTED_TOO_RECENTLY,
    TASK_EXISTS,
    AlreadyExists,
    NotFound,
    TaskbellError,
)
from taskbell.core.instant import Instant
from taskbell.engine import Settlement
from taskbell.engines.sqlite.catalog import Catalog, QueueRow, settled_name
from taskbell.engines.sqlite.job_batch import JobBatch
from taskbell.engines.sqlite.queries import QUERIES, widened
from taskbell.engines.sqlite.rows import NewTask, numbered_id, retry_fields

CreateAnswers = list[TaskbellError | None]

_WIDEST = 128
_INSERTS = [widened(QUERIES["insert_tasks"], rows) for rows in range(_WIDEST + 1)]
"""By the number of their rows, so that a usual batch is one statement; each stays prepared, together some megabytes."""


class Recount(Exception):
    """A wide statement met a row that is gone; the batch runs again and asks first which ones are there."""


class Batch:
    """The statements of one commit."""

    def __init__(self, connection: sqlite3.Connection, catalog: Catalog, *, careful: bool) -> None:
        self.connection = connection
        self.catalog = catalog
        self.jobs = JobBatch(connection)
        self.depths: Counter[int] = Counter()
        """By how much this transaction changes the number of tasks of each generation."""
        self._careful = careful
        self._touched_ids: set[int] = set()
        self._touched_names: set[tuple[str, str]] = set()
        self._new: list[tuple[NewTask, QueueRow]] = []
        self._new_named: list[tuple[NewTask, QueueRow, CreateAnswers, int]] = []
        self._over: list[tuple[Settlement, QueueRow, list[bool], int, Instant]] = []
        self._retries: list[tuple[Settlement, QueueRow, list[bool], int]] = []

    def execute(self, name: str, *parameters: Any) -> sqlite3.Cursor:
        """Run a named statement."""
        return self.connection.execute(QUERIES[name], parameters)

    def create(self, tasks: Sequence[NewTask], answers: CreateAnswers) -> None:
        """Collect tasks to insert; `answers` is complete after the next flush."""
        for position, task in enumerate(tasks):
            self._touch(task.id, None if task.name is None else (task.queue, task.name))
            row = self.catalog.get(task.queue)
            if row is None:
                answers[position] = NotFound(QUEUE_DOES_NOT_EXIST)
            elif task.name is None:
                self._new.append((task, row))
            else:
                self._new_named.append((task, row, answers, position))

    def settle(self, settlements: Sequence[Settlement], now: Instant, answers: list[bool]) -> None:
        """Collect outcomes to apply; `answers`, all True so far, is complete after the next flush."""
        for position, settlement in enumerate(settlements):
            task = settlement.task
            self._touch(task.id, settled_name(task))
            row = self.catalog.get(task.queue)
            if row is None:
                answers[position] = False
            elif settlement.retry is None:
                self._over.append((settlement, row, answers, position, now))
            else:
                self._retries.append((settlement, row, answers, position))

    def flush(self) -> None:
        """Make everything collected so far happen."""
        self.jobs.flush()
        if not self._touched_ids:
            return
        if self._new_named:
            self._refuse_taken_names()
        if self._new:
            self._insert()
        if self._over:
            self._delete()
        if self._retries:
            self._retry()
        self._touched_ids.clear()
        self._touched_names.clear()

    def insert_tombstones(self, tombstones: Iterable[tuple[int, str, Instant]]) -> None:
        """Block names until their expire_time."""
        rows = list(tombstones)
        if rows:
            self.execute("insert_tombstones", json.dumps(rows))

    def _touch(self, task_id: int, name: tuple[str, str] | None) -> None:
        """Flush first if the id or the name was collected already, or the number of the task that this name hides."""
        ids = self._touched_ids
        if task_id in ids or (name is not None and (name in self._touched_names or numbered_id(name[1]) in ids)):
            self.flush()
        ids.add(task_id)
        if name is not None:
            self._touched_names.add(name)

    def _refuse_taken_names(self) -> None:
        named, self._new_named = self._new_named, []
        wanted = [
            (position, row.generation, row.queue_id, task.name, numbered_id(task.name or ""))
            for position, (task, row, _, _) in enumerate(named)
        ]
        (found,) = self.execute("taken_names", json.dumps(wanted)).fetchone()
        taken = {position: (is_live, expire_time) for position, is_live, expire_time in json.loads(found)}
        for position, (task, row, answers, answer) in enumerate(named):
            is_live, expire_time = taken.get(position, (0, None))
            if not is_live and row.retired:
                (expire_time,) = self.connection.execute(
                    QUERIES["blocked_until"], {"queue": task.queue, "task_id": task.name}
                ).fetchone()
            if is_live:
                answers[answer] = AlreadyExists(TASK_EXISTS)
            elif expire_time is not None and expire_time > task.create_time:
                answers[answer] = AlreadyExists(TASK_EXISTED_TOO_RECENTLY)
            else:
                self._new.append((task, row))

    def _insert(self) -> None:
        rows, self._new = self._new, []
        self.depths.update(row.generation for _, row in rows)
        for start in range(0, len(rows), _WIDEST):
            some = rows[start : start + _WIDEST]
            parameters: list[Any] = []
            for task, row in some:
                parameters += (task.id, row.generation, *task.columns)
            self.connection.execute(_INSERTS[len(some)], parameters)

    def _delete(self) -> None:
        over, self._over = self._over, []
        ids = json.dumps([settlement.task.id for settlement, *_ in over])
        if self._careful:
            live = self._ids("live_ids", ids)
            for settlement, _, answers, position, _ in over:
                answers[position] = settlement.task.id in live
            over = [entry for entry in over if entry[2][entry[3]]]
        if self.execute("delete_tasks", ids).rowcount != len(over):
            raise Recount
        self.depths.subtract(row.generation for _, row, *_ in over)
        self.insert_tombstones(
            (row.queue_id, settlement.task.task_id, now + row.queue.tombstone_ttl)
            for settlement, row, _, _, now in over
            if settlement.task.named and row.queue.tombstone_ttl
        )

    def _retry(self) -> None:
        retries, self._retries = self._retries, []
        fields = json.dumps([retry_fields(settlement.retry) for settlement, *_ in retries if settlement.retry])
        if self._careful:
            live = self._ids("retriable_ids", fields)
            for settlement, _, answers, position in retries:
                answers[position] = settlement.task.id in live
            retries = [entry for entry in retries if entry[2][entry[3]]]
        if self.execute("retry_tasks", fields).rowcount != len(retries):
            raise Recount

    def _ids(self, name: str, parameter: str) -> set[int]:
        (found,) = self.execute(name, parameter).fetchone()
        return set(json.loads(found))

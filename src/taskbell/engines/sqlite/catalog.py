"""What the engine keeps of its queues in memory, so that finding a task's queue costs no statement.

Sound because one server owns the store. The writer thread has the catalog that its next statement needs; the event
loop has the one that callers may know, which follows with each commit's answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from taskbell.core.queue import Queue
from taskbell.core.task import Task
from taskbell.engines.record import decode_queue, encode_settings


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue, its key, the generation of tasks that it owns, and those it has retired but not swept yet."""

    queue: Queue
    queue_id: int
    generation: int
    retired: tuple[int, ...] = ()

    @property
    def columns(self) -> tuple[Any, ...]:
        """The parameters of `put_queue`."""
        queue = self.queue
        return (
            self.queue_id,
            self.generation,
            queue.name,
            queue.state.value,
            queue.purge_time,
            queue.task_ttl,
            queue.tombstone_ttl,
            encode_settings(queue),
        )


def queue_row(row: tuple[Any, ...], retired: tuple[int, ...]) -> QueueRow:
    """The queue of a row of `all_queues`."""
    queue_id, generation, name, state, purge_time, task_ttl, tombstone_ttl, settings = row
    queue = decode_queue((name, state, purge_time, task_ttl, tombstone_ttl, settings))
    return QueueRow(queue, queue_id, generation, retired)


class Catalog:
    """The writer's queues by name, with what the current transaction has changed, so that it can be taken back."""

    def __init__(self, rows: dict[str, QueueRow]) -> None:
        self._rows = rows
        self._before: dict[str, QueueRow | None] = {}

    def get(self, name: str) -> QueueRow | None:
        """A queue that exists, or None."""
        return self._rows.get(name)

    def values(self) -> list[QueueRow]:
        """All queues."""
        return list(self._rows.values())

    def put(self, name: str, row: QueueRow | None) -> None:
        """Replace a queue, or remove it with None."""
        self._before.setdefault(name, self._rows.get(name))
        self._set(name, row)

    def commit(self) -> dict[str, QueueRow | None]:
        """Keep the changes of this transaction and return them."""
        changes = {name: self._rows.get(name) for name in self._before}
        self._before.clear()
        return changes

    def rollback(self) -> None:
        """Take the changes of this transaction back."""
        for name, row in self._before.items():
            self._set(name, row)
        self._before.clear()

    def _set(self, name: str, row: QueueRow | None) -> None:
        if row is None:
            self._rows.pop(name, None)
        else:
            self._rows[name] = row


def settled_name(task: Task) -> tuple[str, str] | None:
    """The key of a name that a settlement may touch: only chosen names have tombstones."""
    return (task.queue, task.task_id) if task.named else None

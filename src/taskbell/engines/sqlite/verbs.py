"""The verbs that change queues, single tasks and small things, each inside the writer's transaction.

Every function checks first and writes last, so that one that refuses has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from taskbell.core.errors import (
    QUEUE_DOES_NOT_EXIST,
    QUEUE_EXISTED_TOO_RECENTLY,
    QUEUE_EXISTS,
    REQUESTED_ENTITY_NOT_FOUND,
    AlreadyExists,
    FailedPrecondition,
    NotFound,
)
from taskbell.core.instant import Instant, Span
from taskbell.core.queue import Queue, QueueState
from taskbell.core.task import Task
from taskbell.engines.sqlite.batch import Batch
from taskbell.engines.sqlite.catalog import QueueRow
from taskbell.engines.sqlite.queries import QUERIES
from taskbell.engines.sqlite.rows import numbered_id, task_of_row


def create_queue(batch: Batch, queue: Queue, ids: tuple[int, int], now: Instant) -> None:
    """Insert a queue under two fresh ids: its own and its first generation's."""
    if batch.catalog.get(queue.name) is not None:
        raise AlreadyExists(QUEUE_EXISTS)
    _refuse_tombstoned(batch, queue.name, now)
    _insert(batch, queue, ids)


def update_queue(
    batch: Batch, name: str, change: Callable[[Queue | None], Queue], ids: tuple[int, int], now: Instant
) -> Queue:
    """Replace a queue by what `change` makes of it, or insert it."""
    row = batch.catalog.get(name)
    if row is None:
        _refuse_tombstoned(batch, name, now)
        queue = change(None)
        _insert(batch, queue, ids)
    else:
        queue = change(row.queue)
        _put(batch, replace(row, queue=queue))
    return queue


def set_queue_state(batch: Batch, name: str, state: QueueState) -> Queue:
    """Pause or resume."""
    row = _existing(batch, name)
    queue = replace(row.queue, state=state)
    _put(batch, replace(row, queue=queue))
    return queue


def purge_queue(batch: Batch, name: str, generation: int, now: Instant) -> Queue:
    """Go on with a new generation; the names of the old one are blocked from now for the queue's tombstone_ttl."""
    row = _existing(batch, name)
    batch.execute("retire_generation", row.generation, row.queue_id, now + row.queue.tombstone_ttl)
    queue = replace(row.queue, purge_time=now)
    _put(batch, replace(row, queue=queue, generation=generation, retired=(*row.retired, row.generation)))
    return queue


def delete_queue(batch: Batch, name: str, now: Instant, tombstone: Span) -> None:
    """Remove a queue with its policy, and leave its tasks to the sweeper."""
    row = batch.catalog.get(name)
    if row is None:
        raise NotFound(REQUESTED_ENTITY_NOT_FOUND)
    batch.execute("retire_generation", row.generation, row.queue_id, None)
    batch.execute("delete_queue", row.queue_id)
    batch.execute("delete_policy", name)
    if tombstone > 0:
        batch.execute("put_queue_tombstone", name, now + tombstone)
    batch.catalog.put(name, None)


def delete_task(batch: Batch, queue: str, task_id: str, now: Instant) -> Task:
    """Remove one task, found by the name its caller chose or by its number."""
    row = _existing(batch, queue)
    connection = batch.connection
    found = connection.execute(QUERIES["task_by_name"], {"queue": queue, "task_id": task_id}).fetchone()
    number = numbered_id(task_id)
    if found is None and number is not None:
        found = connection.execute(QUERIES["task_by_id"], {"queue": queue, "id": number}).fetchone()
    if found is None:
        raise NotFound(REQUESTED_ENTITY_NOT_FOUND)
    task = task_of_row(queue, found)
    batch.execute("delete_task_row", task.id)
    batch.depths[row.generation] -= 1
    if task.named and row.queue.tombstone_ttl:
        batch.insert_tombstones([(row.queue_id, task.task_id, now + row.queue.tombstone_ttl)])
    return task


def set_policy(batch: Batch, resource: str, policy: bytes, expected: bytes | None) -> bool:
    """Replace a policy if it still is the expected one."""
    if expected is not None and batch.execute("policy", resource).fetchone() != (expected,):
        return False
    batch.execute("put_policy", resource, policy)
    return True


def put_record(batch: Batch, key: str, value: bytes, *, replace: bool) -> bytes:
    """Store a record, or keep the one that is there."""
    if not replace:
        found: tuple[bytes] | None = batch.execute("record", key).fetchone()
        if found is not None:
            return found[0]
    batch.execute("put_record", key, value)
    return value


def _existing(batch: Batch, name: str) -> QueueRow:
    row = batch.catalog.get(name)
    if row is None:
        raise NotFound(QUEUE_DOES_NOT_EXIST)
    return row


def _refuse_tombstoned(batch: Batch, name: str, now: Instant) -> None:
    found = batch.execute("queue_tombstone", name).fetchone()
    if found is not None and found[0] > now:
        raise FailedPrecondition(QUEUE_EXISTED_TOO_RECENTLY)


def _insert(batch: Batch, queue: Queue, ids: tuple[int, int]) -> None:
    batch.execute("delete_queue_tombstone", queue.name)
    _put(batch, QueueRow(queue, *ids))


def _put(batch: Batch, row: QueueRow) -> None:
    batch.execute("put_queue", *row.columns)
    batch.catalog.put(row.queue.name, row)

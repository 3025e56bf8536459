"""Upkeep inside the writer's transaction: small batches, and next to nothing when nothing is due.

Expired tasks are found along the table, whose order is the order of age: a walk for each task_ttl in use starts at the
oldest row and stops at the first that is too young. Rows of queues with another task_ttl are walked over once, not
again, because each walk remembers its place.
"""

from __future__ import annotations

import json
from dataclasses import replace

from taskbell.core.instant import Instant, Span
from taskbell.engine import Swept
from taskbell.engines.ids import floor_id
from taskbell.engines.sqlite.batch import Batch
from taskbell.engines.sqlite.catalog import QueueRow

Places = dict[Span, int]
"""For each task_ttl in use, the id up to which its walk has come."""


def sweep(batch: Batch, now: Instant, limit: int, places: Places) -> tuple[Swept, Places]:
    """Remove up to `limit` rows of each kind; also returns the places from which the next sweep goes on."""
    expired, places = _sweep_expired(batch, now, limit, places)
    purged = _sweep_retired(batch, now, limit)
    tombstones = batch.execute("delete_ended_tombstones", now, limit).rowcount
    queues = batch.execute("delete_ended_queue_tombstones", now, limit).rowcount
    return Swept(expired, purged, tombstones, queues), places


def _sweep_expired(batch: Batch, now: Instant, limit: int, places: Places) -> tuple[int, Places]:
    owners = {row.generation: row for row in batch.catalog.values()}
    reached: Places = {}
    left = limit
    for ttl in sorted({row.queue.task_ttl for row in owners.values()}):
        place = places.get(ttl, 0)
        end = floor_id(now - ttl)
        while left:
            rows = batch.execute("old_tasks", place, end, limit).fetchall()
            expired = [row for row in rows if row[1] in owners and owners[row[1]].queue.task_ttl == ttl][:left]
            _remove(batch, [row[0] for row in expired])
            for generation in [row[1] for row in expired]:
                batch.depths[generation] -= 1
            _entomb(batch, [(owners[generation], name) for _, generation, name in expired], now)
            left -= len(expired)
            # With `left` used up, rows behind the last removed one are for the next sweep.
            place = expired[-1][0] if expired and not left else rows[-1][0] if rows else place
            if len(rows) < limit:
                break
        reached[ttl] = place
    return limit - left, reached


def _entomb(batch: Batch, expired: list[tuple[QueueRow, str | None]], now: Instant) -> None:
    batch.insert_tombstones(
        (row.queue_id, name, now + row.queue.tombstone_ttl)
        for row, name in expired
        if name is not None and row.queue.tombstone_ttl
    )


def _sweep_retired(batch: Batch, now: Instant, limit: int) -> int:
    left = limit
    for generation, queue_id, expire_time in batch.execute("all_retired_generations").fetchall():
        if not left:
            break
        rows = batch.execute("retired_tasks", generation, left).fetchall()
        _remove(batch, [row[0] for row in rows])
        if expire_time is not None and expire_time > now:
            batch.insert_tombstones((queue_id, name, expire_time) for _, name in rows if name is not None)
        if len(rows) < left:
            batch.execute("delete_retired_generation", generation)
            batch.depths[generation] = 0
            _forget_generation(batch, queue_id, generation)
        left -= len(rows)
    return limit - left


def _forget_generation(batch: Batch, queue_id: int, generation: int) -> None:
    for row in batch.catalog.values():
        if row.queue_id == queue_id:
            retired = tuple(other for other in row.retired if other != generation)
            batch.catalog.put(row.queue.name, replace(row, retired=retired))


def _remove(batch: Batch, ids: list[int]) -> None:
    if ids:
        batch.execute("delete_rows", json.dumps(ids))

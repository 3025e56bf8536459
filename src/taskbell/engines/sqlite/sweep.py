"""Upkeep inside the writer's transaction: small batches, and next to nothing when nothing is due.

Expired tasks are found along the table, whose order is the order of age: a walk for each task_ttl in use starts at the
oldest row and stops at the first that is too young. Rows of queues with another task_ttl are walked over once, not
again, because each walk remembers its place.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

from taskbell.core.instant import Instant, Span
from taskbell.engine import Swept
from taskbell.engines.ids import floor_id
from taskbell.engines.sqlite.batch import Batch
from taskbell.engines.sqlite.catalog import QueueRow

Owners = dict[int, QueueRow]
"""Queues by the generation that they own."""

Row = tuple[int, int, str | None]
"""Id, generation and chosen name of a task."""


class Walk(NamedTuple):
    """Where the walk for one task_ttl stands, and whose rows it has looked at on the way."""

    place: int
    generations: frozenset[int]

    def resumed(self, owners: Owners) -> Walk:
        """The walk for the queues that have this task_ttl now: from the start, if one was given it after we passed."""
        joined = owners.keys() - self.generations
        is_passed = any(generation <= self.place for generation in joined)
        return Walk(0 if is_passed else self.place, frozenset(owners))


Walks = dict[Span, Walk]
_START = Walk(0, frozenset())


def sweep(batch: Batch, now: Instant, limit: int, walks: Walks) -> tuple[Swept, Walks]:
    """Remove up to `limit` rows of each kind; also returns the walks from which the next sweep goes on."""
    classes: dict[Span, Owners] = {}
    for row in batch.catalog.values():
        classes.setdefault(row.queue.task_ttl, {})[row.generation] = row
    expired = 0
    reached: Walks = {}
    for ttl, owners in sorted(classes.items()):
        walk = walks.get(ttl, _START).resumed(owners)
        reached[ttl] = walk
        if expired < limit:
            rows, reached[ttl] = _sweep_expired(batch, owners, walk, floor_id(now - ttl), limit - expired)
            _bury(batch, owners, rows, now)
            expired += len(rows)
    purged = _sweep_retired(batch, limit)
    tombstones = batch.execute("delete_ended_tombstones", now, limit).rowcount
    queues = batch.execute("delete_ended_queue_tombstones", now, limit).rowcount
    return Swept(expired, purged, tombstones, queues), reached


def _sweep_expired(batch: Batch, owners: Owners, walk: Walk, end: int, limit: int) -> tuple[list[Row], Walk]:
    """Walk on towards `end`; returns the owners' rows that were removed, and where the walk stands."""
    rows = batch.execute("old_tasks", walk.place, end, json.dumps(list(owners)), limit).fetchall()
    _remove(batch, [row[0] for row in rows])
    batch.depths.subtract(row[1] for row in rows)
    if len(rows) == limit:
        return rows, walk._replace(place=rows[-1][0])
    # All the way. The place is a row's id, not `end`: after a clock that jumped ahead for a while, new ids start below.
    (place,) = batch.execute("last_id_before", end).fetchone()
    return rows, walk._replace(place=max(walk.place, place or 0))


def _bury(batch: Batch, owners: Owners, rows: list[Row], now: Instant) -> None:
    batch.insert_tombstones(
        (owners[generation].queue_id, name, now + owners[generation].queue.tombstone_ttl)
        for _, generation, name in rows
        if name is not None and owners[generation].queue.tombstone_ttl
    )


def _sweep_retired(batch: Batch, limit: int) -> int:
    left = limit
    for generation, queue_id, expire_time in batch.execute("all_retired_generations").fetchall():
        if not left:
            break
        rows = batch.execute("retired_tasks", generation, left).fetchall()
        _remove(batch, [row[0] for row in rows])
        if expire_time is not None:
            batch.insert_tombstones((queue_id, name, expire_time) for _, name in rows if name is not None)
        if len(rows) < left:
            batch.execute("delete_retired_generation", generation)
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

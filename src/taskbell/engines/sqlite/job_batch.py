"""Ticks and progressions of one commit, collected into few wide statements (`batch.py` does the same for tasks).

Those of different jobs cannot see each other, so however they were interleaved each kind becomes one check, one update
and some wide inserts. A second step of one job, and any other verb,
makes what was collected happen first (`flush`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any

from taskbell.core.job import Progress
from taskbell.engine import Progression, Tick
from taskbell.engines.sqlite.job_rows import execution_columns
from taskbell.engines.sqlite.queries import QUERIES, widened

_WIDEST = 128
_dumps = json.JSONEncoder(separators=(",", ":")).encode


@cache
def _puts(rows: int) -> str:
    """Each stays prepared, so that a usual batch is one statement."""
    return widened(QUERIES["put_executions"], rows)


class JobBatch:
    """What one transaction does to timers and executions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._touched: set[int] = set()
        self._ticks: list[tuple[Tick, list[bool], int]] = []
        self._progressions: list[tuple[Progression, list[bool], int]] = []

    def tick(self, ticks: Sequence[Tick], answers: list[bool]) -> None:
        """Collect steps; `answers`, all True so far, is complete after the next flush."""
        for position, tick in enumerate(ticks):
            self._touch(tick.job.id)
            self._ticks.append((tick, answers, position))

    def progress(self, progressions: Sequence[Progression], answers: list[bool]) -> None:
        """Collect attempts; `answers`, all True so far, is complete after the next flush."""
        for position, progression in enumerate(progressions):
            self._touch(progression.execution.job_id)
            self._progressions.append((progression, answers, position))

    def flush(self) -> None:
        """Make everything collected so far happen."""
        if not self._touched:
            return
        if self._ticks:
            self._tick()
        if self._progressions:
            self._progress()
        self._touched.clear()

    def _touch(self, job_id: int) -> None:
        if job_id in self._touched:
            self.flush()
        self._touched.add(job_id)

    def _tick(self) -> None:
        ticks, self._ticks = self._ticks, []
        steps = [(tick.job.id, tick.job.revision, tick.job.next_time, tick.next_time) for tick, _, _ in ticks]
        rows = [list(map(execution_columns, tick.executions)) for tick, _, _ in ticks]
        keys = [(position, *row[:3]) for position, own in enumerate(rows) for row in own]
        refused = self._positions("refused_ticks", _dumps(steps), _dumps(keys))
        refused |= {position for position, own in enumerate(rows) if len({row[:3] for row in own}) < len(own)}
        for position in refused:
            _, answers, answer = ticks[position]
            answers[answer] = False
        steps = [step for position, step in enumerate(steps) if position not in refused]
        self._connection.execute(QUERIES["move_timers"], (_dumps(steps),))
        self._put([row for position, own in enumerate(rows) if position not in refused for row in own])

    def _put(self, rows: list[tuple[Any, ...]]) -> None:
        for start in range(0, len(rows), _WIDEST):
            some = rows[start : start + _WIDEST]
            self._connection.execute(_puts(len(some)), [value for row in some for value in row])

    def _progress(self) -> None:
        progressions, self._progressions = self._progressions, []
        rows = [execution_columns(each.execution) for each, _, _ in progressions]
        keys = [
            (*row[:3], row[9], int(progression.execution.progress is Progress.CANCELLED))
            for row, (progression, _, _) in zip(rows, progressions, strict=True)
        ]
        applied = self._positions("open_positions", _dumps(keys))
        for position, (_, answers, answer) in enumerate(progressions):
            answers[answer] = position in applied
        self._put([row for position, row in enumerate(rows) if position in applied])
        news = [
            (row[0], row[7], *row[13:15], progression.next_time, int(row[9] > 0))
            for position, (row, (progression, _, _)) in enumerate(zip(rows, progressions, strict=True))
            if position in applied
        ]
        self._connection.execute(QUERIES["follow_executions"], (_dumps(news),))

    def _positions(self, name: str, *parameters: str) -> set[int]:
        (found,) = self._connection.execute(QUERIES[name], parameters).fetchone()
        return set(json.loads(found))

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from taskbell.core.errors import ResourceExhausted
from taskbell.core.task import Status
from taskbell.engine import Progression
from taskbell.engines.sqlite import SqliteEngine
from taskbell.testing.engine_job_samples import JOB, add_job, ended, fired, step

JOBS = 1000


def _writing(engine: SqliteEngine) -> sqlite3.Connection:
    """The connection of the writer, which rests while nobody calls."""
    assert engine._writer is not None
    assert engine._writer._connection is not None
    return engine._writer._connection


async def test_a_herd_costs_few_statements(tmp_path: Path) -> None:
    """A thousand jobs on one minute: wide statements, not one for each job."""
    engine = SqliteEngine(str(tmp_path / "store.db"))
    await engine.open()
    jobs = await asyncio.gather(*(add_job(engine, f"{JOB}{number}") for number in range(JOBS)))
    statements: list[str] = []
    _writing(engine).set_trace_callback(statements.append)

    assert all(await engine.tick([step(job) for job in jobs]))
    ticking = len(statements)
    assert all(await engine.progress([Progression(ended(fired(job))) for job in jobs]))
    progressing = len(statements) - ticking

    # BEGIN, one check, one update, a wide insert for each 128 rows, COMMIT.
    assert ticking <= 12
    assert progressing <= 12
    assert {job.status for job in await engine.all_jobs()} == {Status(0, "")}
    await engine.close()


async def test_a_full_disk_takes_no_part_of_a_herd(tmp_path: Path) -> None:
    """Neither rows nor timers; with room again the same steps apply."""
    engine = SqliteEngine(str(tmp_path / "store.db"))
    await engine.open()
    jobs = await asyncio.gather(*(add_job(engine, f"{JOB}{number}") for number in range(JOBS)))
    steps = [step(job) for job in jobs]
    connection = _writing(engine)
    (used,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {used + 2}")
    with pytest.raises(ResourceExhausted):
        await engine.tick(steps)
    assert await engine.open_executions() == []
    assert sorted(await engine.all_jobs(), key=lambda job: job.id) == list(jobs)

    _writing(engine).execute(f"PRAGMA max_page_count = {used + 1000}")
    assert await engine.tick(steps) == [True] * JOBS
    assert len(await engine.open_executions()) == JOBS
    await engine.close()

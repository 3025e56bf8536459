from __future__ import annotations

import asyncio
from pathlib import Path

from taskbell.core.task import Status
from taskbell.engine import Progression
from taskbell.engines.sqlite import SqliteEngine
from taskbell.testing.engine_job_samples import JOB, add_job, ended, fired, step

JOBS = 1000


async def test_a_herd_costs_few_statements(tmp_path: Path) -> None:
    """A thousand jobs on one minute: wide statements, not one for each job."""
    engine = SqliteEngine(str(tmp_path / "store.db"))
    await engine.open()
    jobs = await asyncio.gather(*(add_job(engine, f"{JOB}{number}") for number in range(JOBS)))
    statements: list[str] = []
    assert engine._writer is not None
    assert engine._writer._connection is not None
    engine._writer._connection.set_trace_callback(statements.append)

    assert all(await engine.tick([step(job) for job in jobs]))
    ticking = len(statements)
    assert all(await engine.progress([Progression(ended(fired(job))) for job in jobs]))
    progressing = len(statements) - ticking

    # BEGIN, one check, one update, a wide insert for each 128 rows, COMMIT.
    assert ticking <= 12
    assert progressing <= 12
    assert {job.status for job in await engine.all_jobs()} == {Status(0, "")}
    await engine.close()

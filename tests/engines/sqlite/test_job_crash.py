from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from taskbell.core.instant import MINUTE
from taskbell.core.job import Disposition, Progress
from taskbell.engines import open_engine
from taskbell.testing.engine_job_samples import FIRST, JOB, add_job, closed, ended, fired, walked

ROUNDS = 4
JOBS = 24


def _lines_until_killed(path: str, lines: int) -> list[list[str]]:
    """What the herd said before SIGKILL met it, at a moment of its own work."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("herd.py")), path], stdout=subprocess.PIPE, text=True
    ) as herd:
        assert herd.stdout is not None
        said = [herd.stdout.readline() for _ in range(lines)]
        herd.kill()
        said += herd.stdout.readlines()
    return [line.split() for line in said if line.endswith("\n")]


@pytest.mark.timeout(300)
async def test_a_tick_is_whole_or_absent_over_sigkill(tmp_path: Path) -> None:
    """Each job's history is an unbroken row of instants up to its next one; what was answered is in it."""
    path = str(tmp_path / "store.db")
    engine = await open_engine(f"sqlite:{path}")
    jobs = [await add_job(engine, f"{JOB}{number}") for number in range(JOBS)]
    await engine.close()
    left_open = 0
    ticked: set[tuple[str, int]] = set()
    finished: set[tuple[str, int]] = set()
    for _ in range(ROUNDS):
        said = _lines_until_killed(path, random.randrange(200, 1200))
        assert said[0] == ["open", str(left_open)]
        ticked |= {(words[1], int(words[2])) for words in said if words[0] == "ticked"}
        finished |= {(words[1], int(words[2])) for words in said if words[0] == "ended"}

        engine = await open_engine(f"sqlite:{path}")
        stored = set()
        for job in jobs:
            next_time = (await engine.job(job.name)).next_time
            assert next_time is not None
            instants = range(FIRST, next_time, MINUTE)
            rows = await walked(engine, job.name, 500)
            assert [row.instant for row in reversed(rows)] == [at + each for at in instants for each in (-1, 0, 1)]
            for row in rows:
                if row.disposition is Disposition.MISSED:
                    assert row == closed(job, row.instant)
                else:
                    assert row in (fired(job, row.instant), ended(fired(job, row.instant)))
                    assert row.progress is Progress.SUCCEEDED or (job.name, row.instant) not in finished
            stored |= {(job.name, instant) for instant in instants}
        assert ticked <= stored, "an answered tick is gone"
        left_open = len(await engine.open_executions())
        await engine.close()
    assert len(ticked) > ROUNDS * 50

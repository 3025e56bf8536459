from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from taskbell.core.errors import TASK_EXISTED_RECENTLY, FailedPrecondition, TaskbellError
from taskbell.core.instant import DAY
from taskbell.core.queue import QueueState
from taskbell.engines import open_engine
from taskbell.testing.engine_samples import NO_BYTES_LIMIT, OTHER_QUEUE, QUEUE, START, sample_queue

ROUNDS = 5


def _lines_until_killed(path: str, lines: int) -> list[list[str]]:
    """What a burst said before SIGKILL met it, at a moment of its own work."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("burst.py")), path], stdout=subprocess.PIPE, text=True
    ) as burst:
        assert burst.stdout is not None
        said = [burst.stdout.readline() for _ in range(lines)]
        burst.kill()
        said += burst.stdout.readlines()
    return [line.split() for line in said if line.endswith("\n")]


@pytest.mark.timeout(300)
async def test_what_was_answered_survives_sigkill(tmp_path: Path) -> None:
    """Over several lives of one file: tasks, tombstones, the paused queue, the blocked queue, and growing ids."""
    path = str(tmp_path / "store.db")
    engine = await open_engine(f"sqlite:{path}")
    await engine.create_queue(sample_queue(), START)
    await engine.set_queue_state(QUEUE, QueueState.PAUSED)
    await engine.create_queue(sample_queue(OTHER_QUEUE), START)
    await engine.delete_queue(OTHER_QUEUE, START, DAY)
    await engine.close()
    names: dict[int, str] = {}
    asked: set[int] = set()
    settled: set[int] = set()
    greatest = 0
    for _ in range(ROUNDS):
        said = _lines_until_killed(path, random.randrange(200, 2000))
        assert said[0][0] == "ids"
        assert int(said[0][1]) > greatest, "an id was handed out that may have been handed out before the crash"
        names |= {int(words[1]): words[2] for words in said if words[0] == "create"}
        asked |= {int(words[1]) for words in said if words[0] == "settling"}
        settled |= {int(words[1]) for words in said if words[0] == "settle"}

        engine = await open_engine(f"sqlite:{path}")
        waiting = {task.id: task for task in await engine.due_tasks(QUEUE, None, 10**6, NO_BYTES_LIMIT)}
        lost = names.keys() - waiting.keys() - asked
        assert not lost, f"{len(lost)} answered creates are gone"
        assert not settled & waiting.keys(), "an answered settle came back"
        greatest = max(greatest, *names, *waiting)
        assert engine.next_id(0) > greatest
        assert (await engine.queue(QUEUE)).state is QueueState.PAUSED
        assert await engine.depths() == {QUEUE: len(waiting)}
        with pytest.raises(FailedPrecondition):
            await engine.create_queue(sample_queue(OTHER_QUEUE), START + DAY - 1)
        for task_id in [task_id for task_id in settled if not names[task_id].isdigit()][-20:]:
            with pytest.raises(TaskbellError, match=TASK_EXISTED_RECENTLY):
                await engine.task(QUEUE, names[task_id], START)
        await engine.close()
    assert len(names) > ROUNDS * 50

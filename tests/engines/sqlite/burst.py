"""A program that creates and settles as fast as it can, and says what was answered. It is made to be killed.

Lines: `ids LAST` at the start, `create ID NAME` and `settle ID` once answered, `settling ID` before it is asked for.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from taskbell.engine import Engine
from taskbell.engines import open_engine
from taskbell.testing.engine_samples import over, sample_task


def say(*words: object) -> None:
    """One line, whole or absent, and past our own buffers: the reader may see it even if we die next."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def create_for_ever(engine: Engine, caller: int) -> None:
    number = 0
    while True:
        number += 1
        now = time.time_ns() // 1000
        task = sample_task(engine, now, name=f"{os.getpid()}-{caller}-{number}" if number % 2 else None)
        (answer,) = await engine.create_tasks([task])
        if answer is None:
            say("create", task.id, task.task_id)
        if number % 3 == 0:
            say("settling", task.id)
            await engine.settle([over(task)], now)
            say("settle", task.id)


async def main(path: str) -> None:
    engine = await open_engine(f"sqlite:{path}")
    say("ids", engine.next_id(0))
    await asyncio.gather(*(create_for_ever(engine, caller) for caller in range(32)))


asyncio.run(main(sys.argv[1]))

"""A program whose jobs fire as fast as they can be ticked, and say what was answered. It is made to be killed.

It goes on from what the store holds. Lines: `open N` at the start, `ticked NAME INSTANT` and `ended NAME INSTANT` once
answered. Each step has three rows: a missed instant before the one that fires and one after it.
"""

from __future__ import annotations

import asyncio
import os
import sys

from taskbell.core.job import Job
from taskbell.engine import Engine, Progression
from taskbell.engines import open_engine
from taskbell.testing.engine_job_samples import closed, ended, fired, step


def say(*words: object) -> None:
    """One line, whole or absent, and past our own buffers: the reader may see it even if we die next."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def fire_for_ever(engine: Engine, job: Job) -> None:
    while True:
        job = await engine.job(job.name)
        instant = job.next_time
        assert instant is not None
        rows = (closed(job, instant - 1), fired(job), closed(job, instant + 1))
        first, second = await asyncio.gather(engine.tick([step(job, *rows)]), engine.tick([step(job, *rows)]))
        assert (first, second) == ([True], [False])
        say("ticked", job.name, instant)
        assert await engine.progress([Progression(ended(fired(job)))]) == [True]
        say("ended", job.name, instant)


async def main(path: str) -> None:
    engine = await open_engine(f"sqlite:{path}")
    say("open", len(await engine.open_executions()))
    await asyncio.gather(*(fire_for_ever(engine, job) for job in await engine.all_jobs()))


asyncio.run(main(sys.argv[1]))

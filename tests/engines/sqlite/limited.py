"""A program whose files may not grow beyond a size for a while; it says as JSON how each create was answered."""

from __future__ import annotations

import asyncio
import json
import resource
import sys

from taskbell.core.errors import ResourceExhausted, Unavailable
from taskbell.core.target import HttpTarget
from taskbell.engine import Engine
from taskbell.engines import open_engine
from taskbell.testing.engine_samples import START, due, sample_queue, sample_task


async def create(engine: Engine, number: int) -> tuple[int, str | None]:
    body = b"x" * 20_000 if number % 10 else b""
    task = sample_task(engine, name=f"n{number}", target=HttpTarget("https://example.com/", body=body))
    try:
        answers = await engine.create_tasks([task])
    except (ResourceExhausted, Unavailable) as error:
        return number, error.code
    assert answers == [None]
    return number, None


async def main(path: str, limit: int) -> None:
    engine = await open_engine(f"sqlite:{path}")
    await engine.create_queue(sample_queue(), START)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    limited = await asyncio.gather(*(create(engine, number) for number in range(300)))
    limited += [await create(engine, number) for number in range(300, 320)]
    listed = [task.task_id for task in await due(engine)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    recovered = [await create(engine, number) for number in range(400, 410)]
    await engine.close()
    json.dump({"limited": limited, "listed": listed, "recovered": recovered}, sys.stdout)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))

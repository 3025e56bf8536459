"""The embedded engine without a server around it, through its public contract (`taskbell.engine`).

`python -m bench.engine_alone rate STORE COUNT` prints tasks a second written, and removed again as delivered ones are;
`... fill STORE COUNT` leaves that many waiting tasks in a store, far faster than the API would take them.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import uvloop

from taskbell.core.instant import DAY, SECOND
from taskbell.core.queue import Queue, QueueState
from taskbell.core.target import HttpTarget
from taskbell.core.task import Task
from taskbell.engine import Engine, Settlement
from taskbell.engines import open_engine

PARENT = "projects/bench/locations/here"
CALLERS = 16
LIST = 32
FILL_LIST = 500
FILL_QUEUES = 24
# Port 9 is discard: a waiting task that were sent by mistake would reach nobody.
TARGET = HttpTarget(url="http://127.0.0.1:9/waiting", body=b"a" * 100)


def now_us() -> int:
    """Now, as the engine counts."""
    return time.time_ns() // 1000


def make_task(engine: Engine, queue: str, delay: int) -> Task:
    """An unnamed task that is due after a delay."""
    now = now_us()
    number = engine.next_id(now)
    return Task(number, queue, str(number), False, TARGET, now + delay, now)


async def by_lists(tasks: Sequence[Task], size: int, call: Callable[[Sequence[Task]], Awaitable[None]]) -> float:
    """Hand out all tasks in lists to a few callers at once; returns the seconds it took."""
    starts = iter(range(0, len(tasks), size))

    async def work() -> None:
        for start in starts:
            await call(tasks[start : start + size])

    begin = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CALLERS)))
    return time.perf_counter() - begin


async def create(engine: Engine, tasks: Sequence[Task]) -> None:
    """Create a list; every task must be accepted."""
    refused = [error for error in await engine.create_tasks(tasks) if error is not None]
    assert not refused, refused[0]


async def settle(engine: Engine, tasks: Sequence[Task]) -> None:
    """Complete a list; every task must have been there."""
    assert all(await engine.settle([Settlement(task, None) for task in tasks], now_us()))


async def rate(engine: Engine, count: int) -> None:
    """Print writes and removals a second."""
    queue = f"{PARENT}/queues/engine"
    await engine.create_queue(Queue(queue), now_us())
    tasks = [make_task(engine, queue, 0) for _ in range(count)]
    written = await by_lists(tasks, LIST, lambda some: create(engine, some))
    removed = await by_lists(tasks, LIST, lambda some: settle(engine, some))
    print(count / written, count / removed)


def later(number: int) -> int:
    """A delay of 1 to 21 days, scattered so that tasks are not written in the order in which they become due."""
    return DAY + number * 7_919 * SECOND % (20 * DAY)


async def fill(engine: Engine, count: int) -> None:
    """Half of the tasks wait for their time in queues that run, half are due in queues that are paused."""
    queues = [f"{PARENT}/queues/waiting-{number}" for number in range(FILL_QUEUES)]
    for number, name in enumerate(queues):
        state = QueueState.PAUSED if number % 2 else QueueState.RUNNING
        await engine.create_queue(Queue(name, state=state), now_us())
    # In portions, so that the tasks of a million do not all lie in memory here.
    for start in range(0, count, 50_000):
        tasks = [
            make_task(engine, queues[number % FILL_QUEUES], 0 if number % 2 else later(number))
            for number in range(start, min(count, start + 50_000))
        ]
        await by_lists(tasks, FILL_LIST, lambda some: create(engine, some))


async def main(mode: str, store: str, count: int) -> None:
    """One mode on one store."""
    engine = await open_engine(store)
    try:
        await (rate if mode == "rate" else fill)(engine, count)
    finally:
        await engine.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

"""Queues, tasks and instants for the engine suite, and a whole engine's state as one comparable value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from taskbell.core.errors import TaskbellError
from taskbell.core.instant import SECOND, Instant
from taskbell.core.queue import Queue
from taskbell.core.target import HttpTarget, Target
from taskbell.core.task import Attempt, DueKey, Status, Task
from taskbell.engine import Engine, Settlement

MakeEngine = Callable[[], Engine]
"""Makes an engine that is not open yet; each call one on the same store, if the engine has one that outlives it."""

LOCATION = "projects/p/locations/l"
QUEUE = f"{LOCATION}/queues/q"
OTHER_QUEUE = f"{LOCATION}/queues/other"
START: Instant = 1_790_000_000 * SECOND
"""The suite's now (in September 2026), for engines that are never told the real one."""
TARGET = HttpTarget("https://example.com/handler", body=b"{}")
NO_BYTES_LIMIT = 2**40


def sample_task(
    engine: Engine,
    now: Instant = START,
    *,
    name: str | None = None,
    queue: str = QUEUE,
    schedule_time: Instant | None = None,
    target: Target = TARGET,
) -> Task:
    """A new task with a fresh id, due at once, without a chosen name unless one is given."""
    task_id = engine.next_id(now)
    return Task(
        id=task_id,
        queue=queue,
        task_id=str(task_id) if name is None else name,
        named=name is not None,
        target=target,
        schedule_time=now if schedule_time is None else schedule_time,
        create_time=now,
    )


def retried(task: Task, *, wait: int = SECOND) -> Task:
    """The task as it stands after one more failed attempt."""
    now = task.schedule_time
    return replace(
        task,
        schedule_time=now + wait,
        dispatch_count=task.dispatch_count + 1,
        response_count=task.response_count + 1,
        first_dispatch_time=task.first_dispatch_time or now,
        last_attempt=Attempt(task.schedule_time, now, now + 5, Status(14, "UNAVAILABLE(14): HTTP status code 503")),
        previous_response=503,
    )


def over(task: Task) -> Settlement:
    """The task is done."""
    return Settlement(task, None)


def retry(task: Task) -> Settlement:
    """The task's next attempt is to come."""
    return Settlement(task, retried(task))


async def put(engine: Engine, *tasks: Task) -> None:
    """Create tasks that must not be refused."""
    answers = await engine.create_tasks(tasks)
    assert answers == [None] * len(tasks)


async def add(engine: Engine, now: Instant = START, *, name: str | None = None, queue: str = QUEUE) -> Task:
    """Create one sample task and return it."""
    task = sample_task(engine, now, name=name, queue=queue)
    await put(engine, task)
    return task


async def due(engine: Engine, queue: str = QUEUE, after: DueKey | None = None, limit: int = 1000) -> list[Task]:
    """The next tasks of a queue, whatever their size."""
    return await engine.due_tasks(queue, after, limit, NO_BYTES_LIMIT)


async def refusal(engine: Engine, task: Task) -> tuple[str, str] | None:
    """How a create is answered: the code and the text, or None."""
    (answer,) = await engine.create_tasks([task])
    return None if answer is None else (answer.code, answer.message)


async def refused(call: Awaitable[object]) -> tuple[str, str]:
    """The code and the text with which a verb refuses."""
    with pytest.raises(TaskbellError) as caught:
        await call
    return caught.value.code, caught.value.message


async def state_of(engine: Engine, now: Instant, names: dict[str, list[str]]) -> dict[str, Any]:
    """All that can be seen of an engine, with what becomes of look-ups of the given task names of each queue."""
    state: dict[str, Any] = {
        "queues": sorted(await engine.all_queues(), key=lambda queue: queue.name),
        "depths": await engine.depths(),
    }
    for queue, task_ids in names.items():
        state[queue] = await due(engine, queue)
        for task_id in task_ids:
            try:
                state[f"{queue}/tasks/{task_id}"] = await engine.task(queue, task_id, now)
            except TaskbellError as error:
                state[f"{queue}/tasks/{task_id}"] = (error.code, error.message)
    return state


def sample_queue(name: str = QUEUE, **settings: Any) -> Queue:
    """A queue with the defaults, but for the settings given."""
    return Queue(name, **settings)

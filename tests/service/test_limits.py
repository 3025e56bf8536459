"""Limits that an operator has raised or lowered, as the services keep to them."""

from __future__ import annotations

import pytest

from taskbell.core.errors import AlreadyExists, InvalidArgument, NotFound
from taskbell.core.instant import DAY, HOUR, SECOND
from taskbell.core.limits import Limits
from taskbell.core.queue import Queue, RateLimits
from tests.loops.stage import PARENT, QUEUE, Stage


async def test_a_raised_rate_and_concurrency_are_allowed_and_named_in_the_refusal() -> None:
    """The text says the limit as it is here."""
    stage = Stage(limits=Limits(max_dispatches_per_second=2000.0, max_concurrent_dispatches=9000))
    queue = await stage.create_queue(rate=2000.0, slots=9000)
    assert queue.rate_limits == RateLimits(2000.0, 400, 9000)

    with pytest.raises(InvalidArgument, match=r"less than or equal to 2000\.$"):
        await stage.queues.create(PARENT, Queue(QUEUE + "2", RateLimits(2000.5, 0, 1)))
    with pytest.raises(InvalidArgument, match=r"less than or equal to 9000\.$"):
        await stage.queues.create(PARENT, Queue(QUEUE + "2", RateLimits(1.0, 0, 9001)))


async def test_a_blank_queue_has_the_defaults_of_this_server() -> None:
    """Times to live as well."""
    limits = Limits(max_dispatches_per_second=50.0, default_concurrent_dispatches=5, task_ttl=DAY, task_tombstone=HOUR)
    queue = Stage(limits=limits).queues.blank(QUEUE)

    assert queue.rate_limits == RateLimits(50.0, 10, 5)
    assert (queue.task_ttl, queue.tombstone_ttl) == (DAY, HOUR)


async def test_a_shorter_horizon_is_named_in_the_refusal() -> None:
    """In the service's own notation."""
    stage = Stage(limits=Limits(schedule_horizon=36 * HOUR))
    await stage.create_queue()
    await stage.create(delay=36 * HOUR)

    with pytest.raises(InvalidArgument, match=r"no more than 36h in the future\.$"):
        await stage.create(delay=36 * HOUR + 1)


@pytest.mark.parametrize("tombstone", [0, HOUR])
async def test_n01_a_task_tombstone_lasts_as_long_as_it_is_set_to(tombstone: int) -> None:
    """Not at all, or an hour after the success."""
    limits = Limits(task_tombstone=tombstone)
    stage = Stage(limits=limits)
    await stage.queues.create(PARENT, stage.queues.blank(QUEUE))
    await stage.create(task_id="t")
    await stage.pump()
    assert stage.sent() == 1
    if tombstone:
        with pytest.raises(AlreadyExists, match="existed too recently"):
            await stage.create(task_id="t")
        stage.clock.advance(tombstone)

    await stage.create(task_id="t")


async def test_n04_a_queue_tombstone_of_nothing_frees_the_name_at_once() -> None:
    """The queue is another one."""
    stage = Stage(limits=Limits(queue_tombstone=0))
    await stage.create_queue()
    await stage.create(delay=HOUR, task_id="t")
    await stage.queues.delete(QUEUE)
    with pytest.raises(NotFound):
        await stage.queues.get(QUEUE)
    await stage.create_queue()

    with pytest.raises(NotFound, match=r"^Requested entity was not found\.$"):
        await stage.tasks.get(f"{QUEUE}/tasks/t")


async def test_a_rate_that_changes_paces_the_tasks_that_wait_already() -> None:
    """From the answer on."""
    stage = Stage()
    await stage.create_queue(rate=0.001)
    for _ in range(40):
        await stage.create()
    await stage.elapse(10 * SECOND)
    assert stage.sent() == 10
    await stage.queues.update(QUEUE, lambda queue: Queue(queue.name, RateLimits(1.0, 0, 1000)))
    await stage.elapse(20 * SECOND)

    assert 29 <= stage.sent() <= 31

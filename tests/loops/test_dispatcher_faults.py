"""Stores that are away, senders that break, restarts and ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from taskbell.core.errors import Unavailable
from taskbell.core.instant import HOUR, MINUTE, SECOND
from taskbell.core.outcome import Failure
from taskbell.core.target import HttpOverride, OidcToken
from tests.loops.stage import QUEUE, Stage, rows, ticks

# Faults.


@pytest.mark.parametrize("status", [200, 500])
async def test_a_store_that_is_away_when_an_attempt_ends_neither_repeats_nor_loses_the_work(status: int) -> None:
    """The outcome is kept until the store takes it."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", status, 200)
    await stage.create()
    stage.engine.refusals["settle"] = 5
    await stage.advance(4 * SECOND, SECOND)
    assert stage.sent() == 1
    assert await rows(stage) == 1
    await stage.elapse(HOUR)

    assert stage.sent() == (1 if status == 200 else 2)
    assert await rows(stage) == 0


async def test_a_store_that_is_away_when_a_window_is_read_is_asked_again() -> None:
    """A second later."""
    stage = Stage()
    await stage.create_queue()
    await stage.queues.pause(QUEUE)
    await stage.create()
    again = Stage(engine=stage.engine, clock=stage.clock)
    again.engine.refusals["due_tasks"] = 3
    await again.dispatcher.load()
    await again.queues.resume(QUEUE)
    await again.elapse(10 * SECOND)

    assert again.sent() == 1


async def test_a_fault_of_the_senders_own_is_a_failed_attempt_and_not_a_lost_task() -> None:
    """It is tried again after its backoff."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.breaks = True
    await stage.create()
    await stage.pump()
    stage.sender.breaks = False
    await stage.elapse(HOUR)

    assert stage.sent() == 1
    assert stage.finished[0].outcome.failure is Failure.UNSENDABLE
    assert "a sender must never do this" in stage.finished[0].outcome.reason


async def test_without_a_token_the_attempt_fails_with_the_reason() -> None:
    """Nothing is sent; the retry has a token."""
    stage = Stage()
    await stage.create_queue()
    stage.minter.refusal = "configure Google credentials"
    await stage.create(token=OidcToken("a@p"))
    await stage.pump()
    assert (stage.sent(), stage.finished[0].outcome.reason) == (0, "configure Google credentials")
    stage.minter.refusal = ""
    await stage.elapse(HOUR)

    assert stage.sender.headers("Authorization") == ["Bearer a@p for http://h/"]


async def test_a_queues_override_applies_to_tasks_that_wait_already() -> None:
    """The stored task keeps its URL, which stays the token's default audience."""
    stage = Stage()
    await stage.create_queue()
    task = await stage.create("x", delay=MINUTE, task_id="t", token=OidcToken("a@p"))
    override = HttpOverride(host="other", has_uri=True, method="GET")
    await stage.queues.update(QUEUE, lambda queue: replace(queue, http_override=override))
    assert (await stage.tasks.get(task.name)).target == task.target
    await stage.elapse(HOUR)

    (request,) = stage.sender.requests
    assert (request.url, request.method, request.body) == ("http://other/x", "GET", None)
    assert dict(request.headers)["Authorization"] == "Bearer a@p for http://h/x"


async def test_a_refused_create_dispatches_nothing() -> None:
    """The caller was told so."""
    stage = Stage()
    await stage.create_queue()
    stage.engine.refusals["create_tasks"] = 1
    with pytest.raises(Unavailable):
        await stage.create()
    await stage.elapse(HOUR)

    assert stage.sent() == 0


# Restarts and ends.


async def test_p02_what_was_out_when_the_process_died_goes_out_again() -> None:
    """At once, and only that."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.hold("http://h/out")
    await stage.create("out")
    await stage.create("done")
    await stage.create("later", delay=HOUR)
    await stage.pump()
    again = Stage(engine=stage.engine, clock=stage.clock)
    await again.dispatcher.load()
    await again.elapse(MINUTE)

    assert (again.sent("out"), again.sent("done"), again.sent("later")) == (1, 0, 0)
    await stage.dispatcher.drain(0)


async def test_an_attempt_that_ends_within_the_grace_period_is_settled() -> None:
    """And nothing new begins meanwhile."""
    stage = Stage()
    await stage.create_queue()
    answer = stage.sender.hold("http://h/")
    await stage.create()
    await stage.pump()
    draining = asyncio.ensure_future(stage.dispatcher.drain(10 * SECOND))
    await ticks()
    await stage.create("new")
    await stage.pump()
    answer.set()

    assert await draining == 0
    assert (stage.sent(), stage.sent("new")) == (1, 0)
    assert await rows(stage) == 1


async def test_an_attempt_that_outlasts_the_grace_period_is_cut_and_its_task_stays() -> None:
    """It will be delivered again by whoever starts next."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.hold("http://h/")
    await stage.create()
    await stage.pump()
    draining = asyncio.ensure_future(stage.dispatcher.drain(10 * SECOND))
    await ticks()
    stage.clock.advance(10 * SECOND)

    assert await draining == 1
    assert stage.sender.open == 0
    assert await rows(stage) == 1


async def test_a_dispatcher_that_drains_refuses_forced_runs() -> None:
    """The caller may try again elsewhere."""
    stage = Stage()
    await stage.create_queue()
    task = await stage.create(task_id="t", delay=HOUR)
    assert await stage.dispatcher.drain(SECOND) == 0

    with pytest.raises(Unavailable):
        await stage.tasks.run(task.name)

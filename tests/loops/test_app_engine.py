"""App Engine tasks through the dispatcher: whose routing counts, which deadline, which headers on each attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.instant import HOUR, MINUTE, SECOND, Span
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.queue import Queue, RateLimits
from taskbell.core.target import AppEngineTarget, Routing
from taskbell.sender import Request
from taskbell.service.tasks import Draft
from tests.loops.stage import PARENT, QUEUE, QUICK, Stage

AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"


async def sent(stage: Stage, target: AppEngineTarget, deadline: Span | None = None) -> list[Request]:
    """The requests of one task until it is done."""
    task = stage.tasks.prepare(QUEUE, Draft(f"{QUEUE}/tasks/t", target, None, deadline))
    assert await stage.tasks.create([task]) == [None]
    await stage.elapse(HOUR)
    return stage.sender.requests


@pytest.mark.parametrize(
    ("override", "routing"),
    [
        (None, Routing("worker", "v1", "0", "0.v1.worker.p.appspot.com")),
        (Routing("mailer"), Routing("mailer", host="mailer.p.appspot.com")),
        (Routing("", "v2"), Routing("", "v2", host="v2.p.appspot.com")),
        (Routing(), Routing(host="p.appspot.com")),
    ],
)
async def test_the_queues_routing_beats_the_tasks(override: Routing | None, routing: Routing) -> None:
    """As a whole, where it is set at all."""
    stage = Stage()
    await stage.queues.create(PARENT, Queue(QUEUE, routing_override=override))

    (request,) = await sent(stage, AppEngineTarget("/tasks/x?y", routing=Routing("worker", "v1", "0")))

    assert (request.url, request.routing) == ("/tasks/x?y", routing)


async def test_it_counts_for_tasks_that_are_waiting_and_is_shown_with_its_host() -> None:
    """The stored task stays as its creator made it."""
    stage = Stage()
    await stage.create_queue()
    target = AppEngineTarget("/h", routing=Routing("worker"))
    task = stage.tasks.prepare(QUEUE, Draft("", target, stage.clock.now() + MINUTE))
    await stage.tasks.create([task])
    queue = await stage.queues.update(QUEUE, lambda stored: replace(stored, routing_override=Routing("mailer")))
    seen = await stage.tasks.get(task.name)
    await stage.elapse(HOUR)

    (request,) = stage.sender.requests
    assert queue.routing_override == request.routing == Routing("mailer", host="mailer.p.appspot.com")
    assert isinstance(seen.target, AppEngineTarget)
    assert seen.target.routing == Routing("worker", host="worker.p.appspot.com")


@pytest.mark.parametrize(("deadline", "goes_out"), [(None, None), (0, None), (20 * SECOND, 20 * SECOND)])
async def test_a_task_without_a_deadline_leaves_it_to_its_service(deadline: Span | None, goes_out: Span | None) -> None:
    """None: the sender knows how the service scales."""
    stage = Stage()
    await stage.create_queue()

    (request,) = await sent(stage, AppEngineTarget("/h"), deadline)

    assert request.deadline == goes_out


async def test_h22_the_headers_of_one_task_over_its_answers() -> None:
    """Exactly the recorded ones: every answer counts as an execution, 5xx too; a timeout does not."""
    stage = Stage()
    await stage.queues.create(PARENT, Queue(QUEUE, RateLimits(), QUICK))
    stage.sender.answer("/h", Outcome(status=503), Outcome(failure=Failure.TIMEOUT, reason="slow"), 404, 200)

    requests = await sent(stage, AppEngineTarget("/h", headers=(("X-Mine", "1"),), body=b"b"))

    seen = [dict(request.headers) for request in requests]
    common = {
        "X-Mine": "1",
        "User-Agent": AGENT,
        "Content-Type": "application/octet-stream",
        "X-AppEngine-QueueName": "q",
        "X-AppEngine-TaskName": "t",
    }
    each = [
        {"TaskRetryCount": "0", "TaskExecutionCount": "0"},
        {
            "TaskRetryCount": "1",
            "TaskExecutionCount": "1",
            "TaskPreviousResponse": "503",
            "TaskRetryReason": "App Error",
        },
        {
            "TaskRetryCount": "2",
            "TaskExecutionCount": "1",
            "TaskPreviousResponse": "0",
            "TaskRetryReason": "Instance Unavailable",
        },
        {
            "TaskRetryCount": "3",
            "TaskExecutionCount": "2",
            "TaskPreviousResponse": "404",
            "TaskRetryReason": "App Error",
        },
    ]
    changing = ("X-AppEngine-TaskETA", "Idempotency-Key")
    assert [{name: value for name, value in headers.items() if name not in changing} for headers in seen] == [
        {**common, **{f"X-AppEngine-{name}": value for name, value in headers.items()}} for headers in each
    ]
    assert len({headers["Idempotency-Key"] for headers in seen}) == 1
    assert [request.body for request in requests] == [b"b"] * 4


async def test_503_slows_the_queue_down_and_429_does_not() -> None:
    """The other way round from HTTP handlers, for which both do."""
    for status, slows in ((503, True), (429, False)):
        stage = Stage()
        await stage.create_queue(rate=100)
        stage.sender.answer("/h", status)
        task = stage.tasks.prepare(QUEUE, Draft("", AppEngineTarget("/h")))
        await stage.tasks.create([task])
        await stage.pump()

        assert (stage.lane().throttle.rate < 100) is slows

"""Stopping in good order, and what a server knows when it comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskbell.testing.handler import Answer, ScriptedHandler, Wire, respond, stall
from tests.support.process import group_members
from tests.support.receiver import Receiver
from tests.support.rest import BROKEN, LOCATION, RestClient, http_task, queue_name, task_name
from tests.support.server import ServerProcess
from tests.support.waiting import until, wait_until

GRACE = 1.5
MakeServer = Callable[..., ServerProcess]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeServer]:
    """Makes servers with options, and ends them."""
    made: list[ServerProcess] = []

    def one(*options: str) -> ServerProcess:
        made.append(ServerProcess(tmp_path, *options))
        return made[-1].start()

    yield one
    for server in made:
        server.kill()


def slow(seconds: float) -> Answer:
    """An answer that takes its time."""

    async def act(wire: Wire) -> None:
        await wire.pause(seconds)
        await respond(200).act(wire)

    return Answer(act)


@pytest.mark.parametrize("kind", ["pyvoy", "hypercorn"])
async def test_sigterm(make: MakeServer, kind: str) -> None:
    """Attempts that are out may end, no other begins, creates that were answered are kept, the exit is clean."""
    server = make("--server", kind, "--grace", f"{GRACE:g}s")
    group = server.pid
    async with ScriptedHandler() as handler:
        handler.script("/soon", slow(0.6))
        handler.script("/never", *[stall()] * 3, respond(200))
        with RestClient(server.address) as client:
            for queue_id in ("soon", "never", "behind", "held"):
                client.create_queue(queue_id, rateLimits={"maxConcurrentDispatches": 3})
            client.do("pause", queue_name("held"))
            # Three of each are out, three wait behind them.
            for queue_id in ("soon", "never"):
                for n in range(6):
                    task = http_task(f"{handler.url}/{queue_id}", name=task_name(queue_id, f"{queue_id}{n}"))
                    client.create_task(queue_id, task)
            due = time.time() + 0.8
            client.create_task("behind", http_task(f"{handler.url}/behind", schedule_time=due))
            await handler.wait_for(6)

            signalled = time.monotonic()
            stopping = asyncio.create_task(asyncio.to_thread(server.terminate))
            acked = await asyncio.to_thread(_create_until_closed, client, stopping.done)
            code = await stopping
        took = time.monotonic() - signalled

        print(f"{len(acked)} creates were acknowledged after the signal")  # noqa: T201 - how much it shows
        assert code == 0
        assert GRACE - 0.2 < took < GRACE + 3
        assert group_members(group) == []
        # The three that were out were answered; nothing else had begun, though three waited and one fell due.
        assert len(handler.requests) == 6
        assert "shutdown.cut" in server.log_tail()
        assert "Traceback" not in server.log_tail(1000)

        server.start()
        requests = await handler.wait_for(6 + 3 + 6 + 1)
        await until(lambda: handler.running == 0, "the last answers")
        with RestClient(server.address) as client:
            kept = {task["name"] for task in client.tasks("held")}
        names = [str(request.header("X-CloudTasks-TaskName")) for request in requests]
        # What ended in the grace period was settled, what was cut comes again.
        assert sorted(name for name in names if name.startswith("soon")) == [f"soon{n}" for n in range(6)]
        assert sorted({name for name in names if name.startswith("never")}) == [f"never{n}" for n in range(6)]
        assert set(acked) <= kept
        assert server.terminate() == 0


def _create_until_closed(client: RestClient, is_over: Callable[[], bool]) -> list[str]:
    """Go on creating while the server stops, for as long as it answers; the names that it acknowledged."""
    names: list[str] = []
    while not is_over():
        task = http_task("http://127.0.0.1:9/", name=task_name("held", f"h{len(names)}"))
        try:
            answer = client.call("POST", f"/v2/{queue_name('held')}/tasks", {"task": task})
        except BROKEN:
            break
        if answer.status == 200:
            names.append(task["name"])
        else:
            assert answer.status == 503
            break
    return names


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_an_idle_server_stops_at_once(make: MakeServer, number: signal.Signals) -> None:
    """By either signal, with 0, however long the grace period."""
    server = make("--grace", "60s")
    group = server.pid
    process = server._process
    assert process is not None
    with RestClient(server.address) as client:
        client.create_queue("q")
        start = time.monotonic()
        process.send_signal(number)
        assert process.wait(timeout=10) == 0
    assert time.monotonic() - start < 5
    wait_until(lambda: group_members(group) == [], "nothing is left behind", 2)
    assert "Traceback" not in server.log_tail(1000)


async def test_a_suspended_server_catches_up(make: MakeServer) -> None:
    """Stopped and continued, as a laptop that slept: what fell due meanwhile comes at once, and nothing comes twice."""
    server = make()
    async with ScriptedHandler() as handler:
        handler.script("/held", slow(0.3))
        with RestClient(server.address) as client:
            client.create_queue("q")
            due = time.time() + 0.8
            for n in range(20):
                task = http_task(f"{handler.url}/due", name=task_name("q", f"due{n}"), schedule_time=due + n / 40)
                client.create_task("q", task)
            for _ in range(3):
                client.create_task("q", http_task(f"{handler.url}/held"))
            await handler.wait_for(3, "/held")
            os.kill(server.pid, signal.SIGSTOP)
            try:
                # Everything falls due, and the held answers arrive, while the server stands still.
                await until(lambda: time.time() > due + 1 and handler.running == 0, "the time has passed")
                assert handler.received("/due") == []
            finally:
                os.kill(server.pid, signal.SIGCONT)
            continued = time.time()
            requests = await handler.wait_for(20, "/due")
            await asyncio.to_thread(wait_until, lambda: not [*client.tasks("q")], "all are settled")

        assert max(request.arrival_time for request in requests) < (continued + 1) * 1_000_000
        assert len(handler.requests) == 23


def _state(client: RestClient) -> dict[str, object]:
    """Everything that this story put into the store, as the API shows it."""
    paths = [
        f"/v2/{queue_name('kept')}",
        f"/v2/{queue_name('purged')}",
        f"/v2/{queue_name('deleted')}",
        f"/v2/{queue_name('kept')}/tasks?responseView=FULL",
        f"/v2/{queue_name('purged')}/tasks",
        f"/v2/{task_name('kept', 'deleted')}",
        f"/v2/{task_name('kept', 'completed')}",
        f"/v2/{task_name('purged', 'gone')}",
        f"/v2/{LOCATION}/cmekConfig",
        f"/v2/{LOCATION}/queues",
    ]
    state: dict[str, object] = {}
    for path in paths:
        answer = client.call("GET", path)
        state[path] = (answer.status, answer.value)
    policy = client.call("POST", f"/v2/{queue_name('kept')}:getIamPolicy", {})
    state["policy"] = (policy.status, policy.value)
    for name in (task_name("kept", "deleted"), task_name("kept", "completed"), task_name("purged", "gone")):
        task = http_task("http://127.0.0.1:9/", name=name)
        refusal = client.call("POST", f"/v2/{name.partition('/tasks/')[0]}/tasks", {"task": task})
        state[f"create {name}"] = (refusal.status, refusal.value)
    refusal = client.call("POST", f"/v2/{LOCATION}/queues", {"name": queue_name("deleted")})
    state["create queue"] = (refusal.status, refusal.value)
    return state


def test_state_survives(make: MakeServer) -> None:
    """Over a clean stop and over a SIGKILL: pause, purge, tombstones, policies, the encryption key, every field."""
    server = make()
    with Receiver() as receiver, RestClient(server.address) as client:
        client.create_queue(
            "kept",
            rateLimits={"maxDispatchesPerSecond": 7.5, "maxConcurrentDispatches": 3},
            retryConfig={"maxAttempts": 5, "minBackoff": "300s", "maxBackoff": "400s", "maxRetryDuration": "9000s"},
            stackdriverLoggingConfig={"samplingRatio": 0.25},
        )
        for queue_id in ("purged", "deleted"):
            client.create_queue(queue_id)
        receiver.script("/fails", 500)
        client.create_task("kept", http_task(f"{receiver.url}/x", name=task_name("kept", "completed")))
        client.create_task("kept", http_task(f"{receiver.url}/fails", name=task_name("kept", "failed"), body=b"\0\xff"))
        receiver.wait("/fails", 1)
        wait_until(
            lambda: [task["name"] for task in client.tasks("kept")] == [task_name("kept", "failed")], "completed"
        )
        wait_until(lambda: "responseStatus" in next(client.tasks("kept"))["lastAttempt"], "the failure is settled")
        client.do("pause", queue_name("kept"))
        client.create_task("kept", http_task(f"{receiver.url}/x", name=task_name("kept", "deleted")))
        client.expect("DELETE", f"/v2/{task_name('kept', 'deleted')}")
        client.create_task("kept", http_task(f"{receiver.url}/x", schedule_time=time.time() + 3600))
        for queue_id in ("purged", "deleted"):
            client.create_task(
                queue_id,
                http_task(f"{receiver.url}/x", name=task_name(queue_id, "gone"), schedule_time=time.time() + 60),
            )
        client.do("purge", queue_name("purged"))
        client.expect("DELETE", f"/v2/{queue_name('deleted')}")
        binding = {"role": "roles/cloudtasks.enqueuer", "members": ["user:ann@example.com"]}
        client.expect("POST", f"/v2/{queue_name('kept')}:setIamPolicy", {"policy": {"bindings": [binding]}})
        key = f"{LOCATION}/keyRings/r/cryptoKeys/k"
        client.expect("PATCH", f"/v2/{LOCATION}/cmekConfig?updateMask=kmsKey", {"kmsKey": key})
        before = _state(client)
    statuses = {path: answer[0] for path, answer in before.items() if isinstance(answer, tuple)}

    assert server.terminate() == 0
    server.start()
    with RestClient(server.address) as client:
        after_stop = _state(client)
    server.kill()
    server.start()
    with RestClient(server.address) as client:
        after_kill = _state(client)

    assert after_stop == before
    assert after_kill == before
    # The state was what the story says.
    assert [path for path, status in statuses.items() if status == 404] == [
        f"/v2/{queue_name('deleted')}",
        f"/v2/{task_name('kept', 'deleted')}",
        f"/v2/{task_name('kept', 'completed')}",
        f"/v2/{task_name('purged', 'gone')}",
    ]
    assert [status for path, status in statuses.items() if path.startswith("create ")] == [409, 409, 409, 400]
    assert "kmsKey" in str(before[f"/v2/{LOCATION}/cmekConfig"])
    assert "ann@example.com" in str(before["policy"])
    assert "purgeTime" in str(before[f"/v2/{queue_name('purged')}"])
    assert "PAUSED" in str(before[f"/v2/{queue_name('kept')}"])

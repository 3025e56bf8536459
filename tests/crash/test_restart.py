"""What one crash, one unlucky moment or one careless operator may do to a store: nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskbell.testing.handler import ScriptedHandler, respond, stall
from tests.support.receiver import Receiver
from tests.support.rest import RestClient, http_task, queue_name, task_name
from tests.support.server import ServerProcess, free_port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server, not yet started."""
    process = ServerProcess(tmp_path)
    yield process
    process.kill()


async def test_a_held_request_comes_again(server: ServerProcess) -> None:
    """SIGKILL while handlers hold requests: within a second of ready all come again; earlier attempts still count."""
    queues, per_queue = 4, 5
    server.start()
    async with ScriptedHandler() as handler:
        handler.script("/held", respond(500), respond(500), stall())
        # Only the first requests are held: whatever follows the kill is answered.
        for n in range(queues):
            handler.script(f"/{n}", *[stall()] * per_queue, respond(200))
        with RestClient(server.address) as client:
            for n in range(queues):
                client.create_queue(f"q{n}")
                for _ in range(per_queue):
                    client.create_task(f"q{n}", http_task(f"{handler.url}/{n}"))
            client.create_queue("counting")
            client.create_task("counting", http_task(f"{handler.url}/held", name=task_name("counting", "t")))
            await handler.wait_for(queues * per_queue + 3)
            seen = client.expect("GET", f"/v2/{task_name('counting', 't')}")
        held = {request.header("X-CloudTasks-TaskName") for request in handler.requests}
        assert (seen["dispatchCount"], seen["responseCount"]) == (3, 2)
        assert len(handler.requests) == queues * per_queue + 3

        server.kill()
        handler.script("/held", respond(200))
        server.start()
        ready = time.monotonic_ns()

        again = (await handler.wait_for(2 * queues * per_queue + 4))[queues * per_queue + 3 :]
        assert {request.header("X-CloudTasks-TaskName") for request in again} == held
        assert max(request.monotonic_ns - ready for request in again) < 1_000_000_000
        keys = {(each.header("X-CloudTasks-TaskName"), each.header("Idempotency-Key")) for each in handler.requests}
        assert len(keys) == len(held)
        # The attempt that was out left no trace; the two before it did.
        counted = handler.received("/held")
        assert [each.header("X-CloudTasks-TaskRetryCount") for each in counted] == ["0", "1", "2", "2"]
        assert counted[-1].header("X-CloudTasks-TaskPreviousResponse") == "500"


async def test_what_was_dismissed_while_it_was_out_stays_away(server: ServerProcess) -> None:
    """A delete, a purge and a queue's delete, acknowledged while handlers hold the requests, outlive a SIGKILL."""
    server.start()
    async with ScriptedHandler() as handler:
        with RestClient(server.address) as client:
            for queue_id in ("deletes", "purged", "deleted", "paused", "kept"):
                handler.script(f"/{queue_id}", stall(), respond(200))
                client.create_queue(queue_id)
                url = f"{handler.url}/{queue_id}"
                client.create_task(queue_id, http_task(url, name=task_name(queue_id, "t")))
            await handler.wait_for(5)
            client.expect("DELETE", f"/v2/{task_name('deletes', 't')}")
            client.do("purge", queue_name("purged"))
            client.expect("DELETE", f"/v2/{queue_name('deleted')}")
            client.do("pause", queue_name("paused"))

        server.kill()
        server.start()

        await handler.wait_for(2, "/kept")
        # The others would have come with it.
        with pytest.raises(AssertionError, match="got 6 of 7"):
            await handler.wait_for(7, timeout=0.5)
        with RestClient(server.address) as client:
            client.do("resume", queue_name("paused"))
            await handler.wait_for(2, "/paused")


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)


def _killed_after(server: ServerProcess, seconds: float) -> None:
    """Start and SIGKILL the server, ready or not."""
    process = _spawn(server.command(), server.log_path)
    with contextlib.suppress(subprocess.TimeoutExpired):
        raise AssertionError(f"ended by itself with {process.wait(timeout=seconds)}\n{server.log_tail()}")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_start_may_be_killed_at_any_moment(server: ServerProcess) -> None:
    """The first start, which makes the store, and later ones: the next start finds a store in order."""
    start = time.monotonic()
    server.start()
    whole = time.monotonic() - start
    server.kill()
    for path in server.store.parent.glob("t.db*"):
        path.unlink()

    # The last part of a start is where the store is made; a machine that is busy by turns spreads these further.
    for part in (0.5, 0.75, 0.85, 0.95):
        _killed_after(server, part * whole)
    server.start()
    with RestClient(server.address) as client:
        client.create_queue("q")
        client.do("pause", queue_name("q"))
        name = client.create_task("q", http_task("http://127.0.0.1:9/"))
    server.kill()
    for part in (0.85, 0.95):
        _killed_after(server, part * whole)
    server.start()

    with RestClient(server.address) as client:
        assert [task["name"] for task in client.tasks("q")] == [name]
        assert client.expect("GET", f"/v2/{queue_name('q')}")["state"] == "PAUSED"


def test_a_second_server_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    """With one clear line and a code, by whatever path; the first server works on unharmed."""
    server.start()
    link = tmp_path / "link.db"
    link.symlink_to(server.store)
    for path in (str(server.store), str(link), server.store.name):
        command = [sys.executable, "-m", "taskbell", "serve", "--store", f"sqlite:{path}", "--port", str(free_port())]

        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)

        assert second.returncode == 1, second
        assert second.stdout == ""
        (line,) = second.stderr.splitlines()
        assert line.startswith("taskbell: ")
        assert "another" in line
    with Receiver() as receiver, RestClient(server.address) as client:
        client.create_queue("q")
        client.create_task("q", http_task(f"{receiver.url}/x"))
        receiver.wait("/x", 1)

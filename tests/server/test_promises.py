"""The promises of pacing and of the queue verbs, kept under load, as the handler's own record shows."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from taskbell.testing.handler import Answer, Received, ScriptedHandler, Wire, respond
from tests.support.rest import BROKEN, RestClient, http_task, queue_name, task_name
from tests.support.rpc import RpcClient, create_request
from tests.support.server import ServerProcess
from tests.support.threads import run_all
from tests.support.waiting import until, wait_until

ON_THE_WAY = 0.4
"""Seconds. A request sent just before an acknowledgement may reach the handler's record just after it, the more so when
the machine is busy."""


@pytest.fixture
async def handler() -> AsyncIterator[ScriptedHandler]:
    """A handler that answers 200."""
    async with ScriptedHandler() as scripted:
        yield scripted


def slow(seconds: float) -> Answer:
    """An answer that takes its time."""

    async def act(wire: Wire) -> None:
        await wire.pause(seconds)
        await respond(200).act(wire)

    return Answer(act)


def after(requests: list[Received], instant: float) -> list[Received]:
    """The requests that arrived later than that, by the wall clock."""
    return [request for request in requests if request.arrival_time > instant * 1_000_000]


class Stream:
    """Creates some 400 immediate tasks a second in a queue, from a thread, until stopped; keeps what was answered."""

    def __init__(self, server: ServerProcess, queue_id: str, url: str) -> None:
        self.names: list[tuple[float, str]] = []
        """When each was asked for, and its name."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server.address, queue_id, url), daemon=True)
        self._thread.start()

    def _run(self, address: str, queue_id: str, url: str) -> None:
        with RpcClient(address) as rpc:
            while not self._stopped.wait(0.02):
                asked = time.time()
                futures = [rpc.create_task.future(create_request(queue_id, url), timeout=10) for _ in range(8)]
                for future in futures:
                    if future.exception() is None:
                        self.names.append((asked, future.result().name))

    @property
    def latest(self) -> float:
        """When the latest acknowledged one was asked for."""
        return self.names[-1][0] if self.names else 0.0

    async def stop(self) -> None:
        """End, with every answer in."""
        self._stopped.set()
        await asyncio.to_thread(self._thread.join)


def task_ids(requests: list[Received]) -> list[str]:
    """The ids of the delivered tasks."""
    return [str(request.header("X-CloudTasks-TaskName")) for request in requests]


async def test_pause_under_load(server: ServerProcess, client: RestClient, handler: ScriptedHandler) -> None:
    """After the acknowledgement no attempt begins; creates are still taken; resume delivers every one of them once."""
    client.create_queue("paused")
    stream = Stream(server, "paused", f"{handler.url}/paused")
    for turn in range(1, 3):
        await handler.wait_for(150 * turn, "/paused", 20)
        await asyncio.to_thread(client.do, "pause", queue_name("paused"))
        acked = time.time()
        before = len(stream.names)
        # Held still for as long as hundreds of attempts would take.
        await asyncio.sleep(1)
        assert len(stream.names) > before
        late = after(handler.received("/paused"), acked + ON_THE_WAY)
        assert late == []
        await asyncio.to_thread(client.do, "resume", queue_name("paused"))
    await stream.stop()

    requests = await handler.wait_for(len(stream.names), "/paused", 30)
    assert sorted(task_ids(requests)) == sorted(name.rpartition("/")[2] for _, name in stream.names)


async def test_a_forced_run_passes_a_pause(client: RestClient, handler: ScriptedHandler) -> None:
    """RunTask sends at once, and what it sent is not sent again: by the timer or by resume."""
    client.create_queue("forced")
    client.do("pause", queue_name("forced"))
    due = time.time() + 1
    names = [task_name("forced", f"t{n}") for n in range(10)]
    for name in names:
        client.create_task("forced", http_task(f"{handler.url}/forced", name=name, schedule_time=due))
    for name in names[:5]:
        answer = client.do("run", name)
        assert answer["dispatchCount"] == 1
    forced = await handler.wait_for(5, "/forced")
    assert max(request.arrival_time for request in forced) < due * 1_000_000

    client.do("resume", queue_name("forced"))
    requests = await handler.wait_for(10, "/forced")
    # Nothing more comes while the queue is idle well past the due time.
    with pytest.raises(AssertionError, match="got 10 of 11"):
        await handler.wait_for(11, "/forced", 0.7)

    assert sorted(task_ids(requests)) == [f"t{n}" for n in range(10)]
    assert sorted(task_ids(requests[:5])) == [f"t{n}" for n in range(5)]
    assert min(request.arrival_time for request in requests[5:]) >= due * 1_000_000


async def test_a_forced_run_races_its_timer(client: RestClient, handler: ScriptedHandler) -> None:
    """Run just when the task is due: a run that came first takes the timer's place, else there are two at most."""
    client.create_queue("tie")
    counts: dict[str, int] = {}
    for n in range(40):
        due = time.time() + 0.03
        name = task_name("tie", f"t{n}")
        client.create_task("tie", http_task(f"{handler.url}/tie", name=name, schedule_time=due))
        # From just before the task is due to just after.
        moment = due + (n % 10 - 5) * 0.0005
        await until(lambda moment=moment: time.time() > moment, "the time to run it")  # type: ignore[misc]
        answer = await asyncio.to_thread(client.call, "POST", f"/v2/{name}:run", {})
        assert answer.code in {"OK", "NOT_FOUND"}
        counts[f"t{n}"] = answer.value["dispatchCount"] if answer.code == "OK" else 1
    await asyncio.to_thread(wait_until, lambda: not [*client.tasks("tie")], "all have ended")
    with pytest.raises(AssertionError, match="the handler got"):
        await handler.wait_for(1000, timeout=0.3)
    delivered = Counter(task_ids(handler.received("/tie")))

    assert set(delivered) == set(counts)
    assert {name: count for name, count in delivered.items() if count > counts[name]} == {}
    assert set(counts.values()) <= {1, 2}


async def test_delete_under_load(server: ServerProcess, client: RestClient, handler: ScriptedHandler) -> None:
    """No attempt of a task begins after its delete is acknowledged, though thousands wait and hundreds are out."""
    client.create_queue("deleting", rateLimits={"maxDispatchesPerSecond": 100, "maxConcurrentDispatches": 20})
    with RpcClient(server.address) as rpc:
        futures = [rpc.create_task.future(create_request("deleting", f"{handler.url}/deleting")) for _ in range(400)]
        names = await asyncio.to_thread(lambda: [future.result().name for future in futures])
    deleted: dict[str, float] = {}
    lock = threading.Lock()

    def delete(share: list[str]) -> None:
        with RestClient(server.address) as rest:
            for name in share:
                if rest.call("DELETE", f"/v2/{name}").code == "OK":
                    with lock:
                        deleted[name.rpartition("/")[2]] = time.time()

    shares = [names[1::4], names[3::4]]
    await asyncio.to_thread(run_all, [partial(delete, share) for share in shares])
    kept = {name.rpartition("/")[2] for name in names} - set(deleted)
    requests = await handler.wait_for(len(kept), "/deleting", 20)
    await asyncio.to_thread(wait_until, lambda: not [*client.tasks("deleting")], "all others are delivered", 20)

    got = task_ids(handler.received("/deleting"))
    assert len(deleted) > 100
    assert len(set(got)) == len(got)
    assert kept <= set(got)
    late = [r for r in requests if r.arrival_time / 1e6 > deleted.get(task_ids([r])[0], 1e18) + ON_THE_WAY]
    assert late == []


async def test_purge_under_load(server: ServerProcess, client: RestClient, handler: ScriptedHandler) -> None:
    """What was acknowledged before the purge was asked for is gone; what was asked for after its answer is not."""
    client.create_queue("purging", rateLimits={"maxDispatchesPerSecond": 50})
    stream = Stream(server, "purging", f"{handler.url}/purging")
    purges: list[tuple[float, float, int]] = []
    for turn in range(1, 4):
        await handler.wait_for(20 * turn, "/purging", 20)
        earliest = purges[-1][1] + 0.3 if purges else 0.0
        await until(lambda earliest=earliest: stream.latest > earliest, "creates after the last purge")  # type: ignore[misc]
        begun, acked_names = time.time(), len(stream.names)
        await asyncio.to_thread(client.do, "purge", queue_name("purging"))
        purges.append((begun, time.time(), acked_names))
    await stream.stop()
    covered = {name.rpartition("/")[2] for _, name in stream.names[: purges[-1][2]]}
    later = {name.rpartition("/")[2] for asked, name in stream.names if asked > purges[-1][1]}
    listed = {task["name"].rpartition("/")[2] for task in await asyncio.to_thread(lambda: [*client.tasks("purging")])}

    assert covered & listed == set()
    assert later - listed <= set(task_ids(handler.received("/purging")))
    late = after(handler.received("/purging"), purges[-1][1] + ON_THE_WAY)
    assert [task_id for task_id in task_ids(late) if task_id in covered] == []
    await asyncio.to_thread(client.expect, "DELETE", f"/v2/{queue_name('purging')}")


async def test_concurrency_is_never_exceeded(client: RestClient, handler: ScriptedHandler) -> None:
    """By the handler's gauge: over pause and resume, and when a PATCH lowers it as soon as those that are out end."""
    client.create_queue("gauge", rateLimits={"maxConcurrentDispatches": 5})
    handler.script("/gauge", slow(0.05))
    for _ in range(120):
        client.create_task("gauge", http_task(f"{handler.url}/gauge"))
    for turn in range(1, 4):
        await handler.wait_for(10 * turn, "/gauge")
        for verb in ("pause", "resume", "pause", "resume"):
            await asyncio.to_thread(client.do, verb, queue_name("gauge"))
    await handler.wait_for(60, "/gauge")
    assert handler.peak == 5

    mask = "updateMask=rateLimits.maxConcurrentDispatches"
    path = f"/v2/{queue_name('gauge')}?{mask}"
    lowered = {"rateLimits": {"maxConcurrentDispatches": 2}}
    await asyncio.to_thread(client.expect, "PATCH", path, lowered)
    # Those that were out end by themselves; from then on there are two.
    count = len(handler.received("/gauge"))
    await handler.wait_for(count + 5, "/gauge")
    handler.peak = 0
    await handler.wait_for(count + 20, "/gauge")
    assert handler.peak == 2

    await asyncio.to_thread(client.expect, "PATCH", path, {"rateLimits": {"maxConcurrentDispatches": 9}})
    await handler.wait_for(120, "/gauge", 10)
    assert 2 < handler.peak <= 9


async def test_a_forced_run_goes_past_the_gauge(client: RestClient, handler: ScriptedHandler) -> None:
    """And leaves the slots of the others as they are."""
    client.create_queue("full", rateLimits={"maxConcurrentDispatches": 1})
    handler.script("/full", slow(0.5), slow(0.5), respond(200))
    names = [client.create_task("full", http_task(f"{handler.url}/full")) for _ in range(3)]
    await handler.wait_for(1, "/full")
    client.do("run", names[2])
    await handler.wait_for(2, "/full", 0.4)
    assert handler.running == 2
    requests = await handler.wait_for(3, "/full")
    assert task_ids(requests) == [name.rpartition("/")[2] for name in (names[0], names[2], names[1])]


@pytest.mark.parametrize(("rate", "burst", "tasks"), [(20, 10, 40), (100, 20, 150)])
async def test_rate_and_burst_are_never_exceeded(
    client: RestClient, handler: ScriptedHandler, rate: int, burst: int, tasks: int
) -> None:
    """In no window of time more than the burst and what the rate gives; and in all not much less either."""
    queue_id = f"rate-{rate}"
    limits = client.create_queue(queue_id, rateLimits={"maxDispatchesPerSecond": rate})["rateLimits"]
    assert limits["maxBurstSize"] == burst
    client.do("pause", queue_name(queue_id))
    for _ in range(tasks):
        client.create_task(queue_id, http_task(f"{handler.url}/{queue_id}"))
    start = time.time()
    client.do("resume", queue_name(queue_id))
    requests = await handler.wait_for(tasks, f"/{queue_id}", 20)

    times = sorted(request.arrival_time / 1_000_000 for request in requests)
    # From the start on there is nothing to forgive: on its way a request can only become later.
    early = [n for n, instant in enumerate(times) if instant - start < (n + 1 - burst) / rate - 0.01]
    assert early == []
    # A window that begins later may open with a request that was late and close with one that was not.
    jitter = 0.3
    for first, later in itertools.combinations(range(0, tasks, 5), 2):
        window = times[later] - times[first]
        assert later - first + 1 <= burst + rate * (window + jitter) + 1
    assert times[-1] - start < 1.5 * (tasks - burst) / rate + 1
    # The burst came at once.
    assert bisect.bisect_left(times, times[0] + 0.5 * burst / rate) >= burst


async def test_an_overloaded_queue_slows_down_alone(client: RestClient, handler: ScriptedHandler) -> None:
    """429 for everything: arrivals stay below the rate, others are on time, and the settings look as they did."""
    limits = {"maxDispatchesPerSecond": 100.0, "maxConcurrentDispatches": 50}
    retry = {"minBackoff": "0.1s", "maxBackoff": "1s"}
    before = client.create_queue("overloaded", rateLimits=limits, retryConfig=retry)
    client.create_queue("calm")
    handler.script("/overloaded", respond(429))
    start = time.time()
    for _ in range(50):
        client.create_task("overloaded", http_task(f"{handler.url}/overloaded"))
    lateness = []
    for n in range(20):
        due = time.time() + 0.1
        client.create_task("calm", http_task(f"{handler.url}/calm", schedule_time=due))
        request = (await handler.wait_for(n + 1, "/calm"))[n]
        lateness.append(request.arrival_time / 1_000_000 - due)
    end = time.time()
    came = handler.received("/overloaded")

    assert 50 < len(came) <= 20 + 100 * (end - start)
    # Unthrottled, the backoff would let 50 and more come in each second; the rate halves every second.
    assert len(after(came, end - 1)) < 50
    assert max(lateness) < 1.0
    assert client.expect("GET", f"/v2/{queue_name('overloaded')}") == before
    client.expect("DELETE", f"/v2/{queue_name('overloaded')}")


def test_broken_clients_do_no_harm(server: ServerProcess, client: RestClient) -> None:
    """Clients that go away in the middle of a call leave a server that answers."""
    client.create_queue("left")
    for verb in ("POST", "GET"):
        rest = RestClient(server.address, timeout=0.001)
        for _ in range(20):
            try:
                rest.call(verb, f"/v2/{queue_name('left')}/tasks", {"task": http_task("http://127.0.0.1:9/")})
            except BROKEN:
                continue
        rest.close()
    assert client.expect("GET", f"/v2/{queue_name('left')}")["name"] == queue_name("left")
    client.expect("DELETE", f"/v2/{queue_name('left')}")
    assert "Traceback" not in server.log_path.read_text()


@pytest.fixture(autouse=True)
def quiet(server: ServerProcess) -> Iterator[None]:
    """After each test nothing of it is left to disturb the next."""
    yield
    with RestClient(server.address) as rest:
        queues = rest.expect("GET", "/v2/projects/p/locations/l/queues").get("queues", ())
        for queue in queues:
            rest.call("DELETE", f"/v2/{queue['name']}")

"""One queue that is deleted and made again while twenty threads do everything to it: only documented codes."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.support.receiver import Receiver
from tests.support.rest import LOCATION, RestClient, http_task, queue_name, task_name
from tests.support.server import ServerProcess
from tests.support.threads import run_all

RACING = queue_name("racing")
SECONDS = 2.5
SECONDS_MAX = 20.0
THREADS = 20
NAMES = 40
Value = Callable[[random.Random, str], object]


@dataclass(frozen=True, slots=True)
class Move:
    """One kind of call: what is sent, and the codes that it may be answered with besides OK."""

    verb: str
    path: str
    codes: frozenset[str] = frozenset({"NOT_FOUND"})
    value: Value = lambda _rng, _url: None


def _empty(_rng: random.Random, _url: str) -> object:
    return {}


def _soon(rng: random.Random, url: str) -> object:
    return {"task": http_task(url, schedule_time=time.time() + rng.random())}


def _named(rng: random.Random, url: str) -> object:
    name = task_name("racing", f"t{rng.randrange(NAMES)}")
    return {"task": http_task(url, name=name, schedule_time=time.time() + rng.random())}


def _limits(rng: random.Random, _url: str) -> object:
    return {"rateLimits": {"maxConcurrentDispatches": rng.randrange(1, 20)}}


MOVES = {
    "create queue": Move(
        "POST", f"/v2/{LOCATION}/queues", frozenset({"ALREADY_EXISTS"}), lambda _rng, _url: {"name": RACING}
    ),
    "update queue": Move("PATCH", f"/v2/{RACING}?updateMask=rateLimits.maxConcurrentDispatches", frozenset(), _limits),
    "get queue": Move("GET", f"/v2/{RACING}"),
    "delete queue": Move("DELETE", f"/v2/{RACING}"),
    "pause queue": Move("POST", f"/v2/{RACING}:pause", value=_empty),
    "resume queue": Move("POST", f"/v2/{RACING}:resume", value=_empty),
    "purge queue": Move("POST", f"/v2/{RACING}:purge", value=_empty),
    "create task": Move("POST", f"/v2/{RACING}/tasks", value=_soon),
    "create named task": Move("POST", f"/v2/{RACING}/tasks", frozenset({"NOT_FOUND", "ALREADY_EXISTS"}), _named),
    "get task": Move("GET", f"/v2/{RACING}/tasks/TASK"),
    "list tasks": Move("GET", f"/v2/{RACING}/tasks?pageSize=5"),
    "run task": Move("POST", f"/v2/{RACING}/tasks/TASK:run", value=_empty),
    "delete task": Move("DELETE", f"/v2/{RACING}/tasks/TASK"),
}
# What each call must have met at least once, or there was no race.
MET = {
    *((name, "OK") for name in MOVES),
    *((name, code) for name, move in MOVES.items() for code in move.codes),
}


def test_only_documented_codes(server: ServerProcess, client: RestClient) -> None:
    """No 500, no hang, and afterwards the queue works as if nothing had been."""
    seen: Counter[tuple[str, str]] = Counter()
    unexpected: list[str] = []
    seed = random.SystemRandom().randrange(2**32)
    start = time.monotonic()

    def is_over() -> bool:
        """A busy machine may need longer until everything has met everything."""
        elapsed = time.monotonic() - start
        return elapsed > SECONDS_MAX or (elapsed > SECONDS and set(seen) >= MET)

    with Receiver() as receiver:
        receiver.script("/sometimes", *[200, 500] * 2000)
        url = receiver.url + "/sometimes"

        def race(number: int) -> None:
            rng = random.Random(f"{seed}/{number}")
            with RestClient(server.address) as rest:
                while not is_over():
                    name, move = rng.choice(list(MOVES.items()))
                    path = move.path.replace("TASK", f"t{rng.randrange(NAMES)}")
                    answer = rest.call(move.verb, path, move.value(rng, url))
                    seen[name, answer.code] += 1
                    if answer.code not in {"OK", *move.codes}:
                        unexpected.append(f"{name}: {answer.status} {answer.body.decode(errors='replace')}")

        run_all([partial(race, number) for number in range(THREADS)])
    print(f"seed {seed}, {seen.total()} calls")  # noqa: T201 - how hard the race was

    assert unexpected[:5] == []
    assert set(seen) >= MET
    client.call("DELETE", f"/v2/{RACING}")
    client.create_queue("racing")
    assert list(client.tasks("racing")) == []
    with Receiver() as receiver:
        client.create_task("racing", http_task(f"{receiver.url}/after"))
        receiver.wait("/after", 1)
    assert "Traceback" not in server.log_path.read_text()


def test_a_new_queue_of_an_old_name_is_empty(client: RestClient) -> None:
    """Nothing of the former queue leaks into it: not its tasks, not their attempts, not their names, not its pause."""
    with Receiver() as receiver:
        for life in range(3):
            client.create_queue("reborn")
            assert client.expect("GET", f"/v2/{queue_name('reborn')}")["state"] == "RUNNING"
            assert list(client.tasks("reborn")) == []
            due = time.time() + 0.5
            for n in range(5):
                task = http_task(f"{receiver.url}/life{life}", name=task_name("reborn", f"t{n}"), schedule_time=due)
                client.create_task("reborn", task)
            if life < 2:
                client.do("pause", queue_name("reborn"))
                client.expect("DELETE", f"/v2/{queue_name('reborn')}")
        receiver.wait("/life2", 5)

        assert receiver.requests("/life0") == receiver.requests("/life1") == []
        assert len(receiver.requests("/life2")) == 5

"""Stores with a server, and processes that compete, die and are suspended: on the real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskbell.core.claim import Status, Wait
from taskbell.idempotency import DAY, HOUR, Answer, Bid, Guard, InProgress, Ran, Replayed, own_key
from taskbell.idempotency.stores.postgres import PostgresStore
from taskbell.idempotency.stores.redis import RedisStore
from taskbell.testing.claim_history import shifted
from tests.idempotency.store_worker import STORES, effect

ROOT = Path(__file__).parents[2]
COUNTS = {"claimed": (0, 1), "worked": (1, 2), "finished": (1, 1)}
"""Effects when a worker has died at a step, and when the next delivery is done."""
StartWorker = Callable[[str], "Worker"]


class Worker:
    """A process of `store_worker.py` that has said that it is ready."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.idempotency.store_worker", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> object:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture(params=sorted(STORES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{kind}_url"))


@pytest.fixture
def server_store(kind: str, url: str) -> Iterator[PostgresStore | RedisStore]:
    store = STORES[kind](url)
    store.create_schema()
    yield store
    store.close()


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    path = tmp_path / "effects"
    path.touch()
    return path


@pytest.fixture
def start(kind: str, url: str, name: str, effects: Path) -> Iterator[StartWorker]:
    workers: list[Worker] = []

    def start(what: str) -> Worker:
        workers.append(Worker(kind, url, name, str(effects), what))
        return workers[-1]

    yield start
    for worker in workers:
        worker.process.kill()
        worker.process.communicate()


def lease_ends(store: PostgresStore | RedisStore, name: str) -> None:
    """As if an hour had passed."""
    record = store.get(own_key(name).text)
    assert record is not None
    store.put(shifted(record, HOUR))


def test_of_fifty_deliveries_in_two_processes_one_runs(start: StartWorker, effects: Path) -> None:
    """The others are refused or replayed; both made the schema at their start, at the same time."""
    workers = [start("25"), start("25")]
    assert [worker.says() for worker in workers] == ["ready", "ready"]
    for worker in workers:
        worker.go_on()
    outcomes: list[object] = []
    for worker in workers:
        said = worker.says()
        assert isinstance(said, list)
        outcomes += said

    assert len(outcomes) == 50
    assert outcomes.count("Ran") == 1
    assert {str(outcome) for outcome in outcomes} <= {"Ran", "Replayed", "InProgress"}
    assert effects.read_text() == "compete\n"


@pytest.mark.parametrize("step", sorted(COUNTS))
def test_a_worker_that_is_killed_leaves_a_key_that_completes(
    start: StartWorker,
    server_store: PostgresStore | RedisStore,
    name: str,
    effects: Path,
    step: str,
) -> None:
    """At whichever step: with the lease over, the next delivery completes. Only one window repeats the effect."""
    before, after = COUNTS[step]
    worker = start(step)
    assert worker.says() == "ready"
    worker.go_on()
    assert worker.says() == "here"
    worker.process.send_signal(signal.SIGKILL)
    worker.process.wait()
    guard = Guard(server_store, lease=HOUR)
    assert len(effects.read_text().splitlines()) == before

    if step != "finished":
        assert isinstance(guard.call(own_key(name), lambda _: effect(effects, "next")), InProgress)
        lease_ends(server_store, name)
    outcome = guard.call(own_key(name), lambda _: effect(effects, "next"))

    assert isinstance(outcome, Replayed if step == "finished" else Ran)
    assert len(effects.read_text().splitlines()) == after
    record = server_store.get(own_key(name).text)
    assert record is not None
    assert record.status is Status.COMPLETED


def test_a_worker_that_was_suspended_past_its_lease_is_refused(
    start: StartWorker, server_store: PostgresStore | RedisStore, name: str
) -> None:
    """SIGSTOP, another finishes, SIGCONT: its result does not stand."""
    worker = start("worked")
    assert worker.says() == "ready"
    worker.go_on()
    assert worker.says() == "here"
    worker.process.send_signal(signal.SIGSTOP)
    lease_ends(server_store, name)
    other = Answer(200, body=b"other")
    assert Guard(server_store).call(own_key(name), lambda _: other) == Ran(other, other)
    worker.process.send_signal(signal.SIGCONT)
    worker.go_on()

    assert worker.says() == "Lost"
    assert Guard(server_store).claim(own_key(name)) == Replayed(other)


def test_a_fork_goes_on_with_connections_of_its_own(server_store: PostgresStore | RedisStore, name: str) -> None:
    """Servers fork after they have loaded the program; both go on with the store."""
    server_store.claim(Bid(name, "a", HOUR, DAY))
    child = os.fork()
    if child == 0:
        waits = [isinstance(server_store.claim(Bid(name, "b", HOUR, DAY)), Wait) for _ in range(20)]
        os._exit(0 if all(waits) else 1)
    waits = [isinstance(server_store.claim(Bid(name, "c", HOUR, DAY)), Wait) for _ in range(20)]

    assert os.waitpid(child, 0)[1] == 0
    assert all(waits)

"""Creates at full speed, SIGKILL at random instants, restart: what was acknowledged is kept, whatever the instant.

The seed of a run is printed; `TASKBELL_CRASH_SEED=N` repeats the same choices (the instants of the machine, of course,
are never the same), `TASKBELL_CRASH_ROUNDS=N` kills more often.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.crash.creator import FLAKY_PATHS, PAUSED_QUEUE, RUNNING_QUEUES, THREADS, Entry, flaky_path, read_ledger
from tests.crash.verbs import Promises, VerbClient
from tests.support.receiver import Received, Receiver
from tests.support.rest import RestClient, http_task, queue_name, task_name
from tests.support.server import ServerProcess
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("TASKBELL_CRASH_ROUNDS", "10"))
CREATORS = {"ga": "grpc", "gb": "grpc", "rc": "rest"}
CREATES_MAX = 4000
"""Of each creator."""
LIFE = (0.1, 1.0)
"""Seconds between ready and SIGKILL."""
SETTLE_WINDOW = 1.0
"""Seconds. An answer older than this at the kill has been settled, however busy the machine."""
START_MIN = 0.2
"""Seconds. No server sends anything so soon after its start, so what arrives is from the one before."""
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(300)


@dataclass(slots=True)
class Story:
    """What happened, as those outside the server know it."""

    entries: list[Entry]
    promises: Promises
    requests: list[Received]
    starts: list[float]
    kills: list[float]
    by_task: dict[str, list[Received]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for request in sorted(self.requests, key=lambda request: request.arrival_time):
            self.by_task[delivered_name(request)].append(request)

    def acked(self, *queue_ids: str) -> list[Entry]:
        """The acknowledged creates in these queues."""
        return [entry for entry in self.entries if entry.fate == "acked" and entry.queue_id in queue_ids]

    def life(self, instant: float) -> int:
        """Which of the servers was alive."""
        return sum(start + START_MIN <= instant for start in self.starts) - 1


def delivered_name(request: Received) -> str:
    """The full name of the task that a request delivers."""
    queue_id, task_id = request.header("X-CloudTasks-QueueName"), request.header("X-CloudTasks-TaskName")
    assert queue_id
    assert task_id
    return task_name(queue_id, task_id)


def entry_name(entry: Entry) -> str:
    """The full name of a created task."""
    return task_name(entry.queue_id, entry.task_id)


@contextlib.contextmanager
def creators(server: ServerProcess, url: str, folder: Path, seed: int) -> Iterator[dict[str, Path]]:
    """Run the creators; on leaving they stop and their ledgers, by name, are complete."""
    ledgers = {name: folder / f"{name}.ledger" for name in CREATORS}
    processes = []
    try:
        for name, transport in CREATORS.items():
            arguments = [name, transport, server.address, url, str(ledgers[name]), str(seed), str(CREATES_MAX)]
            command = [sys.executable, "-m", "tests.crash.creator", *arguments]
            processes.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE))
        yield ledgers
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        assert [process.wait(timeout=20) for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def play(server: ServerProcess, receiver: Receiver, folder: Path, seed: int) -> Story:
    """Kill and restart a busy server, then let it finish what may be finished."""
    rng = random.Random(seed)
    for creator, thread, number in itertools.product(CREATORS, range(THREADS), range(FLAKY_PATHS)):
        receiver.script(flaky_path(f"{creator}{thread}", number), 500, 200)
    starts, kills = [time.time()], []
    server.start()
    with RestClient(server.address) as client:
        for queue_id in (*RUNNING_QUEUES, PAUSED_QUEUE):
            client.create_queue(queue_id, rateLimits={"maxConcurrentDispatches": 16})
        client.do("pause", queue_name(PAUSED_QUEUE))
    verbs = VerbClient(server.address, receiver.url)
    with creators(server, receiver.url, folder, seed) as ledgers:
        verbs.start()
        wait_until(lambda: verbs.promises.turns > 0 and bool(receiver.requests("/q0")), "load", 30)
        for _ in range(ROUNDS):
            moment = time.monotonic() + rng.uniform(*LIFE)
            wait_until(lambda moment=moment: time.monotonic() > moment, "the kill")  # type: ignore[misc]
            server.kill()
            kills.append(time.time())
            starts.append(time.time())
            server.start()
        verbs.stop()
    assert verbs.fault is None, verbs.fault
    entries = [entry for ledger in ledgers.values() for entry in read_ledger(ledger)]
    with RestClient(server.address) as client:
        for queue_id in (*RUNNING_QUEUES, *(name.rpartition("/")[2] for name in verbs.promises.resumed_queues)):
            wait_until(lambda queue_id=queue_id: not list(client.tasks(queue_id)), f"{queue_id} is empty", 60)  # type: ignore[misc]
    return Story(entries, verbs.promises, receiver.all_requests(), starts, kills)


@pytest.fixture(scope="module")
def seed() -> int:
    """The seed of this run."""
    chosen = int(os.environ.get("TASKBELL_CRASH_SEED") or random.SystemRandom().randrange(2**32))
    print(f"TASKBELL_CRASH_SEED={chosen}")  # noqa: T201 - shown when the run fails
    return chosen


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server that is killed again and again."""
    process = ServerProcess(tmp_path_factory.mktemp("crash"))
    yield process
    process.kill()


@pytest.fixture(scope="module")
def story(server: ServerProcess, seed: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The whole story; the server still runs for those who look up what it kept."""
    with Receiver() as receiver:
        yield play(server, receiver, tmp_path_factory.mktemp("ledgers"), seed)


@pytest.fixture
def client(server: ServerProcess, story: Story) -> Iterator[RestClient]:
    """A client of the server after the last crash."""
    with RestClient(server.address) as rest:
        yield rest


def test_there_was_a_story(story: Story) -> None:
    """Kills met creates and deliveries, and nothing was refused; else the other tests would show nothing."""
    fates = [entry.fate for entry in story.entries]
    print(  # noqa: T201 - how hard the run was
        f"{fates.count('acked')} acknowledged, {fates.count('unknown')} unknown, {len(story.requests)} requests, "
        f"{story.promises.turns} turns of verbs, {len(story.kills)} kills"
    )

    assert [entry for entry in story.entries if entry.fate == "refused"] == []
    assert len(story.kills) == ROUNDS >= 10
    assert fates.count("acked") > 50 * ROUNDS
    assert fates.count("unknown") > 0
    assert min(len(story.promises.deleted_tasks), len(story.promises.purged_tasks)) > 0
    assert min(map(len, (story.promises.deleted_queues, story.promises.held_tasks, story.promises.freed_tasks))) > 0
    assert len({story.life(request.arrival_time) for request in story.requests}) > ROUNDS // 2


def test_every_acknowledged_task_is_delivered(story: Story) -> None:
    """The queues are empty at the end, so a task that was not delivered would be lost."""
    lost = [entry for entry in story.acked(*RUNNING_QUEUES) if entry_name(entry) not in story.by_task]

    assert lost == []
    assert [name for name in story.promises.freed_tasks if name not in story.by_task] == []


def test_a_failed_attempt_is_tried_again(story: Story) -> None:
    """Each flaky task was answered 500 first, so there was another attempt, before or after a crash."""
    flaky = [entry for entry in story.acked(*RUNNING_QUEUES) if entry.path.startswith("/flaky/")]

    assert flaky
    assert [entry for entry in flaky if len(story.by_task[entry_name(entry)]) < 2] == []


def test_no_task_is_early(story: Story) -> None:
    """By the handler's own record."""
    due = {entry_name(entry): entry.schedule_time for entry in story.entries if entry.task_id}
    early = {name: due[name] - got[0].arrival_time for name, got in story.by_task.items() if name in due}

    assert {name: seconds for name, seconds in early.items() if seconds > 0} == {}


def test_only_unknown_outcomes_are_repeated(story: Story) -> None:
    """A task that was answered 200 comes again only after a kill that was near."""
    wrong = []
    repeated = 0
    for name, got in story.by_task.items():
        for nth, (former, later) in enumerate(itertools.pairwise(got)):
            if nth == 0 and former.target.startswith("/flaky/"):
                continue  # Answered 500.
            repeated += 1
            life = story.life(former.arrival_time)
            is_next_life = life < story.life(later.arrival_time)
            if not is_next_life or story.kills[life] - former.arrival_time > SETTLE_WINDOW:
                wrong.append((name, former.arrival_time, later.arrival_time))
    print(f"{repeated} deliveries were repeats")  # noqa: T201 - how hard the run was

    assert wrong == [], story.kills


def test_the_idempotency_key_stays(story: Story) -> None:
    """One key for each task, over all its deliveries and crashes, and no key for two tasks."""
    keys = {name: {request.header("Idempotency-Key") for request in got} for name, got in story.by_task.items()}

    assert [name for name, its in keys.items() if len(its) != 1 or None in its] == []
    assert len({key for its in keys.values() for key in its}) == len(keys)


def test_the_paused_queue_kept_everything(story: Story, client: RestClient) -> None:
    """Still paused, nothing of it delivered, every acknowledged task listed and never dispatched."""
    listed = {task["name"]: task for task in client.tasks(PAUSED_QUEUE)}
    acked = {entry_name(entry) for entry in story.acked(PAUSED_QUEUE)}
    unknown = [entry for entry in story.entries if entry.fate == "unknown" and entry.queue_id == PAUSED_QUEUE]
    extra = set(listed) - acked - {entry_name(entry) for entry in unknown if entry.is_named}

    assert client.expect("GET", f"/v2/{queue_name(PAUSED_QUEUE)}")["state"] == "PAUSED"
    assert acked - set(listed) == set()
    assert len(extra) <= sum(not entry.is_named for entry in unknown)
    assert [name for name in story.by_task if name.startswith(queue_name(PAUSED_QUEUE) + "/")] == []
    assert [name for name, task in listed.items() if task.get("dispatchCount", 0)] == []


def test_nothing_comes_from_nowhere(story: Story) -> None:
    """What was delivered was asked for: by a named create, an acknowledged one, or one that was never answered."""
    known = {entry_name(entry) for entry in story.entries if entry.task_id}
    strange = [name for name in story.by_task if name not in known and "/tasks/v" not in name]

    assert len(strange) <= sum(entry.fate == "unknown" and not entry.is_named for entry in story.entries)


def test_acknowledged_verbs_stay(story: Story, client: RestClient) -> None:
    """Deleted, purged and held tasks were never delivered; deleted queues are gone; paused ones are paused."""
    promises = story.promises
    untouchable = {*promises.covered_tasks(), *promises.held_tasks}
    gone = (*promises.covered_tasks(), *promises.deleted_queues)

    assert untouchable & set(story.by_task) == set()
    assert [name for name in story.by_task if name.partition("/tasks/")[0] in promises.deleted_queues] == []
    assert {name: code for name in gone if (code := client.call("GET", f"/v2/{name}").code) != "NOT_FOUND"} == {}
    states = {name: client.expect("GET", f"/v2/{name}")["state"] for name in promises.paused_queues}
    assert set(states.values()) == {"PAUSED"}
    assert [name for name in promises.held_tasks if client.call("GET", f"/v2/{name}").status != 200] == []
    for name in promises.deleted_queues:
        refusal = client.call("POST", f"/v2/{name.rpartition('/queues/')[0]}/queues", {"name": name})
        assert refusal.code == "FAILED_PRECONDITION"


def test_names_stay_blocked(story: Story, client: RestClient) -> None:
    """Of completed, deleted and purged tasks; and of those that wait."""
    completed = [entry_name(entry) for entry in story.acked(*RUNNING_QUEUES) if entry.is_named]
    waiting = [entry_name(entry) for entry in story.acked(PAUSED_QUEUE) if entry.is_named]
    sample = [*completed[:: max(1, len(completed) // 300)], *waiting[:: max(1, len(waiting) // 50)]]
    answers = {}
    for name in (*sample, *story.promises.covered_tasks()):
        task = http_task("http://127.0.0.1:9/", name=name)
        answers[name] = client.call("POST", f"/v2/{name.partition('/tasks/')[0]}/tasks", {"task": task})

    assert completed
    assert waiting
    assert {name: answer.body for name, answer in answers.items() if answer.code != "ALREADY_EXISTS"} == {}
    assert {answer.status for answer in answers.values()} == {409}

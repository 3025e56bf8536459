"""A client that creates tasks as fast as it can and keeps a ledger of what it was answered, through every crash.

Run as a process of its own, so that the load is real: `python -m tests.crash.creator NAME TRANSPORT ADDRESS URL LEDGER
SEED MOST`. It ends when its standard input is closed, or after MOST creates. A create without an answer is in the
ledger as unknown: the server may have it or not, and nobody asks again.
"""

from __future__ import annotations

import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

import grpc

from tests.support.rest import BROKEN, RestClient, http_task, queue_name, task_name
from tests.support.rpc import RpcClient, create_request

THREADS = 4
RUNNING_QUEUES = ("q0", "q1", "q2", "q3")
PAUSED_QUEUE = "paused"
FLAKY_PATHS = 40
"""How many flaky tasks a thread makes at most; the handler fails the first attempt of each."""
BODY = b"0123456789" * 10
LOOK_EVERY = 0.03
LEDGER_LOCK = threading.Lock()

Fate = Literal["acked", "unknown", "refused"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One create, as it was asked for and answered."""

    fate: Fate
    queue_id: str
    task_id: str
    """Chosen, or answered; empty for an unnamed create without an answer."""
    is_named: bool
    path: str
    schedule_time: float
    """What was asked for; for an immediate task the time of asking."""
    note: str = ""

    def line(self) -> str:
        """The entry in the ledger."""
        parts = (self.fate, self.queue_id, self.task_id, str(int(self.is_named)), self.path, repr(self.schedule_time))
        return "\t".join((*parts, self.note.replace("\n", " "))) + "\n"


def read_ledger(path: Path) -> list[Entry]:
    """What a creator wrote."""
    entries = []
    for line in path.read_text().splitlines():
        fate, queue_id, task_id, named, where, schedule_time, note = line.split("\t")
        assert fate in ("acked", "unknown", "refused")
        entries.append(Entry(fate, queue_id, task_id, named == "1", where, float(schedule_time), note))  # type: ignore[arg-type] # asserted above
    return entries


def flaky_path(creator: str, number: int) -> str:
    """Where the n-th flaky task of a creator goes."""
    return f"/flaky/{creator}/{number}"


Create = Callable[[str, str, str, float | None], str]
"""Queue id, URL, name and schedule time to the answered name; raises Unanswered or Refused."""


class UnansweredError(Exception):
    """The outcome is not known."""


class RefusedError(Exception):
    """The server answered an error; the text says which."""


def rest_create(address: str) -> Create:
    """Creates over REST on a connection of their own."""
    client = RestClient(address, timeout=5)

    def create(queue_id: str, url: str, name: str, schedule_time: float | None) -> str:
        task = http_task(url, name=name, body=BODY, schedule_time=schedule_time)
        try:
            answer = client.call("POST", f"/v2/{queue_name(queue_id)}/tasks", {"task": task})
        except BROKEN as error:
            raise UnansweredError from error
        if answer.status != 200:
            raise RefusedError(f"{answer.status} {answer.body.decode(errors='replace')}")
        return str(answer.value["name"])

    return create


def rpc_create(address: str) -> Create:
    """Creates over gRPC on a channel of their own."""
    client = RpcClient(address)

    def create(queue_id: str, url: str, name: str, schedule_time: float | None) -> str:
        micros = None if schedule_time is None else round(schedule_time * 1_000_000)
        request = create_request(queue_id, url, name=name, body=BODY, schedule_micros=micros)
        try:
            return str(client.create_task(request, timeout=5).name)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise UnansweredError from error
            raise RefusedError(f"{error.code()} {error.details()}") from error

    return create


class Thread(threading.Thread):
    """One stream of creates."""

    def __init__(
        self, name: str, transport: str, address: str, url: str, *, seed: str, most: int, ledger: TextIO
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.stopped = threading.Event()
        self._create = (rest_create if transport == "rest" else rpc_create)(address)
        host, _, port = address.rpartition(":")
        self._place = (host, int(port))
        self._url = url
        self._rng = random.Random(f"{seed}/{name}")
        self._most = most
        self._ledger = ledger
        self._flaky = 0

    def run(self) -> None:
        """Create until told to stop."""
        for number in range(self._most):
            if self.stopped.is_set():
                return
            entry = self._one(number)
            with LEDGER_LOCK:
                self._ledger.write(entry.line())
            if entry.fate == "unknown":
                self._await_listener()

    def _await_listener(self) -> None:
        """Wait until somebody listens again: creates that cannot succeed would only slow the server's start."""
        while not self.stopped.is_set():
            try:
                socket.create_connection(self._place, timeout=1).close()
            except OSError:
                self.stopped.wait(LOOK_EVERY)
            else:
                return

    def _one(self, number: int) -> Entry:
        rng = self._rng
        queue_id = PAUSED_QUEUE if rng.random() < 0.15 else rng.choice(RUNNING_QUEUES)
        path = f"/{queue_id}"
        if queue_id != PAUSED_QUEUE and self._flaky < FLAKY_PATHS and rng.random() < 0.1:
            path = flaky_path(self.name, self._flaky)
            self._flaky += 1
        task_id = f"{self.name}-{number}" if rng.random() < 0.5 else ""
        asked = time.time()
        schedule_time = round(asked + rng.uniform(1, 3), 6) if rng.random() < 0.4 else None
        name = task_name(queue_id, task_id) if task_id else ""
        fate: Fate = "acked"
        note = ""
        try:
            task_id = self._create(queue_id, self._url + path, name, schedule_time).rpartition("/")[2]
        except UnansweredError:
            fate = "unknown"
        except RefusedError as refusal:
            fate, note = "refused", str(refusal)
        return Entry(fate, queue_id, task_id, bool(name), path, schedule_time or asked, note)


def main() -> None:
    """Run the threads until standard input ends."""
    name, transport, address, url, ledger, seed, most = sys.argv[1:]
    with Path(ledger).open("w") as file:
        each = int(most) // THREADS
        threads = [
            Thread(f"{name}{n}", transport, address, url, seed=seed, most=each, ledger=file) for n in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        for thread in threads:
            thread.stopped.set()
        for thread in threads:
            thread.join(timeout=10)


if __name__ == "__main__":
    main()

"""A process that works on keys of a SQLite store: `python -m tests.idempotency.sqlite_worker VERB PATH ...`.

It says `ready` on its standard output, waits for a line on its standard input, does what the verb says, and prints what
came of it, one JSON value a line.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from contextlib import closing

from taskbell.idempotency import HOUR, Answer, Guard, Ran, Run, own_key
from taskbell.idempotency.stores.sqlite import SqliteStore


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def effect(path: str, name: str) -> None:
    """What must happen once, counted in a database of its own."""
    with closing(sqlite3.connect(path + ".effects", timeout=30)) as effects:
        effects.execute("INSERT INTO effects VALUES (?)", (name,))
        effects.commit()


def compete(path: str, threads: int) -> None:
    """Many deliveries of one key at once, each on a thread."""
    outcomes: list[str] = []
    gate = threading.Barrier(threads)
    guard = Guard(SqliteStore(path))

    def work(_: Run) -> Answer:
        effect(path, "compete")
        return Answer(200)

    def deliver() -> None:
        gate.wait()
        outcomes.append(type(guard.call("the key", work)).__name__)

    pool = [threading.Thread(target=deliver) for _ in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    guard.store.close()
    say(outcomes)


def stop_at(path: str, step: str) -> None:
    """One delivery that stops for ever at a step of the protocol, to be killed there."""
    store = SqliteStore(path)

    def work(_: Run) -> Answer:
        if step == "claimed":
            stop()
        effect(path, "killed")
        if step == "worked":
            stop()
        return Answer(200)

    if step == "begun":
        stop()
    outcome = Guard(store, lease=HOUR, heartbeat=False).call("the key", work)
    assert isinstance(outcome, Ran)
    stop()


def stop() -> None:
    say("here")
    sys.stdin.readline()


def stall(path: str) -> None:
    """One delivery that is suspended from outside while it works, and goes on too late."""

    def work(_: Run) -> Answer:
        stop()
        return Answer(200, body=b"late")

    outcome = Guard(SqliteStore(path), lease=HOUR).call(own_key("the key"), work)
    say(type(outcome).__name__)


if __name__ == "__main__":
    say("ready")
    sys.stdin.readline()
    match sys.argv[1:]:
        case "compete", path, threads:
            compete(path, int(threads))
        case "stop_at", path, step:
            stop_at(path, step)
        case _, path:
            stall(path)

"""A process that works on one key of a store with a server: `python -m tests.idempotency.store_worker KIND URL ...`.

It says `ready` on its standard output, waits for a line on its standard input, does what is asked, and prints what came
of it, one JSON value a line. Effects are lines of a file.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from taskbell.idempotency import HOUR, Answer, Guard, Ran, Run, own_key
from taskbell.idempotency.stores.postgres import PostgresStore
from taskbell.idempotency.stores.redis import RedisStore

STORES: dict[str, Callable[[str], PostgresStore | RedisStore]] = {"postgres": PostgresStore, "redis": RedisStore}


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def stop() -> None:
    say("here")
    sys.stdin.readline()


def effect(path: Path, name: str) -> None:
    """What must happen once, on the disk before anything else happens."""
    with path.open("a") as effects:
        effects.write(name + "\n")
        effects.flush()
        os.fsync(effects.fileno())


def compete(guard: Guard, key: str, effects: Path, threads: int) -> None:
    """Many deliveries of one key at once, each on a thread."""
    outcomes: list[str] = []
    gate = threading.Barrier(threads)

    def work(_: Run) -> Answer:
        effect(effects, "compete")
        return Answer(200)

    def deliver() -> None:
        gate.wait()
        outcomes.append(type(guard.call(own_key(key), work)).__name__)

    pool = [threading.Thread(target=deliver) for _ in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    say(outcomes)


def stop_at(guard: Guard, key: str, effects: Path, step: str) -> None:
    """One delivery that stops at a step of the protocol, to be killed or suspended there."""

    def work(_: Run) -> Answer:
        if step == "claimed":
            stop()
        effect(effects, "stopped")
        if step == "worked":
            stop()
        return Answer(200, body=b"late")

    outcome = guard.call(own_key(key), work)
    if step == "finished":
        assert isinstance(outcome, Ran), outcome
        stop()
    say(type(outcome).__name__)


if __name__ == "__main__":
    kind, url, key, effects, what = sys.argv[1:]
    store = STORES[kind](url)
    store.create_schema()
    guard = Guard(store, lease=HOUR, heartbeat=False)
    say("ready")
    sys.stdin.readline()
    if what.isdecimal():
        compete(guard, key, Path(effects), int(what))
    else:
        stop_at(guard, key, Path(effects), what)
    store.close()

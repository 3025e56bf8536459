"""Measure any peer the same way: end to end while it is being fed, and draining what was enqueued before it started.

The scripts of a peer speak three lines. A worker prints `ready` when it takes jobs, and works until it is stopped. A
producer prints `started NS` before its first and `enqueued NS` after its last job, on the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from bench.handler import Span
from bench.place import Place
from bench.processes import Child, say
from bench.stats import Round

Command = Callable[[Place, str], list[str]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One row: a part of the benchmark. `about` is its expected rate, which sizes its run."""

    name: str
    settings: tuple[str, ...]
    about: int
    install: Callable[[Place], None]
    broker: Callable[[Place], AbstractContextManager[str]]
    worker: Command
    producer: Command

    def prepare(self, place: Place) -> None:
        """Install it, once."""
        self.install(place)

    def measure(self, place: Place) -> Round:
        """Both rates, each on a fresh broker."""
        count = int(self.about * place.sizes.peer_seconds)
        enqueued, end_to_end = self.end_to_end(place, count)
        return {
            f"{self.name}.enqueue": enqueued,
            f"{self.name}.end_to_end": end_to_end,
            f"{self.name}.drain": self.drain(place, count).rate,
        }

    def end_to_end(self, place: Place, count: int) -> tuple[float, float]:
        """Jobs a second enqueued, and delivered from the first enqueue to the last arrival, while the worker works."""
        log = place.log(self.name)
        with self.broker(place) as address, Child(self.worker(place, address), log, pipe=True) as worker:
            worker.read_line("ready", 60)
            place.handler.reset()
            started, ended = self.produce(place, address, count)
            span = place.handler.wait_for(count, 120)
        rate = span.rate_since(started)
        say(f"{self.name}: {count} end to end at {rate:.0f}/s")
        return count / ((ended - started) / 1e9), rate

    def drain(self, place: Place, count: int) -> Span:
        """Deliver what was enqueued before the worker started; its start is not counted."""
        log = place.log(self.name)
        with self.broker(place) as address:
            place.handler.reset()
            self.produce(place, address, count)
            with Child(self.worker(place, address), log, pipe=True) as worker:
                worker.read_line("ready", 60)
                span = place.handler.wait_for(count, 120)
        say(f"{self.name}: {count} drained at {span.rate:.0f}/s")
        return span

    def produce(self, place: Place, address: str, count: int) -> tuple[int, int]:
        """Enqueue that many jobs; returns when the first was sent and when the last was accepted."""
        command = [*self.producer(place, address), str(count)]
        with Child(command, place.log(self.name), pipe=True) as producer:
            started = producer.read_line("started", 60)
            ended = producer.read_line("enqueued", 120)
        return int(started.split()[1]), int(ended.split()[1])

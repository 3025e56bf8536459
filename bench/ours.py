"""The real server, as a user starts it, through its public gRPC API.

Every measurement has a server and (but for the backlogs) a store of its own. The API caps a queue at 500 dispatches a
second, so load is spread over 24 queues, whose caps add up to 12 000/s.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.cloud import tasks_v2
from google.protobuf.message import Message

from bench.floor import LANES
from bench.handler import BODY
from bench.load import IDLE_GAP, Load, call_at_full_speed, call_when_idle
from bench.peers.install import tool
from bench.place import Place, fresh_folder
from bench.processes import Child, Failed, Usage, free_port, run, say, tail
from bench.stats import Round, percentile

SERVICE = "/google.cloud.tasks.v2.CloudTasks"
PARENT = "projects/bench/locations/here"
QUEUES = tuple(f"{PARENT}/queues/load-{number}" for number in range(LANES))
START_TIMEOUT = 60


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `ready_s` is the time from starting the process to its first 200 on /readyz."""

    port: int
    child: Child
    ready_s: float

    def call(self, method: str, requests: Sequence[Message]) -> None:
        """Make some calls one after another; any error ends the benchmark."""
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            call: Callable[..., bytes] = channel.unary_unary(f"{SERVICE}/{method}")
            for request in requests:
                call(request.SerializeToString(), timeout=30)

    def usage(self) -> Usage:
        """What it has used; zeros where the system does not say."""
        return self.child.usage() or Usage(0.0, 0.0)


@contextlib.contextmanager
def running_server(place: Place, store: Path) -> Iterator[Server]:
    """`taskbell serve` on a store, until the block ends."""
    port = free_port()
    log = place.log("serve")
    command = [sys.executable, "-m", "taskbell", "serve", "--store", f"sqlite:{store}", "--port", str(port)]
    started = time.perf_counter()
    with Child(command, log) as child:
        while not is_ready(port):
            if child.process.poll() is not None or time.perf_counter() - started > START_TIMEOUT:
                raise Failed(f"the server did not become ready: {tail(log)}")
            time.sleep(0.005)
        yield Server(port, child, time.perf_counter() - started)


def is_ready(port: int) -> bool:
    """Whether /readyz answers 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


@contextlib.contextmanager
def fresh_server(place: Place) -> Iterator[Server]:
    """A server on an empty store that goes away with it."""
    with fresh_folder(place, "store-") as folder, running_server(place, folder / "taskbell.db") as server:
        yield server


def make_queues(server: Server, *, paused: bool = False) -> None:
    """Have the queues of the load, each with the highest rate that the API allows."""
    limits = tasks_v2.RateLimits(max_dispatches_per_second=500, max_concurrent_dispatches=5000)
    queues = [tasks_v2.Queue(name=name, rate_limits=limits) for name in QUEUES]
    # Update is an upsert: a backlog's store keeps these queues from round to round.
    server.call("UpdateQueue", [tasks_v2.UpdateQueueRequest.pb(tasks_v2.UpdateQueueRequest(queue=q)) for q in queues])
    if paused:
        server.call("PauseQueue", [tasks_v2.PauseQueueRequest.pb(tasks_v2.PauseQueueRequest(name=n)) for n in QUEUES])


def resume_queues(server: Server) -> None:
    """Let them dispatch."""
    server.call("ResumeQueue", [tasks_v2.ResumeQueueRequest.pb(tasks_v2.ResumeQueueRequest(name=n)) for n in QUEUES])


def create_request(queue: str, url: str) -> bytes:
    """A CreateTask call: POST 100 bytes to the handler, now."""
    http = tasks_v2.HttpRequest(url=url, http_method=tasks_v2.HttpMethod.POST, body=BODY)
    request = tasks_v2.CreateTaskRequest(parent=queue, task=tasks_v2.Task(http_request=http))
    serialized: bytes = tasks_v2.CreateTaskRequest.serialize(request)
    return serialized


def create_tasks(place: Place, server: Server, calls: int) -> Load:
    """Create tasks at full speed, spread over all queues."""
    messages = [create_request(queue, place.handler.url) for queue in QUEUES]
    return call_at_full_speed(place, server.port, f"{SERVICE}/CreateTask", messages, calls)


def deliver(place: Place, server: Server, calls: int) -> float:
    """Tasks a second, from the first create to the last arrival, creates and deliveries running side by side."""
    place.handler.reset()
    load = create_tasks(place, server, calls)
    return place.handler.wait_for(load.calls, 120).rate_since(load.started)


def warm_up(place: Place, server: Server) -> None:
    """Open connections and load code before anything is timed."""
    deliver(place, server, LANES * 20)


class Creates:
    """Durable creates a second while nothing is dispatched."""

    name = "ours-creates"
    settings = (
        f"Creates: {LANES} paused queues, one CreateTask a task, 100-byte bodies, loaded as the no-op floor is",
    )

    def prepare(self, place: Place) -> None:
        """Have the load generator."""
        tool(place, "h2load", "nghttp2-client")

    def measure(self, place: Place) -> Round:
        """Creates into paused queues, and then what is left in them drained."""
        with fresh_server(place) as server:
            make_queues(server)
            warm_up(place, server)
            make_queues(server, paused=True)
            place.handler.reset()
            load = create_tasks(place, server, place.sizes.creates)
            if place.handler.count():
                raise Failed("a paused queue dispatched")
            resume_queues(server)
            span = place.handler.wait_for(load.calls, 120)
        say(f"ours: {load.rate:.0f} creates/s on paused queues, drained at {span.rate:.0f}/s")
        return {"ours.creates": load.rate, "ours.drain": span.rate}


class EndToEnd:
    """Created to delivered, and what it costs the server."""

    name = "ours-end-to-end"
    settings = (f"End to end: {LANES} queues at 500/s each (the API's cap), creates and deliveries side by side",)

    def prepare(self, place: Place) -> None:
        """Have the load generator."""
        tool(place, "h2load", "nghttp2-client")

    def measure(self, place: Place) -> Round:
        """The rate, CPU time a task, and peak memory of the server's processes."""
        with fresh_server(place) as server:
            make_queues(server)
            warm_up(place, server)
            before = server.usage()
            rate = deliver(place, server, place.sizes.deliveries)
            after = server.usage()
        cpu_us = (after.cpu_s - before.cpu_s) / place.sizes.deliveries * 1e6
        kb_a_task = (after.peak_mb - before.peak_mb) * 1024 / place.sizes.deliveries
        say(f"ours: {rate:.0f} tasks/s end to end, {cpu_us:.0f} µs of CPU a task, {after.peak_mb:.0f} MB")
        return {
            "ours.end_to_end": rate,
            "ours.cpu_us": cpu_us,
            "ours.memory": after.peak_mb,
            "ours.memory_kb_a_task": kb_a_task,
        }


class Idle:
    """From a client's create to the handler's arrival when nothing else happens."""

    name = "ours-idle"
    settings = (
        f"Idle: grpcio, one task at a time, {IDLE_GAP * 1000:.0f} ms apart; the no-op call and bare POST likewise",
    )

    def prepare(self, place: Place) -> None:
        """Nothing: grpcio is the client."""

    def measure(self, place: Place) -> Round:
        """Percentiles over one task at a time."""
        sent: list[int] = []
        with fresh_server(place) as server:
            make_queues(server)
            place.handler.reset(record=True)
            message = create_request(QUEUES[0], place.handler.url)
            stamp = lambda: sent.append(time.monotonic_ns())  # noqa: E731 - a stamp is not worth a name of its own
            calls = place.sizes.idle_calls
            answered = call_when_idle(server.port, f"{SERVICE}/CreateTask", message, calls, stamp)
            # One more than was timed: the first call opens the connection.
            place.handler.wait_for(calls + 1, 10)
            arrivals = place.handler.times()[1:]
        latencies = [(arrival - start) / 1e6 for start, arrival in zip(sent, arrivals, strict=True)]
        p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
        say(f"ours: idle p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        create_p50 = percentile(answered, 0.5) * 1000
        return {"ours.idle_p50": p50, "ours.idle_p99": p99, "ours.idle_create_p50": create_p50}


class Backlog:
    """Throughput, memory and time to ready with many tasks waiting in the same store."""

    name = "ours-backlog"
    settings = (
        "Backlog: half wait for their time (1 to 21 days) in running queues, half are due in paused ones; 24 queues",
        "Backlog: filled through the engine's own contract (bench/engine_alone.py), because the API would take minutes",
    )

    def prepare(self, place: Place) -> None:
        """Fill one store for each size; rounds use them again, for what waits stays."""
        tool(place, "h2load", "nghttp2-client")
        for size in place.sizes.backlogs:
            store = backlog_store(place, size)
            if store.exists():
                continue
            say(f"filling a store with {size} waiting tasks")
            partial = store.with_name("filling.db")
            command = [sys.executable, "-m", "bench.engine_alone", "fill", f"sqlite:{partial}", str(size)]
            run(command, place.log("fill"), 600)
            shutil.move(partial, store)

    def measure(self, place: Place) -> Round:
        """All sizes, and the time to ready on an empty store beside them."""
        found: Round = {}
        with fresh_server(place) as server:
            found["ours.ready_empty"] = server.ready_s
        for size in place.sizes.backlogs:
            found |= self.measure_size(place, size)
        return found

    def measure_size(self, place: Place, size: int) -> Round:
        """One size."""
        label = size_label(size)
        with running_server(place, backlog_store(place, size)) as server:
            make_queues(server)
            warm_up(place, server)
            rate = deliver(place, server, place.sizes.deliveries)
            peak = server.usage().peak_mb
        say(f"ours: {label} waiting: {rate:.0f} tasks/s, {peak:.0f} MB, ready in {server.ready_s:.2f} s")
        return {f"ours.rate_{label}": rate, f"ours.memory_{label}": peak, f"ours.ready_{label}": server.ready_s}


def size_label(size: int) -> str:
    """1k, 100k, 1m: the end of a figure's key."""
    return f"{size // 1_000_000}m" if size >= 1_000_000 else f"{size // 1000}k"


def backlog_store(place: Place, size: int) -> Path:
    """The store that holds a backlog."""
    return place.folder / f"backlog-{size_label(size)}.db"

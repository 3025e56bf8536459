"""Unary gRPC calls: at full speed through `h2load` (nghttp2, so that the generator costs little), and one at a time.

Each message gets an h2load process of its own, because one process sends one body: one connection, 32 calls in flight.
The no-op floor and our creates use the same shape.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc

from bench.place import Place
from bench.processes import Child, Failed, alarm, tail

IN_FLIGHT = 32
# Between two calls of an idle measurement: long enough for everything to have gone to sleep.
IDLE_GAP = 0.02


@dataclass(frozen=True, slots=True)
class Load:
    """What a full-speed run sent: how many calls, and between which instants (monotonic nanoseconds)."""

    calls: int
    started: int
    ended: int

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / ((self.ended - self.started) / 1e9)


def frame(message: bytes) -> bytes:
    """A gRPC message on the wire: not compressed, its length, itself."""
    return b"\0" + struct.pack(">I", len(message)) + message


def call_at_full_speed(place: Place, port: int, method: str, messages: Sequence[bytes], calls: int) -> Load:
    """Call `method` that many times in all, the messages side by side; fails unless every call was answered OK."""
    each = calls // len(messages)
    url = f"http://127.0.0.1:{port}{method}"
    options = ["-n", str(each), "-c", "1", "-m", str(IN_FLIGHT)]
    options += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    commands = []
    for number, message in enumerate(messages):
        body = place.folder / f"message-{number}"
        body.write_bytes(frame(message))
        commands.append(["h2load", *options, "-d", str(body), url])
    logs = [place.folder / f"h2load-{number}.log" for number in range(len(messages))]
    for log in logs:
        log.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        started = time.monotonic_ns()
        children = [stack.enter_context(Child(command, log)) for command, log in zip(commands, logs, strict=True)]
        # wait(timeout) would poll every 50 ms and blur the end.
        with alarm(120, "h2load to end"):
            for child in children:
                child.process.wait()
        ended = time.monotonic_ns()
    for log in logs:
        check_answers(log.read_text(), each, tail(log))
    return Load(each * len(messages), started, ended)


def check_answers(report: str, calls: int, seen: str) -> None:
    """Every call must have been answered with a message: an error of gRPC is HTTP 200 too, but has no data."""
    succeeded = re.search(r"(\d+) succeeded", report)
    data = re.search(r"\((\d+)\) data", report)
    if not succeeded or int(succeeded[1]) != calls or not data or int(data[1]) < 5 * calls:
        msg = f"not all of {calls} calls were answered OK: {seen}"
        raise Failed(msg)


def call_when_idle(port: int, method: str, message: bytes, calls: int, before: Callable[[], None]) -> list[float]:
    """Call one at a time with a pause before each; the seconds that each took. `before` runs just before each call."""
    spent = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        # No serializers: the client's own work is the same whatever the message is.
        call: Callable[..., bytes] = channel.unary_unary(method)
        call(message, timeout=10)
        for _ in range(calls):
            time.sleep(IDLE_GAP)
            before()
            start = time.perf_counter()
            call(message, timeout=10)
            spent.append(time.perf_counter() - start)
    return spent


def median_ms(seconds: Sequence[float]) -> float:
    """The median in milliseconds."""
    return statistics.median(seconds) * 1000

"""The handler that everyone posts to: raw HTTP/1.1 on uvloop, in its own process, so that it is never the slow part.

Any request is counted and answered `200 ok`, except the few that read the counter:

- `GET /n` the number of requests since the last reset;
- `GET /span` that number, and the first and last arrival on the monotonic clock in nanoseconds;
- `GET /times` the arrival of each request, when `GET /reset?record` asked for them;
- `GET /reset` start again.

CLOCK_MONOTONIC is one clock for all processes of a Linux machine, so arrivals compare with a client's own stamps.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.processes import Child, free_port, wait_for_port, wait_until

BODY = b"a" * 100
HOST = "127.0.0.1"


class Counter:
    """What arrived since the last reset."""

    def __init__(self) -> None:
        self.reset(record=False)

    def reset(self, *, record: bool) -> None:
        """Forget everything; keep each arrival from now on if asked to."""
        self.count = 0
        self.first = 0
        self.last = 0
        self.times: list[int] | None = [] if record else None

    def arrive(self) -> None:
        """Count one request."""
        now = time.monotonic_ns()
        self.count += 1
        self.first = self.first or now
        self.last = now
        if self.times is not None:
            self.times.append(now)

    def answer(self, path: bytes) -> bytes | None:
        """The answer to a request that reads the counter, or None when the request is one to count."""
        if path == b"/n":
            return str(self.count).encode()
        if path == b"/span":
            return f"{self.count} {self.first} {self.last}".encode()
        if path == b"/times":
            return json.dumps(self.times or []).encode()
        if path.startswith(b"/reset"):
            self.reset(record=path.endswith(b"?record"))
            return b"ok"
        return None


class Connection(asyncio.Protocol):
    """One keep-alive connection; knows only Content-Length bodies, because nothing here sends others."""

    OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to answer on."""
        # uvloop's transport is one without inheriting from it; it also switches Nagle's delay off by itself.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every whole request that has arrived."""
        buffer = self.rest + data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            size = end + 4 + content_length(buffer[:end])
            if len(buffer) < size:
                break
            self.serve(buffer[: buffer.find(b"\r\n")])
            buffer = buffer[size:]
        self.rest = buffer

    def serve(self, line: bytes) -> None:
        """Answer one request, known by its first line."""
        if line.startswith(b"GET "):
            body = self.counter.answer(line.split(b" ", 2)[1])
            if body is not None:
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                return
        self.counter.arrive()
        self.transport.write(self.OK)


def content_length(head: bytes) -> int:
    """The length that the head of a request announces; 0 without one."""
    low = head.lower()
    at = low.find(b"\r\ncontent-length:")
    if at < 0:
        return 0
    end = low.find(b"\r\n", at + 2)
    return int(low[at + 17 : end if end >= 0 else None])


async def serve(port: int) -> None:
    """Listen on loopback until the process is told to stop."""
    counter = Counter()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(counter), HOST, port, backlog=1024)
    async with server:
        await server.serve_forever()


@dataclass(frozen=True, slots=True)
class Span:
    """How many requests arrived, and between which instants (monotonic nanoseconds)."""

    count: int
    first: int
    last: int

    @property
    def rate(self) -> float:
        """Requests a second between the first and the last arrival."""
        return (self.count - 1) / ((self.last - self.first) / 1e9)

    def rate_since(self, start: int) -> float:
        """Requests a second from an instant of the sender's own to the last arrival."""
        return self.count / ((self.last - start) / 1e9)


@dataclass(frozen=True, slots=True)
class Handler:
    """The bench's side of the handler process."""

    port: int

    @property
    def url(self) -> str:
        """Where to post."""
        return f"http://{HOST}:{self.port}/h"

    def get(self, path: str) -> bytes:
        """Read the counter."""
        with urllib.request.urlopen(f"http://{HOST}:{self.port}{path}", timeout=10) as answer:
            found: bytes = answer.read()
        return found

    def reset(self, *, record: bool = False) -> None:
        """Start counting again."""
        self.get("/reset?record" if record else "/reset")

    def count(self) -> int:
        """How many requests arrived since the last reset."""
        return int(self.get("/n"))

    def times(self) -> list[int]:
        """When each of them arrived."""
        found: list[int] = json.loads(self.get("/times"))
        return found

    def wait_for(self, count: int, timeout: float) -> Span:
        """Wait until that many have arrived; fails when they do not."""
        wait_until(lambda: self.count() >= count, timeout, f"the handler to see {count} requests", every=0.05)
        return Span(*(int(word) for word in self.get("/span").split()))


@contextlib.contextmanager
def running_handler(log: Path) -> Iterator[Handler]:
    """A handler in its own process."""
    port = free_port()
    with Child([sys.executable, "-m", "bench.handler", str(port)], log):
        wait_for_port(port, 10)
        yield Handler(port)


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1])))

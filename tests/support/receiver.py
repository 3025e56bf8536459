"""A handler that tells the truth: it records each request as the raw bytes that came, and answers as it was told.

Tests that ask what a task's delivery looks like on the wire use it where an HTTP framework would tidy the evidence
away: header names keep their case and order, a repeated header stays repeated, and the body is what the socket gave.
Answers are scripted by path; the n-th request to a path gets the n-th answer, and the last answer repeats.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came, with the wall-clock time at which its last byte arrived."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    raw: bytes
    arrival_time: float

    def header(self, name: str) -> str | None:
        """The value of a header, in whatever case it came; None when it is missing."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) < 2, f"{name} came {len(values)} times"
        return values[0] if values else None

    def lowered(self) -> dict[str, str]:
        """All headers by lower-case name; a name that came twice is an error of the sender."""
        lowered = {key.lower(): value for key, value in self.headers}
        assert len(lowered) == len(self.headers), f"a header came twice: {self.headers}"
        return lowered


@dataclass(slots=True)
class _Script:
    answers: list[int]
    requests: list[Received] = field(default_factory=list)


class Receiver:
    """An HTTP/1.1 server on a free loopback port, one thread per connection; use it in a `with` statement."""

    def __init__(self) -> None:
        """Listen at once, so that the port is known before any test needs it."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._changed = threading.Condition()
        self._scripts: dict[str, _Script] = defaultdict(lambda: _Script([200]))
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="receiver", daemon=True)

    @property
    def url(self) -> str:
        """The root URL, without a slash at its end."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def script(self, path: str, *statuses: int) -> None:
        """Answer the requests to a path with these statuses in turn; the last one repeats. The default is 200."""
        with self._changed:
            self._scripts[path].answers = list(statuses)

    def requests(self, path: str) -> list[Received]:
        """The requests that came to a path so far, in order."""
        with self._changed:
            return list(self._scripts[path].requests)

    def all_requests(self) -> list[Received]:
        """Every request so far, path by path."""
        with self._changed:
            return [request for script in self._scripts.values() for request in script.requests]

    def wait(self, path: str, count: int, timeout: float = 10) -> list[Received]:
        """The requests to a path as soon as there are `count` of them; fail when the timeout passes first."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self._scripts[path].requests) >= count, timeout)
            requests = list(self._scripts[path].requests)
        assert came, f"{path} got {len(requests)} of {count} requests within {timeout} s"
        return requests

    def __enter__(self) -> Self:
        """Begin to accept."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop accepting and cut the connections that are open."""
        # Only a shutdown wakes a thread that is blocked in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)
        with self._changed:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="receiver-connection", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            buffer = b""
            while (parted := _read_request(connection, buffer)) is not None:
                received, buffer = parted
                status = self._record(received)
                connection.sendall(b"HTTP/1.1 %d Scripted\r\nContent-Length: 0\r\n\r\n" % status)
        with self._changed:
            self._connections.discard(connection)

    def _record(self, received: Received) -> int:
        """Note a request and choose its answer under one lock, so that the n-th request gets the n-th answer."""
        with self._changed:
            script = self._scripts[received.target]
            script.requests.append(received)
            self._changed.notify_all()
            return script.answers[min(len(script.requests), len(script.answers)) - 1]


def _read_request(connection: socket.socket, buffer: bytes) -> tuple[Received, bytes] | None:
    """One request and what was read past it; None when the sender closed between requests."""
    while b"\r\n\r\n" not in buffer:
        if not (more := connection.recv(65536)):
            return None
        buffer += more
    head, rest = buffer.split(b"\r\n\r\n", 1)
    line, *fields = head.decode("latin-1").split("\r\n")
    method, target, _version = line.split(" ", 2)
    headers = tuple((name, value.strip()) for name, _, value in (each.partition(":") for each in fields))
    length = int(next((value for name, value in headers if name.lower() == "content-length"), "0"))
    while len(rest) < length:
        if not (more := connection.recv(65536)):
            return None
        rest += more
    body = rest[:length]
    raw = head + b"\r\n\r\n" + body
    return Received(method, target, headers, body, raw, time.time()), rest[length:]

"""`ScriptedHandler`: the other side of a dispatch, in a test. Raw HTTP/1.1 over asyncio, so that nothing is tidied.

It records each request as it came (names with their case, in order, repeated ones repeated) and answers the n-th
request of a path with the n-th answer of its script, the last one again and again. An answer may be as hostile as
sockets allow:

    async with ScriptedHandler() as handler:
        handler.script("/pay", respond(503, headers=(("Retry-After", "2"),)), stall(), respond(200))
        ...                                   # create a task for handler.url + "/pay"
        first, *_ = await handler.wait_for(3, "/pay")

Nothing here waits longer than the peer keeps its connection open, or the `async with` lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self

from taskbell.core.instant import Instant
from taskbell.core.target import Headers

_HEAD_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Received:
    """One request, as it came."""

    method: str
    target: str
    """Path and query, byte for byte."""
    headers: Headers
    body: bytes
    head: bytes
    """Request line and headers with their line ends, up to and including the empty line."""
    connection: int
    """Connections are numbered from 1, in the order in which they were accepted."""
    arrival_time: Instant
    monotonic_ns: int

    def values(self, name: str) -> list[str]:
        """Every value of a header, whatever its case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """The value of a header that comes at most once; an AssertionError when it came twice."""
        values = self.values(name)
        assert len(values) < 2, f"{name} came {len(values)} times: {values}"
        return values[0] if values else None


class Wire:
    """What an answer may do to its connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, closing: asyncio.Event) -> None:
        self._reader = reader
        self._writer = writer
        self._closing = closing

    async def send(self, data: bytes) -> None:
        """Write, and wait until the peer has taken enough."""
        self._writer.write(data)
        await self._writer.drain()

    async def pause(self, seconds: float) -> None:
        """Let time pass; ends at once, with ConnectionError, when the handler is closing."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
            raise ConnectionError("the handler is closing")

    async def gone(self) -> None:
        """Wait until the peer has closed its side, reading and forgetting what it still sends."""
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(65536):
                pass

    def close(self) -> None:
        """Close in an orderly way."""
        self._writer.close()

    def reset(self) -> None:
        """Abort: the peer sees `connection reset`."""
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the handler does with one request; made by the functions below, or from a coroutine function of your own."""

    act: Callable[[Wire], Awaitable[None]]
    body_read: int | None = None
    """How many bytes of the request's body are read first; None: all of them. A shorter read ends the connection."""


def response(status: int, headers: Headers = (), body: bytes = b"", *, length: int | None = None) -> bytes:
    """The bytes of an answer; `length` announces another length than that of the body."""
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers)]
    if status >= 200 and status not in {204, 304}:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def respond(
    status: int = 200, headers: Headers = (), body: bytes = b"", *, interim: Iterable[int] = (), close: bool = False
) -> Answer:
    """A plain answer, after `interim` ones (100, 103, ...). `close` closes the connection without having said so."""
    data = b"".join(response(code) for code in interim) + response(status, headers, body)
    return raw(data, close=close)


def raw(data: bytes, *, close: bool = True) -> Answer:
    """These bytes, whatever they are."""

    async def act(wire: Wire) -> None:
        await wire.send(data)
        if close:
            wire.close()

    return Answer(act)


def stall(after: bytes = b"") -> Answer:
    """Say `after`, then nothing more, until the peer gives up."""

    async def act(wire: Wire) -> None:
        await wire.send(after)
        await wire.gone()
        wire.close()

    return Answer(act)


def drip(data: bytes, interval: float, *, at_once: bytes = b"") -> Answer:
    """`at_once`, then one byte of `data` every `interval` seconds."""

    async def act(wire: Wire) -> None:
        await wire.send(at_once)
        for byte in data:
            await wire.pause(interval)
            await wire.send(bytes([byte]))

    return Answer(act)


def flood(head: bytes, chunk: bytes) -> Answer:
    """`head`, then `chunk` for ever, as fast as the peer takes it."""

    async def act(wire: Wire) -> None:
        await wire.send(head)
        while True:
            await wire.send(chunk)
            await asyncio.sleep(0)  # Draining does not always yield, and the sender shares this loop.

    return Answer(act)


def early(status: int, body_read: int = 0) -> Answer:
    """Answer after only `body_read` bytes of the body, and close."""

    async def act(wire: Wire) -> None:
        await wire.send(response(status, (("Connection", "close"),), b"enough"))
        wire.close()

    return Answer(act, body_read)


def close(*, body_read: int | None = None) -> Answer:
    """Close without an answer."""

    async def act(wire: Wire) -> None:
        wire.close()

    return Answer(act, body_read)


def reset(after: bytes = b"") -> Answer:
    """Say `after`, then break the connection so that the peer sees a reset."""

    async def act(wire: Wire) -> None:
        await wire.send(after)
        wire.reset()

    return Answer(act)


class ScriptedHandler:
    """An HTTP/1.1 server on a free port of the loopback; use it in `async with`."""

    def __init__(self, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None) -> None:
        """`host` may be `::1`; with `tls` the handler speaks HTTPS only."""
        self.requests: list[Received] = []
        """Every request so far, in the order of arrival."""
        self.connections = 0
        """How many connections were accepted."""
        self.running = 0
        """Requests that are being answered now."""
        self.peak = 0
        """The most that ever were at one time."""
        self._host = host
        self._tls = tls
        self._scripts: dict[str, list[Answer]] = {}
        self._counts: dict[str, int] = defaultdict(int)
        self._changed = asyncio.Condition()
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The root URL, without a slash at its end."""
        return f"{'https' if self._tls else 'http'}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, as a Host header names them."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None, "use the handler in `async with`"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def script(self, path: str, *answers: Answer) -> None:
        """Answer the requests to a path (its query does not matter) with these in turn; the last one stays."""
        assert answers
        self._scripts[path] = list(answers)
        self._counts[path] = 0

    def received(self, path: str | None = None) -> list[Received]:
        """The requests to a path, or all."""
        return [each for each in self.requests if path is None or _path(each.target) == path]

    async def wait_for(self, count: int, path: str | None = None, timeout: float = 5) -> list[Received]:
        """The requests (to a path) as soon as there are `count`; an AssertionError when the timeout comes first."""
        async with self._changed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: len(self.received(path)) >= count), timeout)
        found = self.received(path)
        assert len(found) >= count, f"{path or 'the handler'} got {len(found)} of {count} requests within {timeout} s"
        return found

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(
            self._accept, self._host, 0, limit=_HEAD_MAX, ssl=self._tls, backlog=1024
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop listening and cut every connection."""
        assert self._server is not None
        self._closing.set()
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._serve(reader, writer, number):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The peer went away, or the test is over: both are what scripts are for.
        finally:
            if self._closing.is_set():
                writer.transport.abort()
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        """One request; False when the connection is over."""
        head = await reader.readuntil(b"\r\n\r\n")
        line, *fields = head[:-4].decode("latin-1").split("\r\n")
        method, target, _version = line.split(" ", 2)
        headers = tuple((name, value.strip(" \t")) for name, _, value in (each.partition(":") for each in fields))
        answer = self._next(_path(target))
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            length = int(next((value for name, value in headers if name.lower() == "content-length"), "0"))
            wanted = length if answer.body_read is None else min(answer.body_read, length)
            body = await reader.readexactly(wanted)
            await self._record(
                Received(method, target, headers, body, head, number, time.time_ns() // 1000, time.monotonic_ns())
            )
            await answer.act(Wire(reader, writer, self._closing))
        finally:
            self.running -= 1
        return wanted == length and not writer.is_closing()

    def _next(self, path: str) -> Answer:
        answers = self._scripts.get(path)
        nth = self._counts[path]
        self._counts[path] += 1
        return answers[min(nth, len(answers) - 1)] if answers else _OK

    async def _record(self, received: Received) -> None:
        async with self._changed:
            self.requests.append(received)
            self._changed.notify_all()


_OK = respond(200)


def _path(target: str) -> str:
    return target.partition("?")[0]

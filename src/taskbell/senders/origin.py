"""Origins: scheme, host and port, and the connections to each of them that are free."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import idna

from taskbell.core.url import WireUrl
from taskbell.senders.connection import Connection

IDLE_SECONDS: Final = 4.0
"""How long an unused connection is kept: shorter than the 5 s after which common handlers close theirs, so that a
request rarely meets a connection that is just being closed."""
SETTLE_SECONDS: Final = 0.001
"""How long a connection rests before it is used again: a handler that closes it after its answer is noticed by then."""
CONNECTING_MAX: Final = 32
"""How many connections to one origin are made at a time; more wait for those that become free."""
CONNECT_SECONDS: Final = 20.0
"""How long making a connection may take: one that hangs must not keep others from trying when the handler is back."""
IDLE_MAX: Final = 500
"""How many unused connections are kept for one origin."""


class UnreachableError(Exception):
    """No connection; the message says why, in one line."""


@dataclass(slots=True)
class Origin:
    """Where requests go, and the connections that wait for the next one, the one used last at the end."""

    host: str
    """For the resolver: in ASCII, an IPv6 address without its brackets."""
    port: int
    is_tls: bool
    authority: str
    """For the Host header."""
    free: list[Connection] = field(default_factory=list)
    in_use: int = 0
    """Exchanges that are under way or about to be."""
    connecting: int = 0
    waiters: deque[asyncio.Future[Connection | None]] = field(default_factory=deque)
    """Exchanges that wait for a connection to become free, or (None) for their turn to make one."""

    def take(self, now: float) -> Connection | None:
        """A connection that is still open and has rested, if there is one; the one used last if that will do."""
        while self.free:
            index = -1 if now - self.free[-1].idle_since >= SETTLE_SECONDS else 0
            if now - self.free[index].idle_since < SETTLE_SECONDS:
                return None
            connection = self.free.pop(index)
            if connection.is_open:
                return connection
        return None

    async def acquire(self, tls: ssl.SSLContext | None) -> Connection:
        """A free connection, a new one, or the first that becomes free. Raises UnreachableError.

        Few connections are made at a time: when more is begun than a quick handler has answered, the next connection to
        become free comes sooner than a new one, and costs nothing.
        """
        loop = asyncio.get_running_loop()
        while True:
            connection = self.take(loop.time())
            if connection is None and self.connecting >= CONNECTING_MAX:
                connection = await self._wait(loop)
                if connection is None:
                    return await self._connect(loop, tls)
            elif connection is None:
                self.connecting += 1
                return await self._connect(loop, tls)
            if connection.is_open:
                return connection

    async def fresh(self, tls: ssl.SSLContext | None) -> Connection:
        """A connection that nobody has used. Raises UnreachableError."""
        self.connecting += 1
        return await self._connect(asyncio.get_running_loop(), tls)

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> Connection | None:
        waiter: asyncio.Future[Connection | None] = loop.create_future()
        self.waiters.append(waiter)
        try:
            return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # Given something in the very moment in which the deadline passed: the next one gets it.
                given = waiter.result()
                if given is None:
                    self._connected()
                else:
                    self.put(given, loop.time())
            raise

    async def _connect(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> Connection:
        """Make a connection; its place among the connecting ones has been taken before."""
        try:
            return await connect(self, tls, lambda connection: self.put(connection, loop.time()))
        finally:
            self._connected()

    def _connected(self) -> None:
        """A place among the connecting ones is free: the next waiter makes a connection."""
        self.connecting -= 1
        waiter = self._next_waiter()
        if waiter is not None:
            self.connecting += 1
            waiter.set_result(None)

    def _next_waiter(self) -> asyncio.Future[Connection | None] | None:
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                return waiter
        return None

    def put(self, connection: Connection, now: float) -> None:
        """Hand a connection to who waits for one, or keep it for the next request."""
        waiter = self._next_waiter()
        if waiter is not None:
            waiter.set_result(connection)
        elif len(self.free) < IDLE_MAX:
            connection.idle_since = now
            self.free.append(connection)
        else:
            connection.close()

    def expire(self, now: float) -> None:
        """Close what has been idle for long."""
        stale = [each for each in self.free if now - each.idle_since >= IDLE_SECONDS or not each.is_open]
        if stale:
            self.free = [each for each in self.free if each not in stale]
            for each in stale:
                each.close()


def origin_of(wire: WireUrl) -> Origin:
    """The origin of a URL. Raises ValueError where its host is no name in DNS."""
    host = wire.host
    if host.startswith("["):
        name = host[1:-1]
    else:
        name = host.lower() if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    shown = f"[{name}]" if ":" in name else name
    default = 443 if wire.scheme == "https" else 80
    port = default if wire.port is None else wire.port
    authority = shown if port == default else f"{shown}:{port}"
    return Origin(name, port, wire.scheme == "https", authority)


async def connect(origin: Origin, tls: ssl.SSLContext | None, on_free: Callable[[Connection], None]) -> Connection:
    """A new connection. Raises UnreachableError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await loop.create_connection(
                lambda: Connection(loop, on_free),
                origin.host,
                origin.port,
                ssl=tls if origin.is_tls else None,
                server_hostname=origin.host if origin.is_tls else None,
            )
    except UnicodeError:
        raise UnreachableError("connect: no such host") from None
    except TimeoutError:
        # The attempt's own deadline comes as a cancellation; this is ours, or the kernel's.
        raise UnreachableError(f"connect: no answer within {CONNECT_SECONDS:g} s") from None
    except OSError as error:
        raise UnreachableError(f"connect: {_why(error)}") from error
    return connection


def _why(error: OSError) -> str:
    """The system's own words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}"
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}"
    return os.strerror(error.errno) if error.errno else "no address answered"

"""Origins: scheme, host and port, and the connections to each of them that are free."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
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

    def put(self, connection: Connection, now: float) -> None:
        """Keep a connection for the next request."""
        if len(self.free) < IDLE_MAX:
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
        _, connection = await loop.create_connection(
            lambda: Connection(loop, on_free),
            origin.host,
            origin.port,
            ssl=tls if origin.is_tls else None,
            server_hostname=origin.host if origin.is_tls else None,
        )
    except UnicodeError:
        raise UnreachableError("connect: no such host") from None
    except OSError as error:
        # The deadline's own TimeoutError comes as a cancellation; one that arrives here is the kernel's.
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

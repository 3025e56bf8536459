"""HTTP/1.1 to any URL: the sender of HTTP and App Engine targets.

`loops/attempt.py` calls `send` once for each attempt, thousands at a time. Everything happens in the event loop: a
client with a thread of its own makes two threads hand the interpreter to and fro for each request, which costs more
than the request (docs/decisions/0006).

How an answer is read (wire.md section 5.2): the status counts once its head is complete and its body has ended, or has
passed `BODY_CAP`; the rest of a longer body is not read and its connection is closed. So a handler that floods is done
at once, one that drips ends at the deadline, and one that breaks off inside the part that we read has had no valid
exchange: BROKEN, whatever its status line said, because nobody knows what the handler still meant to say.

What is added to the headers given: `Host` and `Content-Length`. Names go out in title case (`X-Cloudtasks-Taskname`),
as the real service's do. The request target goes out as `core/url.py` says, byte for byte where that is legal.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from functools import lru_cache
from typing import Final

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import MINUTE, SECOND, Span
from taskbell.core.target import Headers
from taskbell.core.url import is_wire_ready, wire_url
from taskbell.sender import Failure, Outcome, Request
from taskbell.senders.closers import Closers
from taskbell.senders.connection import Connection
from taskbell.senders.origin import Origin, UnreachableError, origin_of

SWEEP_SECONDS: Final = 1.0
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_VALUE_BAD: Final = frozenset("\r\n\0")


class HttpSender:
    """Sends HTTP requests; see `taskbell.sender.Sender`."""

    def __init__(self, *, root_certificates: bytes = b"", closers_keep: Span = MINUTE) -> None:
        """`root_certificates`: PEM of authorities to trust besides the usual ones.

        `closers_keep`: how long a handler that broke an exchange gets a fresh connection for each attempt.
        """
        self._root_certificates = root_certificates
        self._tls: ssl.SSLContext | None = None
        self._closers = Closers(closers_keep)
        self._origins: dict[str, Origin] = {}
        self._busy: set[Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Begin to look after idle connections."""
        self._loop = asyncio.get_running_loop()
        self._sweep()

    async def close(self) -> None:
        """Close all connections; running sends end as BROKEN."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in [*self._busy, *(each for origin in self._origins.values() for each in origin.free)]:
            connection.close()

    async def send(self, request: Request) -> Outcome:
        """One exchange."""
        assert request.deadline is not None, "an HTTP request names its deadline"
        assert self._loop is not None, "send before start"
        end_time = self._loop.time() + request.deadline / SECOND
        try:
            origin, key, target, headers = self._addressed(request)
            is_last = key in self._closers
            data = request_bytes(request, origin.authority, target, headers, is_last=is_last)
        except (InvalidArgument, ValueError) as refusal:
            reason = refusal.message if isinstance(refusal, InvalidArgument) else str(refusal)
            return Outcome(failure=Failure.UNSENDABLE, reason=reason)
        origin.in_use += 1
        try:
            connection = None if is_last else origin.take(self._loop.time())
            if connection is None:
                connection = await self._connected(origin, end_time, is_last=is_last)
            outcome = await self._exchanged(connection, data, end_time, request.method, is_last=is_last)
        except UnreachableError as why:
            return Outcome(failure=Failure.UNREACHABLE, reason=str(why))
        except TimeoutError:
            return Outcome(failure=Failure.TIMEOUT, reason="the deadline passed")
        finally:
            origin.in_use -= 1
        if outcome.failure is Failure.BROKEN:
            self._closers.add(key)
        return outcome

    async def _exchanged(
        self, connection: Connection, data: bytes, end_time: float, method: str, *, is_last: bool
    ) -> Outcome:
        self._busy.add(connection)
        try:
            return await connection.exchange(data, end_time, expects_body=method != "HEAD")
        finally:
            self._busy.discard(connection)
            if is_last:
                connection.close()

    def _addressed(self, request: Request) -> tuple[Origin, str, str, Headers]:
        """The origin with its key, the request target, the headers. Raises InvalidArgument or ValueError."""
        url = request.url
        if is_wire_ready(url):
            cut = url.find("/", 8)
            query = url.find("?", 8)
            if query < 0 or 0 < cut < query:
                key, target = (url, "/") if cut < 0 else (url[:cut], url[cut:])
                known = self._origins.get(key)
                if known is not None:
                    return known, key, target, request.headers
        wire = wire_url(url)
        key = f"{wire.scheme}://{wire.authority}"
        origin = self._origins.get(key)
        if origin is None:
            try:
                origin = self._origins[key] = origin_of(wire)
            except (ValueError, UnicodeError):
                raise ValueError("the host of the URL is not valid") from None
        return origin, key, wire.target, authorized(request.headers, wire.credentials)

    async def _connected(self, origin: Origin, end_time: float, *, is_last: bool) -> Connection:
        tls = self._context() if origin.is_tls else None
        async with asyncio.timeout_at(end_time):
            return await (origin.fresh(tls) if is_last else origin.acquire(tls))

    def _context(self) -> ssl.SSLContext:
        """Made at the first https URL: reading the authorities takes a while."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            if self._root_certificates:
                self._tls.load_verify_locations(cadata=self._root_certificates.decode("ascii"))
        return self._tls

    def _sweep(self) -> None:
        """Close what has been idle for long, and forget origins that nobody uses."""
        assert self._loop is not None
        now = self._loop.time()
        for key, origin in list(self._origins.items()):
            origin.expire(now)
            if not origin.free and not origin.in_use:
                del self._origins[key]
        self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)


def authorized(headers: Headers, credentials: bytes | None) -> Headers:
    """The headers with `Authorization: Basic` from a URL's credentials, unless there is an Authorization already."""
    if credentials is None or any(name.lower() == "authorization" for name, _ in headers):
        return headers
    return (*headers, ("Authorization", f"Basic {base64.b64encode(credentials).decode()}"))


def request_bytes(request: Request, authority: str, target: str, headers: Headers, *, is_last: bool) -> bytes:
    """The request as it goes out; `is_last` asks the handler to close the connection after it.

    Raises ValueError for a header that is not valid in HTTP, without quoting it.
    """
    lines = [f"{request.method} {target} HTTP/1.1"]
    for name, value in headers:
        if not _VALUE_BAD.isdisjoint(value):
            raise ValueError("a header is not valid in HTTP")
        lines.append(f"{_title(name)}: {value}")
    body = request.body
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    if is_last:
        lines.append("Connection: close")
    lines.append(f"Host: {authority}\r\n\r\n")
    head = "\r\n".join(lines).encode()
    return head + body if body else head


@lru_cache(maxsize=4096)
def _title(name: str) -> str:
    """The name as it goes out. Raises ValueError where it is none."""
    if not name or not _TOKEN.issuperset(name):
        raise ValueError("a header is not valid in HTTP")
    return "-".join(part.capitalize() for part in name.split("-"))

"""HTTP/1.1 with a connection for each attempt, for the few requests that the pooled client does not send as it should.

`http.py` sends through here what has a request target that the pooled client would rewrite (dot segments, `/a/../b`; an
apostrophe in a query), and what has a large body: when a handler refuses one early and closes, the pooled client often
reports the broken pipe (measured with 1 MiB: 2 to 15 of 100) where this one sees the 413 (all of 1200). h11 keeps the
protocol, asyncio the sockets. Outcomes and headers are those of the pooled client, but for `Connection: close`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from typing import Final

import h11
from pyreqwest.http import Url

from taskbell.core.instant import SECOND
from taskbell.core.target import Headers
from taskbell.core.url import WireUrl
from taskbell.sender import Failure, Outcome, Request

BODY_CAP: Final = 64 * 1024
"""How much of an answer's body is read, in bytes."""
_HEAD_CAP: Final = 256 * 1024
_INTERIM_MAX: Final = 32
_CHUNK_COST: Final = 64
"""What a chunk of a body counts for at least, so that a flood of tiny ones cannot hold up the event loop."""

_CUT: Final = "the connection ended before the answer did"


def authorized(headers: Headers, credentials: bytes | None) -> Headers:
    """The headers with `Authorization: Basic` from a URL's credentials, unless there is an Authorization already."""
    if credentials is None or any(name.lower() == "authorization" for name, _ in headers):
        return headers
    return (*headers, ("Authorization", f"Basic {base64.b64encode(credentials).decode()}"))


class DirectClient:
    """Sends each request on a connection of its own."""

    def __init__(self, root_certificates: bytes = b"") -> None:
        self._root_certificates = root_certificates
        self._tls: ssl.SSLContext | None = None
        self._exchanges: set[_Exchange] = set()

    def close(self) -> None:
        """End running exchanges as BROKEN."""
        for exchange in list(self._exchanges):
            exchange.fail("the sender was closed")

    async def send(self, request: Request, wire: WireUrl, headers: Headers) -> Outcome:
        """One exchange."""
        assert request.deadline is not None, "an HTTP request names its deadline"
        try:
            place = Url(f"{wire.scheme}://{wire.authority}/")
            exchange = _Exchange(_request_bytes(request, place, wire.target, headers))
        except (ValueError, h11.LocalProtocolError):
            return Outcome(failure=Failure.UNSENDABLE, reason="the host of the URL or a header is not valid in HTTP")
        self._exchanges.add(exchange)
        try:
            async with asyncio.timeout(request.deadline / SECOND):
                return await self._exchange(exchange, place)
        except TimeoutError:
            return Outcome(failure=Failure.TIMEOUT, reason="the deadline passed")
        finally:
            self._exchanges.discard(exchange)
            exchange.abort()

    async def _exchange(self, exchange: _Exchange, place: Url) -> Outcome:
        assert place.host_str is not None
        assert place.port_or_known_default is not None
        host = place.host_str.strip("[]")
        tls = self._context() if place.scheme == "https" else None
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: exchange, host, place.port_or_known_default, ssl=tls, server_hostname=host if tls else None
            )
        except UnicodeError:
            return Outcome(failure=Failure.UNREACHABLE, reason="connect: no such host")
        except OSError as error:
            # The deadline's own TimeoutError comes as a cancellation; one that arrives here is the kernel's.
            return Outcome(failure=Failure.UNREACHABLE, reason=f"connect: {_why(error)}")
        return await exchange.outcome

    def _context(self) -> ssl.SSLContext:
        """Made at the first https URL: reading the authorities takes a while."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            if self._root_certificates:
                self._tls.load_verify_locations(cadata=self._root_certificates.decode("ascii"))
        return self._tls


def _why(error: OSError) -> str:
    """The system's own words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}"
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}"
    return os.strerror(error.errno) if error.errno else "no address answered"


class _Prepared:
    """A request as bytes, and the protocol state that its answer is read with."""

    def __init__(self, protocol: h11.Connection, data: bytes) -> None:
        self.protocol = protocol
        self.data = data


def _request_bytes(request: Request, place: Url, target: str, headers: Headers) -> _Prepared:
    lines = [("-".join(part.capitalize() for part in name.split("-")), value) for name, value in headers]
    if not any(name == "Accept" for name, _ in lines):
        lines.append(("Accept", "*/*"))
    lines.append(("Host", place.authority))
    lines.append(("Connection", "close"))
    if request.body is not None:
        lines.append(("Content-Length", str(len(request.body))))
    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_CAP)
    head = h11.Request(
        method=request.method, target=target, headers=[(name.encode(), value.encode()) for name, value in lines]
    )
    parts = [protocol.send(head)]
    if request.body:
        parts.append(protocol.send(h11.Data(data=request.body)))
    parts.append(protocol.send(h11.EndOfMessage()))
    return _Prepared(protocol, b"".join(part or b"" for part in parts))


class _Exchange(asyncio.Protocol):
    """One request and its answer; a protocol and not a stream, so that what came before a reset is still read."""

    def __init__(self, prepared: _Prepared) -> None:
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._prepared = prepared
        self._protocol = prepared.protocol
        self._transport: asyncio.Transport | None = None
        self._head: h11.Response | None = None
        self._size = 0
        self._interims = 0

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def fail(self, reason: str) -> None:
        """End as BROKEN, unless it has ended."""
        self._end(Outcome(failure=Failure.BROKEN, reason=reason))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the whole request; the loop writes it as the handler takes it."""
        self._transport = transport  # type: ignore[assignment] # a stream's transport, though uvloop's is not declared so
        assert self._transport is not None
        self._transport.write(self._prepared.data)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._read(data)

    def eof_received(self) -> None:
        """The end of the answer, which may be how it says that it is complete."""
        self._read(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """An answer that is not complete by now never will be."""
        self.fail(_CUT)

    def _read(self, data: bytes) -> None:
        if self.outcome.done():
            return
        try:
            self._protocol.receive_data(data)
            while not self.outcome.done():
                event = self._protocol.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    return
                self._take(event)
        except h11.RemoteProtocolError:
            # The error's text quotes what the handler said; logs are no place for that.
            self.fail("the answer is not HTTP" if data else _CUT)

    def _take(self, event: object) -> None:
        if isinstance(event, h11.Response):
            if event.http_version not in {b"1.0", b"1.1"}:
                self.fail("the answer is not HTTP/1")
            self._head = event
        elif isinstance(event, h11.InformationalResponse):
            self._interims += 1
            if self._interims > _INTERIM_MAX:
                self.fail("too many interim answers")
        elif isinstance(event, h11.Data):
            self._size += max(len(event.data), _CHUNK_COST)
            if self._size >= BODY_CAP:
                self._succeed()
        elif isinstance(event, h11.EndOfMessage):
            self._succeed()
        elif isinstance(event, h11.ConnectionClosed):
            self.fail(_CUT)

    def _succeed(self) -> None:
        assert self._head is not None
        values = [value for name, value in self._head.headers if name == b"retry-after"]
        status = self._head.status_code
        is_failed = not 200 <= status <= 299
        self._end(Outcome(status=status, retry_after=values[0].decode("latin-1") if values and is_failed else None))

    def _end(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

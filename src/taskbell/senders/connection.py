"""One HTTP/1.1 connection to one origin, and the exchange that is under way on it.

httptools (llhttp) reads the answers, asyncio has the sockets; here is what an attempt makes of them. A protocol and not
a stream, so that what came before a reset is still read: a handler that refuses a body early and closes is understood.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from taskbell.sender import Failure, Outcome

BODY_CAP: Final = 64 * 1024
"""How much of an answer's body is read, in bytes."""
HEAD_CAP: Final = 256 * 1024
INTERIM_MAX: Final = 32
_CHUNK_COST: Final = 64
"""What a chunk of a body counts for at least, so that a flood of tiny ones cannot hold up the event loop."""

CUT: Final = "the connection ended before the answer did"
_TIMEOUT: Final = Outcome(failure=Failure.TIMEOUT, reason="the deadline passed")
_BARE: Final = tuple(Outcome(status=status) for status in range(1000))
"""Outcomes without Retry-After, made once."""


class Connection(asyncio.Protocol):
    """Serves one exchange at a time; tells its owner when it is free for the next, or gone."""

    __slots__ = (
        "_body_size",
        "_expects_body",
        "_head_size",
        "_interims",
        "_is_counted",
        "_is_head_read",
        "_loop",
        "_on_free",
        "_outcome",
        "_parser",
        "_retry_after",
        "_status",
        "_timer",
        "_transport",
        "idle_since",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, on_free: Callable[[Connection], None]) -> None:
        """`on_free` is called when an exchange has ended and another may follow."""
        self._loop = loop
        self._on_free = on_free
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._outcome: asyncio.Future[Outcome] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0
        # What is known of the answer that is being read.
        self._expects_body = True
        self._is_head_read = False
        self._is_counted = False
        self._retry_after: str | None = None
        self._status = 0
        self._body_size = 0
        self._head_size = 0
        self._interims = 0

    @property
    def is_open(self) -> bool:
        """Whether the connection can take an exchange."""
        return self._transport is not None and not self._transport.is_closing()

    def exchange(self, data: bytes, end_time: float, *, expects_body: bool) -> asyncio.Future[Outcome]:
        """Send a whole request; the future has the outcome, at `end_time` of the loop's clock at the latest.

        `expects_body`: False for HEAD, whose answer has none whatever its head says.
        """
        assert self._transport is not None
        assert self._outcome is None
        self._begin_answer(expects_body=expects_body)
        outcome = self._outcome = self._loop.create_future()
        outcome.add_done_callback(self._left)
        self._timer = self._loop.call_at(end_time, self._end, _TIMEOUT)
        self._transport.write(data)
        return outcome

    def close(self) -> None:
        """Close at once; an exchange that is under way ends as BROKEN."""
        self._fail("the sender was closed")
        self._drop()

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = transport  # type: ignore[assignment] # a stream's transport, though uvloop's is not declared so

    def data_received(self, data: bytes) -> None:
        """Read on. What comes without being asked for ends the connection."""
        if self._outcome is None:
            self._drop()
            return
        if not self._is_head_read:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail("the handler switched protocols")
        except HttpParserError:
            # The error's text quotes what the handler said; logs are no place for that.
            self._fail("the answer is not HTTP")
        if self._head_size > HEAD_CAP and not self._is_head_read:
            self._fail("the head of the answer does not end")

    def eof_received(self) -> None:
        """The end of the connection, which may be how an answer says that it is complete."""
        if self._is_head_read and not self._is_counted:
            self._succeed()

    def connection_lost(self, exc: Exception | None) -> None:
        """An answer that is not complete by now never will be."""
        if exc is None and self._is_head_read and not self._is_counted:
            self._succeed()
        self._fail(CUT)
        self._transport = None

    # httptools.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note what says how the answer ends, and when to come again."""
        lower = name.lower()
        if lower in {b"content-length", b"transfer-encoding"}:
            self._is_counted = True
        elif lower == b"retry-after" and self._retry_after is None:
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._status = self._parser.get_status_code()
        if self._parser.get_http_version() not in {"1.0", "1.1"}:
            self._fail("the answer is not HTTP/1")
        elif self._status == 101:
            self._fail("the handler switched protocols")
        elif self._status >= 200:
            self._is_head_read = True
            if self._status in {204, 304}:
                self._is_counted = True
            if not self._expects_body:
                self._succeed()
                self._drop()

    def on_body(self, data: bytes) -> None:
        """Read the body, up to the cap."""
        self._body_size += max(len(data), _CHUNK_COST)
        if self._body_size >= BODY_CAP:
            self._succeed()
            self._drop()

    def on_message_complete(self) -> None:
        """An answer has ended: the one that counts, or an interim one (1xx)."""
        if not self._is_head_read:
            self._interims += 1
            self._head_size = 0
            if self._interims > INTERIM_MAX:
                self._fail("too many interim answers")
            return
        if self._outcome is None:
            return
        transport = self._transport
        # A request that is not written to its end yet was answered early: the rest of it must not meet the next one.
        if self._parser.should_keep_alive() and transport is not None and not transport.get_write_buffer_size():
            self._succeed()
            if self.is_open:
                self._on_free(self)
        else:
            self._succeed()
            self._drop()

    # The exchange.

    def _begin_answer(self, *, expects_body: bool) -> None:
        self._expects_body = expects_body
        self._is_head_read = False
        self._is_counted = False
        self._retry_after = None
        self._status = self._body_size = self._head_size = self._interims = 0

    def _succeed(self) -> None:
        """The status stands."""
        status = self._status
        if self._retry_after is None or 200 <= status <= 299:
            self._end(_BARE[status])
        else:
            self._end(Outcome(status=status, retry_after=self._retry_after))

    def _fail(self, reason: str) -> None:
        """End as BROKEN, unless the exchange has ended; the connection is of no more use."""
        if self._outcome is not None:
            self._end(Outcome(failure=Failure.BROKEN, reason=reason))
            self._drop()

    def _end(self, result: Outcome) -> None:
        outcome = self._outcome
        if outcome is not None and not outcome.done():
            self._finish()
            outcome.set_result(result)
            if result is _TIMEOUT:
                self._drop()

    def _left(self, outcome: asyncio.Future[Outcome]) -> None:
        """The caller was cancelled: nobody waits for the answer."""
        if outcome.cancelled() and self._outcome is outcome:
            self._finish()
            self._drop()

    def _finish(self) -> None:
        self._outcome = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

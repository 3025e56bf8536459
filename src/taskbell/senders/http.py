"""HTTP/1.1 to any URL, on pyreqwest: the sender of HTTP and App Engine targets.

`loops/attempt.py` calls `send` once for each attempt, thousands at a time; so a send does as little in Python as it
can, and hands the deadline, the pool and the parsing to Rust.

How an answer is read (wire.md section 5.2): the status counts once its head is complete and its body has ended, or has
passed `BODY_CAP`; the rest of a longer body is not read and its connection is closed. So a handler that floods is done
at once, one that drips ends at the deadline, and one that breaks off inside the part that we read has had no valid
exchange: BROKEN, whatever its status line said, because nobody knows what the handler still meant to say.

What the client adds to the headers it is given: `Host`, `Content-Length`, and `Accept: */*` where there is no Accept,
which RFC 9110 (12.5.1) defines to mean the same as none. Names go out in title case (`X-Cloudtasks-Taskname`).

The client reads URLs as browsers do. Most URLs pass it unchanged; those that only need encoding are encoded before; the
few that it would rewrite go through `direct.py`, as do large bodies and handlers that close connections without having
said so (`closers.py`), with the same outcomes.

Cancelling a send frees its caller at once, but the client (0.15) lets the exchange run on unseen: its connection closes
when the answer is there or the deadline has passed, at the latest with the process.
"""

from __future__ import annotations

import functools
import re
from datetime import timedelta
from typing import Final

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import BuilderError, DetailedPyreqwestError, PyreqwestError, RequestTimeoutError
from pyreqwest.response import Response

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import MINUTE, Span
from taskbell.core.url import is_wire_ready, wire_url
from taskbell.sender import Failure, Outcome, Request
from taskbell.senders.closers import Closers
from taskbell.senders.direct import BODY_CAP, DirectClient, authorized

LARGE: Final = 64 * 1024
"""Bodies above this size get a connection of their own, see `direct.py`."""
IDLE: Final = timedelta(seconds=4)
"""How long an unused connection is kept: shorter than the 5 s after which common handlers close theirs, so that a
request rarely meets a connection that is just being closed."""
IDLE_MAX: Final = 500
"""How many unused connections are kept for one host."""

_BARE = tuple(Outcome(status=status) for status in range(1000))
"""Outcomes without Retry-After, made once."""


class HttpSender:
    """Sends HTTP requests; see `taskbell.sender.Sender`."""

    def __init__(self, *, root_certificates: bytes = b"", closers_keep: Span = MINUTE) -> None:
        """`root_certificates`: PEM of authorities to trust besides the usual ones.

        `closers_keep`: how long a handler that broke an exchange gets a fresh connection for each attempt.
        """
        self._root_certificates = root_certificates
        self._client: Client | None = None
        self._direct = DirectClient(root_certificates)
        self._closers = Closers(closers_keep)

    async def start(self) -> None:
        """Open the pool."""
        builder = (
            ClientBuilder()
            .http1_only()
            .follow_redirects(enable=False)
            .referer(enable=False)
            .no_proxy()
            .default_cookie_store(enable=False)
            .gzip(enable=False)
            .brotli(enable=False)
            .zstd(enable=False)
            .deflate(enable=False)
            .user_agent("Taskbell")
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MAX)
        )
        if self._root_certificates:
            builder = builder.add_root_certificate_pem(self._root_certificates)
        self._client = builder.build()

    async def close(self) -> None:
        """Close the pool; running sends end as BROKEN."""
        self._direct.close()
        if self._client is not None:
            await self._client.close()

    async def send(self, request: Request) -> Outcome:
        """One exchange."""
        is_direct = (request.body is not None and len(request.body) > LARGE) or request.url in self._closers
        if not is_direct and is_wire_ready(request.url):
            return await self._send(request)
        try:
            wire = wire_url(request.url)
        except InvalidArgument as refusal:
            return Outcome(failure=Failure.UNSENDABLE, reason=refusal.message)
        headers = authorized(request.headers, wire.credentials)
        if is_direct or not wire.is_plain or wire.url in self._closers:
            return await self._direct.send(request, wire, headers)
        return await self._send(Request(request.method, wire.url, headers, request.body, request.deadline))

    async def _send(self, request: Request) -> Outcome:
        """One exchange with a URL that the client leaves as it is."""
        assert self._client is not None, "send before start"
        headers, body = request.headers, request.body
        try:
            builder = self._client.request(request.method, request.url)
        except ValueError as error:
            return Outcome(failure=Failure.UNSENDABLE, reason=f"the URL is not valid: {_line(str(error))}")
        # For an empty body the client sends no length of its own.
        if body is not None and not body:
            headers = (*headers, ("Content-Length", "0"))
        try:
            builder = builder.headers(headers).timeout(_timeout(request.deadline))
        except ValueError:
            # The error's text quotes the header, which may be a secret.
            return Outcome(failure=Failure.UNSENDABLE, reason="a header is not valid in HTTP")
        if body:
            builder = builder.body_bytes(body)
        try:
            # Entering reads the head, and the body up to the cap, under the deadline.
            exchange = builder.streamed_read_buffer_limit(BODY_CAP).build_streamed()
            response = await exchange.__aenter__()
            if not _is_short(response):
                await exchange.__aexit__(None, None, None)
        except PyreqwestError as error:
            outcome = _failed(error)
            if outcome.failure is Failure.BROKEN:
                self._closers.add(request.url)
            return outcome
        return _outcome(response)


@functools.lru_cache(maxsize=256)
def _timeout(deadline: Span | None) -> timedelta:
    """Most tasks share a few deadlines."""
    assert deadline is not None, "an HTTP request names its deadline"
    return timedelta(microseconds=deadline)


def _is_short(response: Response) -> bool:
    """Whether the body has been read to its end by now, so that nothing is left to close."""
    length = response.get_header("content-length")
    return length is not None and len(length) < 6 and int(length) < BODY_CAP


def _outcome(response: Response) -> Outcome:
    status = response.status
    if 200 <= status <= 299:
        return _BARE[status]
    if status < 200:
        return Outcome(failure=Failure.BROKEN, reason="the handler switched protocols")
    retry_after = response.get_header("retry-after")
    return _BARE[status] if retry_after is None else Outcome(status=status, retry_after=retry_after)


def _failed(error: PyreqwestError) -> Outcome:
    """Which failure an error of the client means."""
    causes = _causes(error)
    reason = _line(": ".join(causes)) or _line(error.message)
    if isinstance(error, BuilderError):
        return Outcome(failure=Failure.UNSENDABLE, reason=reason)
    # The kernel gives up on a connect too, long before some deadlines.
    is_deadline = isinstance(error, RequestTimeoutError) and not any("os error" in cause for cause in causes)
    if is_deadline:
        return Outcome(failure=Failure.TIMEOUT, reason="the deadline passed")
    if any("(Connect)" in cause for cause in causes):
        return Outcome(failure=Failure.UNREACHABLE, reason=reason)
    return Outcome(failure=Failure.BROKEN, reason=reason)


def _causes(error: PyreqwestError) -> list[str]:
    """The texts below an error, outermost first, without those that print the URL: it may hold secrets."""
    if not isinstance(error, DetailedPyreqwestError):
        return []
    texts = [cause["message"] for cause in error.details["causes"] or ()]
    return [text for text in texts if "for url (" not in text]


_BLANKS = re.compile(r"\s+")


def _line(text: str) -> str:
    """One line of bounded length."""
    return _BLANKS.sub(" ", text).strip()[:300]

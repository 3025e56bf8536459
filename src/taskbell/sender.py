"""The delivery contract: one request out, one outcome back.

A sender never raises for what happens on the network: connect failures, timeouts and garbage are outcomes. The
deadline covers the whole exchange, connect to the end of the body. `senders/` holds the implementations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from taskbell.core.instant import Span
from taskbell.core.target import Headers, Token


class Failure(StrEnum):
    """Why there is no HTTP status."""

    TIMEOUT = "timeout"
    """The deadline passed."""
    UNREACHABLE = "unreachable"
    """No connection: refused, no route, name not resolved, TLS failure."""
    BROKEN = "broken"
    """The connection ended or the answer was not HTTP."""
    UNSENDABLE = "unsendable"
    """The request could not be formed: bad URL, no token, no sender for the target."""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, complete: the sender adds only Host and what the connection needs."""

    method: str
    url: str
    headers: Headers
    body: bytes | None
    """None: no body and no Content-Length; empty bytes: Content-Length: 0."""
    deadline: Span


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back. Exactly one of `status` and `failure` is set."""

    status: int | None = None
    failure: Failure | None = None
    reason: str = ""
    """One line for logs: the error's text, or empty."""
    retry_after: str | None = None
    """The raw Retry-After header, if any."""

    @property
    def is_success(self) -> bool:
        """Whether the final status is in 200-299 (wire.md section 5.2)."""
        return self.status is not None and 200 <= self.status <= 299


class Sender(Protocol):
    """Sends requests of one kind of target."""

    async def start(self) -> None:
        """Open pools. Called once inside the event loop."""

    async def send(self, request: Request) -> Outcome:
        """One exchange. Cancelling it closes the connection."""

    async def close(self) -> None:
        """Close pools; running sends end as BROKEN."""


class TokenUnavailableError(Exception):
    """No token can be minted; the message says what to configure."""


class Minter(Protocol):
    """Mints the bearer of one attempt."""

    async def bearer(self, token: Token, url: str) -> str:
        """The token's text for `Authorization: Bearer`; `url` is the default audience of ID tokens.

        Raises TokenUnavailableError.
        """

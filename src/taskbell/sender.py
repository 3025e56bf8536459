"""The delivery contract: one request out, one outcome back.

A sender never raises for what happens on the network: connect failures, timeouts and garbage are outcomes. The
deadline covers the whole exchange, connect to the end of the body. `senders/` holds the implementations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from taskbell.core.instant import Span
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.target import Headers, Routing, Token

__all__ = ["Failure", "Minter", "Outcome", "Request", "Sender", "TokenUnavailableError"]


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, complete: the sender adds only Host and what the connection needs.

    To App Engine: `url` is the relative URI, and `routing` says whose. To Pub/Sub: `url` is the topic's name, `headers`
    are the message's attributes and `body` is its data.
    """

    method: str
    url: str
    headers: Headers
    body: bytes | None
    """None: no body and no Content-Length; empty bytes: Content-Length: 0."""
    deadline: Span | None
    """None: the default of what the request goes to, which its sender knows. HTTP requests have none such."""
    routing: Routing | None = None
    """Of App Engine requests, and only of those."""


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

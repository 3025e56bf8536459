"""The little of ASGI that both adapters need: types, reading a body within a limit, answering."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class TooLargeError(Exception):
    """The request body is larger than allowed."""


class DisconnectedError(Exception):
    """The client went away before its request was complete."""


async def read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """The whole request body. Raises TooLargeError as soon as it is known, before anything more is kept."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > max_bytes:
            raise TooLargeError
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise DisconnectedError
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise TooLargeError
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks) if len(chunks) != 1 else chunks[0]


async def respond(send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """One whole response."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})

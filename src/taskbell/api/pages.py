"""The few paths that are neither gRPC nor Google's REST: health, metrics, token discovery."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

from taskbell.api.asgi import Receive, Scope, Send, respond

Page = Callable[[], Awaitable[tuple[int, bytes, bytes]]]
"""Status, content type, body."""


class Pages:
    """Answers GET on fixed paths."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages

    def has(self, path: str) -> bool:
        """Whether the path is one of these."""
        return path in self._pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One page."""
        if scope["method"] not in ("GET", "HEAD"):
            await respond(send, 405, b"Method not allowed: use GET.\n", [(b"allow", b"GET, HEAD")])
            return
        status, content_type, body = await self._pages[scope["path"]]()
        await respond(send, status, body if scope["method"] == "GET" else b"", [(b"content-type", content_type)])


def as_json(value: object) -> tuple[int, bytes, bytes]:
    """A page of JSON."""
    return 200, b"application/json", json.dumps(value).encode()


def as_text(status: int, text: str) -> tuple[int, bytes, bytes]:
    """A page of plain text."""
    return status, b"text/plain; charset=utf-8", text.encode() + b"\n"

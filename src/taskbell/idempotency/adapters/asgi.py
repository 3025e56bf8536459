"""An ASGI middleware: `app = IdempotentAsgi(app, guard)`.

The application finds its run in `scope["taskbell.run"]` and by `current_run()`. What it still does after its answer,
such as Starlette's background tasks, is part of the work: the answer goes out when all of it is done. WebSockets and
lifespan pass by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Unpack

from taskbell.core.claim import Answer
from taskbell.idempotency.adapters.exchange import Exchange, Options, headers_out
from taskbell.idempotency.guard import AsyncGuard
from taskbell.idempotency.key import Delivery, Key

RUN = "taskbell.run"
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class IdempotentAsgi:
    """Around an application, whole or one route of it."""

    def __init__(self, app: App, guard: AsyncGuard, **options: Unpack[Options]) -> None:
        """`options` are explained at `Exchange`."""
        self._app, self._guard, self._exchange = app, guard, Exchange(**options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a delivery."""
        if scope["type"] != "http" or self._exchange.passes_by(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        delivery = Delivery.of(scope["headers"], path=scope["path"], query=scope["query_string"].decode("latin-1"))
        if self._exchange.verify is None:
            key = self._exchange.admit(delivery)
        else:
            key = await asyncio.to_thread(self._exchange.admit, delivery)
        if isinstance(key, Answer):
            await _send(key, scope["method"], send)
            return
        print_ = None
        if self._exchange.fingerprint:
            body = await _body(receive, self._exchange.body_bytes_max)
            if body is None:
                await _send(self._exchange.too_large(), scope["method"], send)
                return
            print_ = self._exchange.print_of(scope["method"], delivery, body)
            receive = _again(body, receive)
        await self._serve(key, delivery, print_, scope=scope, receive=receive, send=send)

    async def _serve(
        self, key: Key, delivery: Delivery, print_: str | None, *, scope: Scope, receive: Receive, send: Send
    ) -> None:
        gathered = _Gathered()

        async def work(run: object) -> Answer:
            try:
                await self._app(_without_shortcuts(scope, run), receive, gathered.send)
            except BaseException:
                gathered.has_raised = True
                raise
            return gathered.answer()

        try:
            answer = await self._exchange.serve_async(self._guard, key, delivery, work, print_)
        except Exception:
            # Starlette answers an error and raises it too, for the server to log. It was released before this.
            if gathered.has_raised and gathered.is_complete and gathered.status >= 500:
                await _send(gathered.answer(), scope["method"], send)
            raise
        await _send(answer, scope["method"], send)


class _Gathered:
    """The answer of an application, in place of being sent."""

    def __init__(self) -> None:
        self.status = 0
        self.is_complete = False
        self.has_raised = False
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.status:
                raise RuntimeError("the application began its answer twice")
            self.status = message["status"]
            self._headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in message.get("headers", ())]
        elif message["type"] == "http.response.body":
            if not self.status or self.is_complete:
                raise RuntimeError("the application sent a body before or after its answer")
            self._body += message.get("body", b"")
            self.is_complete = not message.get("more_body", False)

    def answer(self) -> Answer:
        if not self.is_complete:
            raise RuntimeError("the application did not complete its answer")
        return Answer(self.status, tuple(self._headers), bytes(self._body))


def _without_shortcuts(scope: Scope, run: object) -> Scope:
    """The scope with the run, and without extensions that would send past us."""
    extensions = {n: v for n, v in (scope.get("extensions") or {}).items() if not n.startswith("http.response.")}
    return {**scope, "extensions": extensions, RUN: run}


async def _body(receive: Receive, limit: int) -> bytes | None:
    """The body, or None if it is longer than the limit."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError("the caller left before its request was complete")
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body once more, and then goes on."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


async def _send(answer: Answer, method: str, send: Send) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers_out(answer, method)]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body or b""})

"""One handler behind every adapter, called as its server would call it."""

from __future__ import annotations

import asyncio
import io
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Unpack
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import django
import fastapi
import flask
import functions_framework
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path as route
from fastapi.exceptions import ResponseValidationError

from taskbell.idempotency import AsyncGuard, Guard, MemoryStore
from taskbell.idempotency.adapters import django as for_django
from taskbell.idempotency.adapters import fastapi as for_fastapi
from taskbell.idempotency.adapters import flask as for_flask
from taskbell.idempotency.adapters import functions_framework as for_functions
from taskbell.idempotency.adapters.asgi import IdempotentAsgi
from taskbell.idempotency.adapters.exchange import Options
from taskbell.idempotency.adapters.wsgi import IdempotentWsgi


class Reply(NamedTuple):
    """What a handler answers, and what its caller gets."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = types.MappingProxyType({})


Handle = Callable[[bytes], Reply]
CRASHED = Reply(500, b"the server's own")
"""What a server answers when the application raises."""


class Front(Protocol):
    """An adapter with a handler behind it."""

    def send(self, headers: Mapping[str, str], body: bytes = b"", method: str = "POST", path: str = "/work") -> Reply:
        """Deliver."""


def call_wsgi(app: Any, headers: Mapping[str, str], body: bytes, method: str, path: str) -> Reply:
    """Call an application as a server that checks PEP 3333."""
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": "", "SCRIPT_NAME": ""}
    environ |= {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers.items()}
    environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "text/plain"}
    setup_testing_defaults(environ)
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> Callable[[bytes], int]:
        started.append((status, headers))
        return io.BytesIO().write

    try:
        parts = validator(app)(environ, start_response)
        try:
            content = b"".join(parts)
        finally:
            parts.close()  # type: ignore[attr-defined]
    except RuntimeError:
        return CRASHED
    status, found = started[-1]
    return Reply(int(status[:3]), content, {name.lower(): value for name, value in found})


def call_asgi(app: Any, headers: Mapping[str, str], body: bytes, method: str, path: str) -> Reply:
    """Call an application as a server would, its body in two pieces."""
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [*raw, (b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "extensions": {"http.response.pathsend": {}},
    }
    messages: list[dict[str, Any]] = []

    async def exchange() -> None:
        parts = [
            {"type": "http.request", "body": body[:3], "more_body": True},
            {"type": "http.request", "body": body[3:], "more_body": False},
        ]
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if not parts:
                await gone.wait()
            return parts.pop(0)

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        await app(scope, receive, send)

    try:
        asyncio.run(exchange())
    except (RuntimeError, ResponseValidationError):
        if not messages:
            return CRASHED
    start, *rest = messages
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], b"".join(message.get("body", b"") for message in rest), found)


class WsgiFront:
    """The middleware alone."""

    def __init__(self, store: MemoryStore, handle: Handle, tmp_path: Path, **options: Unpack[Options]) -> None:
        def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            reply = handle(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            write = start_response(
                f"{reply.status} Whatever", list(({"Content-Type": "text/plain"} | dict(reply.headers)).items())
            )
            write(reply.body[:1])
            return [reply.body[1:]]

        self._app = IdempotentWsgi(app, Guard(store, heartbeat=False), **options)

    def send(self, headers: Mapping[str, str], body: bytes = b"", method: str = "POST", path: str = "/work") -> Reply:
        return call_wsgi(self._app, headers, body, method, path)


class AsgiFront:
    """The middleware alone."""

    def __init__(self, store: MemoryStore, handle: Handle, tmp_path: Path, **options: Unpack[Options]) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message["body"], message["more_body"]
            reply = handle(body)
            raw = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
            await send({"type": "http.response.start", "status": reply.status, "headers": raw})
            await send({"type": "http.response.body", "body": reply.body[:1], "more_body": True})
            await send({"type": "http.response.body", "body": reply.body[1:]})

        self._app = IdempotentAsgi(app, AsyncGuard(store, heartbeat=False), **options)

    def send(self, headers: Mapping[str, str], body: bytes = b"", method: str = "POST", path: str = "/work") -> Reply:
        return call_asgi(self._app, headers, body, method, path)


class FlaskFront:
    """A view with the decorator."""

    def __init__(self, store: MemoryStore, handle: Handle, tmp_path: Path, **options: Unpack[Options]) -> None:
        self._app = flask.Flask("front")

        @self._app.route("/work", methods=["GET", "POST"])
        @for_flask.idempotent(Guard(store, heartbeat=False), **options)
        def work() -> flask.Response:
            reply = handle(flask.request.get_data())
            return flask.Response(reply.body, reply.status, dict(reply.headers))

    def send(self, headers: Mapping[str, str], body: bytes = b"", method: str = "POST", path: str = "/work") -> Reply:
        return call_wsgi(self._app, headers, body, method, path)


FUNCTIONS: dict[str, Any] = {}
SOURCE = """
import functions_framework
from tests.idempotency.adapters import fronts

work = functions_framework.http(fronts.FUNCTIONS["work"])
"""


class FunctionsFront:
    """A function with the decorator, loaded from its file as the framework does."""

    def __init__(self, store: MemoryStore, handle: Handle, tmp_path: Path, **options: Unpack[Options]) -> None:
        @for_functions.idempotent(Guard(store, heartbeat=False), **options)
        def work(request: flask.Request) -> flask.Response:
            reply = handle(request.get_data())
            return flask.Response(reply.body, reply.status, dict(reply.headers))

        FUNCTIONS["work"] = work
        source = tmp_path / "main.py"
        source.write_text(SOURCE)
        self._app = functions_framework.create_app("work", str(source))  # type: ignore[no-untyped-call]

    def send(self, headers: Mapping[str, str], body: bytes = b"", method: str = "POST", path: str = "/work") -> Reply:
        return call_wsgi(self._app, headers, body, method, path)


class FastapiFront:
    """A route of a guarded router."""

    def __init__(self, store: MemoryStore, handle: Handle, tmp_path: Path, **options: Unpack[Options]) -> None:
        router = fastapi.APIRouter(route_class=for_fastapi.idempotent(AsyncGuard(store, heartbeat=False), **options))

        @router.api_route("/work", methods=["GET", "POST"])
        async def work(request: fastapi.Request) -> fastapi.Response:
            reply = handle(await request.body())
            return fastapi.Response(reply.body, reply.status, dict(reply.headers))

        self._app = fastapi.FastAPI()
        self._app.include_router(router)

    def send(self, headers: Mapping[str, str], body: bytes = b"", method: str = "POST", path: str = "/work") -> Reply:
        return call_asgi(self._app, headers, body, method, path)


def set_up_django() -> None:
    """Once for all tests of this process."""
    if not settings.configured:
        settings.configure(
            SECRET_KEY="of no use",
            ALLOWED_HOSTS=["*"],
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            LOGGING_CONFIG=None,
        )
        django.setup()


class DjangoFront:
    """A blocking view with the decorator, under WSGI."""

    def __init__(self, store: MemoryStore, handle: Handle, tmp_path: Path, **options: Unpack[Options]) -> None:
        set_up_django()

        @for_django.idempotent(Guard(store, heartbeat=False), **options)
        def work(request: HttpRequest) -> HttpResponse:
            reply = handle(request.body)
            return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))

        self._urls = urls(work)

    def send(self, headers: Mapping[str, str], body: bytes = b"", method: str = "POST", path: str = "/work") -> Reply:
        with override_settings(ROOT_URLCONF=self._urls):
            return call_wsgi(WSGIHandler(), headers, body, method, path)


class AsyncDjangoFront:
    """An asynchronous view with the decorator, under ASGI."""

    def __init__(self, store: MemoryStore, handle: Handle, tmp_path: Path, **options: Unpack[Options]) -> None:
        set_up_django()

        @for_django.idempotent(AsyncGuard(store, heartbeat=False), **options)
        async def work(request: HttpRequest) -> HttpResponse:
            reply = handle(request.body)
            return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))

        self._urls = urls(work)

    def send(self, headers: Mapping[str, str], body: bytes = b"", method: str = "POST", path: str = "/work") -> Reply:
        with override_settings(ROOT_URLCONF=self._urls):
            return call_asgi(ASGIHandler(), headers, body, method, path)


def urls(view: Any) -> types.ModuleType:
    """A URLconf of one view."""
    module = types.ModuleType("urls")
    module.__dict__["urlpatterns"] = [route("work", view)]
    return module


FRONTS: dict[str, Callable[..., Front]] = {
    "wsgi": WsgiFront,
    "asgi": AsgiFront,
    "flask": FlaskFront,
    "functions": FunctionsFront,
    "fastapi": FastapiFront,
    "django": DjangoFront,
    "django-async": AsyncDjangoFront,
}

"""What is particular to one framework, and to servers."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastapi
import flask
import pytest
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection, connections
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import override_settings
from pydantic import BaseModel
from starlette.background import BackgroundTask

from taskbell.idempotency import AsyncGuard, Delivery, Guard, KeyRule, MemoryStore, PermanentFailure
from taskbell.idempotency.adapters import django as for_django
from taskbell.idempotency.adapters import fastapi as for_fastapi
from taskbell.idempotency.adapters import flask as for_flask
from taskbell.idempotency.adapters.asgi import IdempotentAsgi
from taskbell.idempotency.adapters.wsgi import IdempotentWsgi
from tests.idempotency.adapters.fronts import CRASHED, call_asgi, call_wsgi, set_up_django, urls

TASK = {"X-CloudTasks-QueueName": "orders", "X-CloudTasks-TaskName": "order-17"}
KEY = KeyRule().key(Delivery.of(TASK))


def is_completed(store: MemoryStore) -> bool:
    record = store.get(KEY.text)
    return record is not None and record.status == "completed"


# --- WSGI -----------------------------------------------------------------------------------------------------------


def test_a_wsgi_application_may_begin_anew_after_an_error(guard: Guard) -> None:
    """As PEP 3333 allows with exc_info; nothing of the first answer has gone out."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        try:
            int("no number")
        except ValueError:
            start_response("503 Later", [("Content-Type", "text/plain")], sys.exc_info())
        return [b"later"]

    reply = call_wsgi(IdempotentWsgi(app, guard), TASK, b"", "POST", "/")

    assert (reply.status, reply.body) == (503, b"later")


def test_a_wsgi_stream_that_breaks_completes_nothing(guard: Guard, store: MemoryStore) -> None:
    """It had said 200. What it held open is closed."""
    closed: list[bool] = []

    def app(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        try:
            yield b"half"
            raise RuntimeError
        finally:
            closed.append(True)

    reply = call_wsgi(IdempotentWsgi(app, guard), TASK, b"", "POST", "/")

    assert reply == CRASHED
    assert closed == [True]
    assert not is_completed(store)


def test_a_chunked_body_is_compared_too(guard: Guard) -> None:
    """Where the server says that it ends the stream."""
    bodies: list[bytes] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        bodies.append(environ["wsgi.input"].read())
        start_response("204 No Content", [])
        return []

    guarded = IdempotentWsgi(app, guard, fingerprint=True, body_bytes_max=5)
    statuses: list[str] = []

    def start_response(status: str, headers: object, exc_info: object = None) -> Any:
        statuses.append(status)

    for body in (b"12345", b"12345", b"54321", b"123456"):
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "wsgi.input": io.BytesIO(body)}
        environ |= {"wsgi.input_terminated": True} | {"HTTP_" + k.upper().replace("-", "_"): v for k, v in TASK.items()}
        list(guarded(environ, start_response))

    assert [status[:4] for status in statuses] == ["204 ", "204 ", "422 ", "413 "]
    assert bodies == [b"12345"]


# --- ASGI -----------------------------------------------------------------------------------------------------------


def test_lifespan_and_websockets_pass_by(store: MemoryStore) -> None:
    """There is no delivery in them."""
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def nothing(*args: Any) -> Any:
        raise AssertionError

    guarded = IdempotentAsgi(app, AsyncGuard(store))
    for kind in ("lifespan", "websocket"):
        asyncio.run(guarded({"type": kind}, nothing, nothing))

    assert seen == ["lifespan", "websocket"]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="none"),
        pytest.param([{"type": "http.response.start", "status": 200}], id="begun"),
        pytest.param(
            [
                {"type": "http.response.start", "status": 200},
                {"type": "http.response.body", "body": b"half", "more_body": True},
            ],
            id="half",
        ),
    ],
)
def test_an_answer_that_was_not_completed_completes_nothing(store: MemoryStore, messages: list[dict[str, Any]]) -> None:
    """The server is told, and the claim is released."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    assert call_asgi(IdempotentAsgi(app, AsyncGuard(store)), TASK, b"", "POST", "/") == CRASHED
    record = store.get(KEY.text)
    assert record is not None
    assert record.lease_expires == 0


def test_a_caller_who_leaves_before_the_body_is_complete_claims_nothing(store: MemoryStore) -> None:
    """There is nothing to compare, and nobody to answer."""

    async def leave() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def never(*args: Any) -> None:
        raise AssertionError

    headers = [(name.encode(), value.encode()) for name, value in TASK.items()]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    guarded = IdempotentAsgi(never, AsyncGuard(store), fingerprint=True)

    with pytest.raises(ConnectionError):
        asyncio.run(guarded(scope, leave, never))
    assert store.get(KEY.text) is None


# --- FastAPI --------------------------------------------------------------------------------------------------------


class Order(BaseModel):
    euros: int


class Receipt(BaseModel):
    number: str


class Secret(Receipt):
    password: str = "hidden"


def test_fastapi_keeps_the_answer_as_the_route_makes_it(store: MemoryStore) -> None:
    """Status, response_model and validation included."""
    app = fastapi.FastAPI()
    router = fastapi.APIRouter(route_class=for_fastapi.idempotent(AsyncGuard(store), fingerprint=True))
    runs: list[int] = []

    @router.post("/orders", status_code=201, response_model=Receipt)
    async def order(order: Order) -> Secret:
        runs.append(order.euros)
        return Secret(number="R-17")

    app.include_router(router, prefix="/v1")
    json_task = {**TASK, "Content-Type": "application/json"}
    answers = [call_asgi(app, json_task, b'{"euros": 5}', "POST", "/v1/orders") for _ in range(2)]
    other = call_asgi(app, json_task, b'{"euros": 6}', "POST", "/v1/orders")
    wrong = call_asgi(app, {**json_task, "Idempotency-Key": "b"}, b"{}", "POST", "/v1/orders")

    assert [(answer.status, answer.body) for answer in answers] == [(201, b'{"number":"R-17"}')] * 2
    assert runs == [5]
    assert (other.status, other.body) == (422, b"This key was used for another request")
    assert (wrong.status, json.loads(wrong.body)["detail"][0]["type"]) == (422, "missing")


def test_fastapi_routes_of_the_application_itself(store: MemoryStore) -> None:
    """Without another router; HTTPException is an answer; a plain function runs in a thread."""
    app = fastapi.FastAPI()
    app.router.route_class = for_fastapi.idempotent(AsyncGuard(store))
    runs: list[str] = []

    @app.post("/gone")
    def gone() -> None:
        runs.append("gone")
        raise fastapi.HTTPException(410, "gone for good")

    answers = [call_asgi(app, TASK, b"", "POST", "/gone") for _ in range(2)]

    assert [(answer.status, answer.body) for answer in answers] == [(410, b'{"detail":"gone for good"}')] * 2
    assert runs == ["gone"]


def test_an_answer_that_cannot_be_made_completes_nothing(store: MemoryStore) -> None:
    """The function returned, and what it returned is not what the route promises."""
    app = fastapi.FastAPI()
    app.router.route_class = for_fastapi.idempotent(AsyncGuard(store))

    @app.post("/orders", response_model=Receipt)
    async def order() -> Any:
        return {"wrong": True}

    assert call_asgi(app, TASK, b"", "POST", "/orders").status == 500
    assert not is_completed(store)


def test_what_follows_the_answer_belongs_to_the_work(store: MemoryStore) -> None:
    """A background task that fails: the delivery fails and comes again."""

    def fail() -> None:
        raise RuntimeError("mail was not sent")

    app = fastapi.FastAPI()
    app.router.route_class = for_fastapi.idempotent(AsyncGuard(store))

    @app.post("/orders")
    async def order() -> fastapi.Response:
        return fastapi.Response("done", background=BackgroundTask(fail))

    assert call_asgi(app, TASK, b"", "POST", "/orders").status == 500
    assert not is_completed(store)


def test_a_whole_application_is_guarded_by_the_middleware(store: MemoryStore) -> None:
    """Starlette's own 500 goes out after the release, and its error goes on to the server."""
    app = fastapi.FastAPI()

    @app.post("/fails")
    async def fails() -> None:
        raise RuntimeError("the database is away")

    guarded = IdempotentAsgi(app, AsyncGuard(store))
    reached: list[Exception] = []

    async def server(scope: Any, receive: Any, send: Any) -> None:
        try:
            await guarded(scope, receive, send)
        except RuntimeError as error:
            reached.append(error)

    reply = call_asgi(server, TASK, b"", "POST", "/fails")
    record = store.get(KEY.text)

    assert (reply.status, reply.body) == (500, b"Internal Server Error")
    assert [str(error) for error in reached] == ["the database is away"]
    assert record is not None
    assert record.lease_expires == 0


# --- Flask ----------------------------------------------------------------------------------------------------------


def test_flask_answers(guard: Guard) -> None:
    """What a view may return: a tuple, a stream, an abort that the application words."""
    app = flask.Flask("answers")
    idempotent = for_flask.idempotent(guard)
    runs: list[str] = []

    @app.errorhandler(404)
    def worded(error: Exception) -> tuple[dict[str, str], int]:
        return {"error": "no such order"}, 404

    @app.post("/pair")
    @idempotent
    def pair() -> Any:
        runs.append("pair")
        return {"number": "R-17"}, 202

    @app.post("/stream")
    @idempotent
    def stream() -> Any:
        runs.append("stream")
        return flask.Response(iter(["a", "b"]), mimetype="text/csv")

    @app.post("/abort")
    @idempotent
    def abort() -> Any:
        runs.append("abort")
        flask.abort(404)

    client = app.test_client()
    for path, status, text in (("/pair", 202, '{"number":"R-17"}\n'), ("/stream", 200, "ab")):
        for _ in range(2):
            answer = client.post(path, headers={"Idempotency-Key": path})
            assert (answer.status_code, answer.text) == (status, text)
    for _ in range(2):
        answer = client.post("/abort", headers={"Idempotency-Key": "abort"})
        assert (answer.status_code, answer.json) == (404, {"error": "no such order"})
    assert runs == ["pair", "stream", "abort"]


def test_flask_still_reads_the_form_after_a_fingerprint(guard: Guard) -> None:
    """The body was read before the view."""
    app = flask.Flask("form")

    @app.post("/work")
    @for_flask.idempotent(guard, fingerprint=True)
    def work() -> Any:
        return flask.request.form["euros"]

    assert app.test_client().post("/work", headers=TASK, data={"euros": "5"}).text == "5"
    assert app.test_client().post("/work", headers=TASK, data={"euros": "6"}).status_code == 422


def test_a_whole_flask_application_is_guarded_by_the_middleware(guard: Guard, store: MemoryStore) -> None:
    """It sees answers only: a permanent failure is a 500 by then, and is released."""
    app = flask.Flask("whole")

    @app.post("/work")
    def work() -> Any:
        raise PermanentFailure

    app.wsgi_app = IdempotentWsgi(app.wsgi_app, guard)  # type: ignore[method-assign]

    assert app.test_client().post("/work", headers=TASK).status_code == 500
    assert not is_completed(store)


# --- Django ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def table() -> Iterator[None]:
    """A table in Django's database, which is in memory and of this thread."""
    set_up_django()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE payments (number TEXT UNIQUE DEFERRABLE)")
    yield
    connections.close_all()
    connection.connection = None


def payments() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM payments")
        return [number for (number,) in cursor.fetchall()]


@pytest.mark.usefixtures("table")
def test_django_commits_before_the_key_completes(
    guard: Guard, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ATOMIC_REQUESTS the transaction is inside of the guard: a store that fails finds the effect committed."""
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    at_finish: list[bool] = []
    finish = store.finish

    def watched(*args: Any) -> Any:
        at_finish.append(connection.in_atomic_block)
        return finish(*args)

    monkeypatch.setattr(store, "finish", watched)

    @for_django.idempotent(guard)
    def pay(request: HttpRequest) -> HttpResponse:
        assert connection.in_atomic_block
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO payments VALUES ('R-17')")
        if request.headers.get("X-Fail"):
            raise Http404
        return HttpResponse("paid")

    with override_settings(ROOT_URLCONF=urls(pay)):
        failed = call_wsgi(WSGIHandler(), {"Idempotency-Key": "b", "X-Fail": "yes"}, b"", "POST", "/work")
        rolled_back = payments()
        paid = [call_wsgi(WSGIHandler(), TASK, b"", "POST", "/work").body for _ in range(2)]

    assert (failed.status, rolled_back) == (404, [])
    assert paid == [b"paid", b"paid"]
    assert payments() == ["R-17"]
    assert at_finish == [False, False]


@pytest.mark.parametrize(("error", "status"), [(Http404(), 404), (PermissionDenied(), 403)])
def test_djangos_own_errors_are_answers(guard: Guard, store: MemoryStore, error: Exception, status: int) -> None:
    """404 is permanent; 403 is not."""
    set_up_django()

    @for_django.idempotent(guard)
    def view(request: HttpRequest) -> HttpResponse:
        raise error

    with override_settings(ROOT_URLCONF=urls(view)):
        assert call_wsgi(WSGIHandler(), TASK, b"", "POST", "/work").status == status

    assert is_completed(store) == (status == 404)


def test_django_streams_and_cookies(guard: Guard, store: MemoryStore) -> None:
    """The first caller gets its cookie, its duplicate does not; both get all of the stream."""
    set_up_django()

    def view(request: HttpRequest) -> Any:
        response = StreamingHttpResponse([b"a", b"b"], content_type="text/csv")
        response.set_cookie("session", "secret")
        return response

    async def parts() -> Any:
        yield b"a"
        yield b"b"

    async def async_view(request: HttpRequest) -> Any:
        return StreamingHttpResponse(parts(), content_type="text/csv")

    with override_settings(ROOT_URLCONF=urls(for_django.idempotent(guard)(view))):
        first, second = (call_wsgi(WSGIHandler(), TASK, b"", "POST", "/work") for _ in range(2))
    with override_settings(ROOT_URLCONF=urls(for_django.idempotent(AsyncGuard(MemoryStore()))(async_view))):
        third = call_asgi(ASGIHandler(), TASK, b"", "POST", "/work")

    assert "session=secret" in first.headers["set-cookie"]
    assert "set-cookie" not in second.headers
    assert [(reply.body, reply.headers["content-type"]) for reply in (first, second, third)] == [
        (b"ab", "text/csv")
    ] * 3


def test_a_django_view_needs_a_guard_of_its_kind(guard: Guard, store: MemoryStore) -> None:
    """Told when it is decorated."""

    async def view(request: HttpRequest) -> None:
        """Never called."""

    with pytest.raises(TypeError, match="asynchronous views need an AsyncGuard"):
        for_django.idempotent(guard)(view)
    with pytest.raises(TypeError, match="and others a Guard"):
        for_django.idempotent(AsyncGuard(store))(HttpResponse)


# --- Without a framework --------------------------------------------------------------------------------------------

SRC = Path(__file__).parents[3] / "src"


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import taskbell.idempotency.adapters.flask", "flask"),
        ("import taskbell.idempotency.adapters.functions_framework", "functions"),
        ("import taskbell.idempotency.adapters.fastapi", "fastapi"),
        ("import taskbell.idempotency.adapters.django", "django"),
        ("from taskbell.idempotency.verify import Verifier as V; V('a', emails=['b'])", "verify"),
    ],
)
def test_a_framework_that_is_not_there_is_named_with_its_extra(code: str, extra: str) -> None:
    """In an interpreter without site-packages."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SRC)!r}); {code}"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"pip install 'taskbell[{extra}]'")


def test_the_middlewares_need_the_standard_library_alone() -> None:
    """And so does what they share."""
    code = "import taskbell.idempotency.adapters.wsgi, taskbell.idempotency.adapters.asgi, taskbell.idempotency.verify"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SRC)!r}); {code}"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")

"""A WSGI middleware: `app = IdempotentWsgi(app, guard)`.

The application finds its run in `environ["taskbell.run"]` and by `current_run()`. An error that it raises is released
and raised again, for the server to answer 500.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Unpack
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from taskbell.core.claim import Answer
from taskbell.idempotency.adapters.exchange import Exchange, Options, headers_out, phrase
from taskbell.idempotency.guard import Guard
from taskbell.idempotency.key import Delivery

RUN = "taskbell.run"
ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class IdempotentWsgi:
    """Around an application, whole."""

    def __init__(self, app: WSGIApplication, guard: Guard, **options: Unpack[Options]) -> None:
        """`options` are explained at `Exchange`."""
        self._app, self._guard, self._exchange = app, guard, Exchange(**options)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a delivery."""
        method = environ["REQUEST_METHOD"]
        if self._exchange.passes_by(method, environ.get("PATH_INFO", "")):
            return self._app(environ, start_response)
        answer = self._answer(environ)
        start_response(f"{answer.status} {phrase(answer.status)}", headers_out(answer, method))
        return [answer.body or b""]

    def _answer(self, environ: WSGIEnvironment) -> Answer:
        # The mount point belongs to the path: two applications may be mounted behind one guard.
        delivery = Delivery.of_environ({**environ, "PATH_INFO": _path(environ)})
        key = self._exchange.admit(delivery)
        if isinstance(key, Answer):
            return key
        print_ = None
        if self._exchange.fingerprint:
            body = _body(environ, self._exchange.body_bytes_max)
            if body is None:
                return self._exchange.too_large()
            print_ = self._exchange.print_of(environ["REQUEST_METHOD"], delivery, body)
        return self._exchange.serve(
            self._guard, key, delivery, lambda run: _called(self._app, {**environ, RUN: run}), print_
        )


def _path(environ: WSGIEnvironment) -> str:
    path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return path


def _called(app: WSGIApplication, environ: dict[str, Any]) -> Answer:
    """Call the application and gather its answer, as PEP 3333 has it."""
    started: list[tuple[str, list[tuple[str, str]]]] = []
    written = io.BytesIO()

    def start_response(
        status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        # Nothing has been sent yet, so that an error may always replace what was begun.
        if started and exc_info is None:
            raise RuntimeError("the application called start_response twice")
        started.append((status, headers))
        return written.write

    parts = app(environ, start_response)
    try:
        for part in parts:
            written.write(part)
    finally:
        if hasattr(parts, "close"):
            parts.close()
    if not started:
        raise RuntimeError("the application did not call start_response")
    status, headers = started[-1]
    return Answer(int(status.partition(" ")[0]), tuple(headers), written.getvalue())


def _body(environ: WSGIEnvironment, limit: int) -> bytes | None:
    """The body, which the application can still read; None if it is longer than the limit."""
    length = environ.get("CONTENT_LENGTH") or ""
    if length:
        if not 0 <= int(length) <= limit:
            return None
        body: bytes = environ["wsgi.input"].read(int(length))
    elif environ.get("wsgi.input_terminated"):
        # Chunked, and the server ends the stream for us.
        body = environ["wsgi.input"].read(limit + 1)
    else:
        body = b""
    environ["wsgi.input"] = io.BytesIO(body)
    return body if len(body) <= limit else None

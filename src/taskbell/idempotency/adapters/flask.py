"""Flask: a decorator under the route.

    @app.post("/report")
    @idempotent(guard)
    def report(): ...

The view reaches its run by `taskbell.idempotency.current_run()`. `abort(404)` is an answer; other errors are released
and raised, for Flask to answer 500. An application as a whole is guarded by `wsgi.py`, which sees Flask's answers only:
`PermanentFailure` has already become a 500 there.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any, ParamSpec, Unpack, cast

from taskbell.core.claim import Answer
from taskbell.idempotency.adapters.exchange import Exchange, Options
from taskbell.idempotency.guard import Guard
from taskbell.idempotency.key import Delivery

try:
    import flask
    from werkzeug.exceptions import HTTPException
except ImportError as error:
    raise ImportError("taskbell.idempotency.adapters.flask needs Flask: pip install 'taskbell[flask]'") from error

P = ParamSpec("P")


def idempotent(
    guard: Guard, **options: Unpack[Options]
) -> Callable[[Callable[P, Any]], Callable[P, flask.typing.ResponseReturnValue]]:
    """Guard a view; `options` are explained at `Exchange`."""
    exchange = Exchange(**options)

    def decorate(view: Callable[P, Any]) -> Callable[P, flask.typing.ResponseReturnValue]:
        @functools.wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> flask.typing.ResponseReturnValue:
            request = flask.request
            if exchange.passes_by(request.method, request.path):
                return cast("flask.Response", flask.current_app.ensure_sync(view)(*args, **kwargs))
            delivery = Delivery.of(
                request.headers, path=request.root_path + request.path, query=request.query_string.decode("latin-1")
            )
            key = exchange.admit(delivery)
            if isinstance(key, Answer):
                return _response(key)
            print_ = None
            if exchange.fingerprint:
                body = _body(exchange.body_bytes_max)
                if body is None:
                    return _response(exchange.too_large())
                print_ = exchange.print_of(request.method, delivery, body)
            live: list[tuple[Answer, flask.Response]] = []

            def work(_: object) -> Answer:
                live.append(_called(view, *args, **kwargs))
                return live[-1][0]

            answer = exchange.serve(guard, key, delivery, work, print_)
            # The view's own response, with all that Flask hangs on it, if that is the answer.
            return live[-1][1] if live and live[-1][0] is answer else _response(answer)

        return guarded

    return decorate


def _called(view: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> tuple[Answer, flask.Response]:
    try:
        response = flask.make_response(flask.current_app.ensure_sync(view)(*args, **kwargs))
    except HTTPException as error:
        response = flask.make_response(flask.current_app.handle_http_exception(error))
    # Of a file or a stream, too: its key is settled by all of it.
    response.direct_passthrough = False
    body = response.get_data()
    return Answer(response.status_code, tuple(response.headers.items()), body), response


def _response(answer: Answer) -> flask.Response:
    response = flask.Response(answer.body or b"", status=answer.status)
    del response.headers["Content-Type"]
    response.headers.extend([(n, v) for n, v in answer.headers if n.lower() != "content-length"])
    return response


def _body(limit: int) -> bytes | None:
    """The body, which the view can still read; None if it is longer than the limit."""
    body = flask.request.stream.read(limit + 1)
    flask.request.stream = io.BytesIO(body)
    return body if len(body) <= limit else None

"""Django: a decorator around a view, blocking with a `Guard` or asynchronous with an `AsyncGuard`.

    @csrf_exempt
    @idempotent(guard)
    def report(request): ...

The view reaches its run by `taskbell.idempotency.current_run()`. `Http404` and the like are answers; other errors are
released and raised, for Django to answer 500. With ATOMIC_REQUESTS the transaction is opened inside of the guard, so
that a key never completes before its effect is committed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Unpack

from taskbell.core.claim import Answer
from taskbell.idempotency.adapters.exchange import Exchange, Options
from taskbell.idempotency.guard import AsyncGuard, Guard
from taskbell.idempotency.key import Delivery, Key

try:
    from asgiref.sync import sync_to_async
    from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
    from django.core.handlers.exception import response_for_exception
    from django.db import connections, transaction
    from django.http import Http404, HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase
except ImportError as error:
    raise ImportError("taskbell.idempotency.adapters.django needs Django: pip install 'taskbell[django]'") from error

View = Callable[..., Any]
_ANSWERS = (Http404, PermissionDenied, BadRequest, SuspiciousOperation)
"""What Django itself answers with 4xx."""


def idempotent(guard: Guard | AsyncGuard, **options: Unpack[Options]) -> Callable[[View], View]:
    """Guard a view; `options` are explained at `Exchange`."""
    exchange = Exchange(**options)

    def decorate(view: View) -> View:
        if inspect.iscoroutinefunction(view) != isinstance(guard, AsyncGuard):
            raise TypeError("asynchronous views need an AsyncGuard, and others a Guard")
        if isinstance(guard, AsyncGuard):
            return _guarded_async(view, guard, exchange)
        return _guarded(view, guard, exchange)

    return decorate


def _guarded(view: View, guard: Guard, exchange: Exchange) -> View:
    atomic = _Atomic(view)

    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if exchange.passes_by(str(request.method), request.path):
            passed: HttpResponseBase = atomic(request, *args, **kwargs)
            return passed
        delivery = _delivery(request)
        admitted = _admitted(exchange, exchange.admit(delivery), delivery, request)
        if isinstance(admitted, Answer):
            return _response(admitted)
        key, print_ = admitted
        live = _Live()

        def work(_: object) -> Answer:
            try:
                return live.answer(atomic(request, *args, **kwargs))
            except _ANSWERS as error:
                return live.answer(response_for_exception(request, error))

        return live.response(exchange.serve(guard, key, delivery, work, print_))

    return _outside_of_transactions(guarded)


def _guarded_async(view: Callable[..., Awaitable[Any]], guard: AsyncGuard, exchange: Exchange) -> View:
    @functools.wraps(view)
    async def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if exchange.passes_by(str(request.method), request.path):
            passed: HttpResponseBase = await view(request, *args, **kwargs)
            return passed
        delivery = _delivery(request)
        key = await sync_to_async(exchange.admit, thread_sensitive=False)(delivery)
        admitted = _admitted(exchange, key, delivery, request)
        if isinstance(admitted, Answer):
            return _response(admitted)
        key, print_ = admitted
        live = _Live()

        async def work(_: object) -> Answer:
            try:
                return await live.answer_async(await view(request, *args, **kwargs))
            except _ANSWERS as error:
                return live.answer(await sync_to_async(response_for_exception)(request, error))

        return live.response(await exchange.serve_async(guard, key, delivery, work, print_))

    return guarded


class _Atomic:
    """A view as ATOMIC_REQUESTS would have it called."""

    def __init__(self, view: View) -> None:
        exempt = getattr(view, "_non_atomic_requests", ())
        self._view = view
        self._aliases = [
            alias for alias in connections if connections.settings[alias]["ATOMIC_REQUESTS"] and alias not in exempt
        ]

    def __call__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            for alias in self._aliases:
                stack.enter_context(transaction.atomic(using=alias))
            return self._view(request, *args, **kwargs)


def _outside_of_transactions(view: View) -> View:
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def _delivery(request: HttpRequest) -> Delivery:
    return Delivery.of(request.headers, path=request.path, query=request.META.get("QUERY_STRING", ""))


def _admitted(
    exchange: Exchange, key: Key | Answer, delivery: Delivery, request: HttpRequest
) -> tuple[Key, str | None] | Answer:
    if isinstance(key, Answer):
        return key
    if not exchange.fingerprint:
        return key, None
    try:
        # Django keeps it for the view, and refuses what is longer than DATA_UPLOAD_MAX_MEMORY_SIZE.
        body = request.body
    except RequestDataTooBig:
        return exchange.too_large()
    if len(body) > exchange.body_bytes_max:
        return exchange.too_large()
    return key, exchange.print_of(str(request.method), delivery, body)


class _Live:
    """The response of a view, and its answer, which stands for it until the key is settled."""

    def __init__(self) -> None:
        self._response: Any = None
        self._answer: Answer | None = None

    def answer(self, response: Any) -> Answer:
        if hasattr(response, "render") and not response.is_rendered:
            response = response.render()
        if response.streaming:
            response = _unstreamed(response, b"".join(response.streaming_content))
        self._response = response
        self._answer = Answer(response.status_code, tuple(response.items()), response.content)
        return self._answer

    async def answer_async(self, response: Any) -> Answer:
        if response.streaming and response.is_async:
            response = _unstreamed(response, b"".join([part async for part in response.streaming_content]))
        return self.answer(response)

    def response(self, answer: Answer) -> HttpResponseBase:
        """The view's own, with its cookies, if that is the answer."""
        return self._response if answer is self._answer else _response(answer)


def _unstreamed(response: Any, body: bytes) -> HttpResponse:
    """The same response with its body in hand: its key is settled by all of it."""
    whole = HttpResponse(body, status=response.status_code, headers=dict(response.items()))
    whole.cookies = response.cookies
    whole._resource_closers.extend(response._resource_closers)  # noqa: SLF001 - the file closes when the request ends.
    return whole


def _response(answer: Answer) -> HttpResponse:
    response = HttpResponse(answer.body or b"", status=answer.status)
    del response["Content-Type"]
    for name, value in answer.headers:
        response[name] = value
    return response

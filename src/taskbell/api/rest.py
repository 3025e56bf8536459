"""REST over ASGI: JSON requests and answers around the table of methods.

One call goes through here in a column: route, guard, body, message, handler, JSON. Where a request is wrong, the answer
is Google's error body; what is wrong with us is logged and answered as INTERNAL without a trace.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import structlog
from google.protobuf import json_format

from taskbell.api.asgi import DisconnectedError, Receive, Scope, Send, TooLargeError, read_body, respond
from taskbell.api.errors import HTTP_STATUS, rest_body
from taskbell.api.methods import Method
from taskbell.api.rest_faults import Faults
from taskbell.api.rest_fields import selected, selection_of
from taskbell.api.rest_json import fields_of, fill, json_object, set_field
from taskbell.api.rest_maps import sort_maps
from taskbell.api.rest_query import bind, query_of
from taskbell.api.rest_routes import Binding, Routes
from taskbell.core.errors import Internal, InvalidArgument, PermissionDenied, TaskbellError
from taskbell.service.services import Services

log = structlog.get_logger("taskbell.rest")

_HEADERS = (
    (b"content-type", b"application/json; charset=UTF-8"),
    (b"cache-control", b"private"),
    (b"x-content-type-options", b"nosniff"),
)
_READING_VERBS = frozenset({"GET", "HEAD", "OPTIONS"})
_FORM = "application/x-www-form-urlencoded"
_REFUSED_TYPES = frozenset({_FORM, "multipart/form-data", "text/plain"})
"""What a page of another site can send without asking first."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


class RestAdapter:
    """Answers JSON calls."""

    def __init__(self, methods: Sequence[Method], services: Services, max_request_bytes: int) -> None:
        self._routes = Routes(methods)
        self._services = services
        self._max_request_bytes = max_request_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One call."""
        headers = list(_HEADERS)
        try:
            body = await self._answer(scope, receive, headers)
            status = 200
        except DisconnectedError:
            return
        except TooLargeError:
            if scope.get("http_version", "1.1").startswith("1"):
                headers.append((b"connection", b"close"))  # The rest of the body is not worth reading.
            refusal = InvalidArgument(f"Request payload size exceeds the limit: {self._max_request_bytes} bytes.")
            status, body = _refused(refusal)
        except TaskbellError as refusal:
            status, body = _refused(refusal)
        except Exception:
            log.exception("call.failed", verb=scope["method"], path=scope["path"])
            status, body = _refused(Internal("Internal error: see the server's log."))
        if scope["method"] == "HEAD":
            headers.append((b"content-length", str(len(body)).encode()))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await respond(send, status, body, headers)

    async def _answer(self, scope: Scope, receive: Receive, headers: list[tuple[bytes, bytes]]) -> bytes:
        request_headers = _headers_of(scope)
        verb, path = scope["method"], _raw_path(scope)
        if verb == "OPTIONS":
            verbs = self._routes.verbs(path)
            if verbs:
                headers.append((b"allow", ", ".join([*verbs, "OPTIONS"]).encode()))
                return b""
        refuse_foreign_origin(verb, request_headers)
        # How googleapiclient sends a GET whose address would be too long: as a POST with the query as a form.
        is_disguised = verb == "POST" and request_headers.get("x-http-method-override", "").upper() == "GET"
        method, bindings = self._routes.find("GET" if is_disguised or verb == "HEAD" else verb, path)
        # Read even where it is ignored, so that the connection can carry the next request.
        body = await read_body(scope, receive, self._max_request_bytes)
        query, payload = scope.get("query_string", b""), b""
        if is_disguised:
            query = b"&".join(filter(None, (query, inflated(body, request_headers, self._max_request_bytes))))
        elif method.body and body:
            refuse_form(request_headers)
            payload = inflated(body, request_headers, self._max_request_bytes)
        wanted = query_of(query)
        selection = selection_of(wanted.selection, method.response.DESCRIPTOR) if wanted.selection else None
        request = request_of(method, bindings, wanted.parameters, payload)
        assert method.handler is not None, "a row without a handler was refused when it was looked up"
        response = await method.handler(self._services, request, method.response())
        answer = json_format.MessageToDict(response, use_integers_for_enums=wanted.enums_as_integers)
        sort_maps(answer, response.DESCRIPTOR)
        return _json(answer if selection is None else selected(answer, selection), pretty=wanted.pretty)


def request_of(
    method: Method, bindings: Sequence[Binding], parameters: Sequence[tuple[str, str]], payload: bytes
) -> Any:
    """The request message: what the body holds, what the query adds, and the path over both."""
    request = method.request()
    value = json_object(payload) if method.body and payload.strip() else {}
    bound = {binding.field[0] for binding in bindings}
    faults = Faults()
    if method.body == "*":
        fill(request, value, "", faults)
        bound.update(field.name for field, _ in request.ListFields())
    elif method.body:
        bound.add(method.body)
        if payload.strip():
            set_field(request, fields_of(request.DESCRIPTOR)[method.body], value, method.body, faults)
    faults.check()
    bind(request, parameters, bound)
    for binding in bindings:
        *steps, last = binding.field
        owner = request
        for step in steps:
            owner = getattr(owner, step)
        setattr(owner, last, binding.value)
    return request


def inflated(body: bytes, headers: dict[str, str], max_bytes: int) -> bytes:
    """A body as it was before it was compressed; the limit holds for that too."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", "") or not body:
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise InvalidArgument(f"The Content-Encoding {encoding!r} is not supported: use gzip.")
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        text = inflater.decompress(body, max_bytes + 1)
    except zlib.error:
        raise InvalidArgument("The body is not valid gzip.") from None
    if len(text) > max_bytes:
        raise TooLargeError
    if not inflater.eof or inflater.unused_data:
        raise InvalidArgument("The body is not one whole gzip stream.")
    return text


def refuse_foreign_origin(verb: str, headers: dict[str, str]) -> None:
    """A page of another site must not change anything through the browser of somebody who can reach this server."""
    origin = headers.get("origin")
    if origin is None or verb in _READING_VERBS:
        return
    if _authority(origin) != _authority("http://" + headers.get("host", "")) or _authority(origin) is None:
        raise PermissionDenied("Cross-origin requests may not change anything: the Origin and Host headers differ.")


def _authority(url: str) -> tuple[str, int | None] | None:
    """Host and port, where the default ports of both schemes count as none; None where there is no host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, None if port in _DEFAULT_PORTS.values() else port) if host else None


def refuse_form(headers: dict[str, str]) -> None:
    """A body that says it is a form or plain text is no JSON body; one that says nothing may be."""
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in _REFUSED_TYPES:
        raise InvalidArgument(f"The Content-Type {content_type!r} is not supported: send application/json.")


def _headers_of(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _raw_path(scope: Scope) -> bytes:
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"], safe="/:").encode() if raw is None else raw.partition(b"?")[0]


def _refused(refusal: TaskbellError) -> tuple[int, bytes]:
    return HTTP_STATUS[refusal.code], _json(rest_body(refusal), pretty=True)


def _json(value: Any, *, pretty: bool) -> bytes:
    separators = None if pretty else (",", ":")
    return json.dumps(value, ensure_ascii=False, indent=2 if pretty else None, separators=separators).encode()

"""gRPC over ASGI: frames, statuses and trailers around the table of methods.

The server in front (`serving.py`) speaks HTTP/2; here a call is one request body with one length-prefixed message and
one response body with another, closed by trailers (the gRPC over HTTP/2 protocol specification).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from urllib.parse import quote

import structlog
from google.protobuf.message import DecodeError

from taskbell.api.asgi import Receive, Scope, Send, TooLargeError, read_body
from taskbell.api.errors import GRPC_NUMBER, rpc_status
from taskbell.api.methods import Method
from taskbell.core.errors import Internal, InvalidArgument, ResourceExhausted, TaskbellError, Unimplemented
from taskbell.service.services import Services

log = structlog.get_logger("taskbell.grpc")

_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/grpc"), (b"grpc-accept-encoding", b"identity,gzip,deflate")],
    "trailers": True,
}
_OK = {"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")]}
_FRAME_HEADER = 5


class GrpcAdapter:
    """Answers unary calls."""

    def __init__(self, methods: Sequence[Method], services: Services, max_request_bytes: int) -> None:
        self._methods = {method.grpc: method for method in methods if method.grpc}
        self._services = services
        self._max_request_bytes = max_request_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One call."""
        try:
            answer = await self._answer(scope, receive)
        except TaskbellError as refusal:
            await send(_START)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            await send({"type": "http.response.trailers", "headers": _status_trailers(refusal)})
            return
        await send(_START)
        await send({"type": "http.response.body", "body": b"\0" + len(answer).to_bytes(4, "big") + answer})
        await send(_OK)

    async def _answer(self, scope: Scope, receive: Receive) -> bytes:
        method = self._methods.get(scope["path"])
        if method is None or method.handler is None:
            raise Unimplemented(f"The method {scope['path']} is not implemented by this server.")
        try:
            body = await read_body(scope, receive, self._max_request_bytes)
        except TooLargeError:
            raise ResourceExhausted(f"Received message larger than max ({self._max_request_bytes} bytes).") from None
        request = method.request()
        try:
            request.ParseFromString(message_of(body, scope, self._max_request_bytes))
        except DecodeError:
            raise Internal(f"The request is not a {request.DESCRIPTOR.full_name} message.") from None
        try:
            response = await method.handler(self._services, request, method.response())
        except TaskbellError:
            raise
        except Exception:
            log.exception("call.failed", method=method.grpc)
            raise Internal("Internal error: see the server's log.") from None
        serialized: bytes = response.SerializeToString()
        return serialized


def message_of(body: bytes, scope: Scope, max_bytes: int) -> bytes:
    """The one message of a request body, decompressed. Raises InvalidArgument for a malformed frame."""
    if len(body) < _FRAME_HEADER or int.from_bytes(body[1:5], "big") != len(body) - _FRAME_HEADER:
        raise InvalidArgument("The request is not one length-prefixed gRPC message.")
    if body[0] == 0:
        return body[_FRAME_HEADER:]
    encoding = next((value for name, value in scope["headers"] if name == b"grpc-encoding"), b"")
    return _decompressed(body[_FRAME_HEADER:], encoding, max_bytes)


def _decompressed(data: bytes, encoding: bytes, max_bytes: int) -> bytes:
    windows = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
    if encoding not in windows:
        raise Unimplemented(f"The grpc-encoding {encoding.decode('latin-1')!r} is not supported: use gzip or deflate.")
    inflater = zlib.decompressobj(windows[encoding])
    try:
        message = inflater.decompress(data, max_bytes + 1)
    except zlib.error:
        raise Internal("The compressed message cannot be decompressed.") from None
    if len(message) > max_bytes:
        raise ResourceExhausted(f"Received message larger than max ({max_bytes} bytes).")
    if not inflater.eof or inflater.unused_data:
        raise Internal("The compressed message is not one whole stream.")
    return message


def _status_trailers(refusal: TaskbellError) -> list[tuple[bytes, bytes]]:
    """grpc-status, percent-encoded grpc-message, and the details where there are any."""
    trailers = [
        (b"grpc-status", str(GRPC_NUMBER[refusal.code]).encode()),
        (b"grpc-message", quote(refusal.message, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~").encode()),
    ]
    if refusal.links:
        details = base64.b64encode(rpc_status(refusal).SerializeToString()).rstrip(b"=")
        trailers.append((b"grpc-status-details-bin", details))
    return trailers

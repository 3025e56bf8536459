"""A gRPC server that does nothing: the least that any call to a Python app behind pyvoy costs.

Served exactly as the product is served, it reads one message and answers an empty one with its trailers.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from google.protobuf.empty_pb2 import Empty

METHOD = "/bench.Noop/Call"

_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/grpc")],
    "trailers": True,
}
_TRAILERS = {"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")], "more_trailers": False}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer any request as a unary call."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    # What a generated server would do: decode the request, encode the answer, frame it.
    Empty.FromString(body[5:])
    answer = Empty().SerializeToString()
    await send(_START)
    await send({"type": "http.response.body", "body": b"\0" + len(answer).to_bytes(4, "big") + answer})
    await send(_TRAILERS)


async def serve(port: int) -> None:
    """Run it under pyvoy until told to stop."""
    from pyvoy import PyvoyServer  # noqa: PLC0415 - Envoy loads this module too, and needs only the app

    async with PyvoyServer("bench.noop:app", port=port, lifespan=False, stdout=None, stderr=None) as server:
        await server.wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))

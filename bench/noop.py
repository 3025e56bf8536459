"""A gRPC server that does nothing: the least that any call to a Python app behind pyvoy costs.

Served by the product's own `cli/serving.py`, so with the same Envoy configuration, threads and loop. It reads one
message and answers an empty one with its trailers.
"""

from __future__ import annotations

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
    if scope["type"] == "lifespan":
        await live(receive, send)
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


async def live(receive: Any, send: Any) -> None:
    """Nothing to start, nothing to stop."""
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


def serve(port: int) -> None:
    """Become Envoy with this app in the product's place."""
    from taskbell.cli import serving  # noqa: PLC0415 - Envoy loads this module too, and needs only the app
    from taskbell.settings import Settings  # noqa: PLC0415

    serving.APP = "bench.noop:app"
    serving.raise_open_files()
    serving.become_envoy(Settings(port=port))


if __name__ == "__main__":
    serve(int(sys.argv[1]))

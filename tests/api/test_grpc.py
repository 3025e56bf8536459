"""gRPC over ASGI: frames, compression, statuses and trailers."""

from __future__ import annotations

import gzip
import zlib
from typing import Any
from urllib.parse import unquote

import pytest
from google.cloud import tasks_v2

from taskbell.api.grpc import GrpcAdapter, message_of
from taskbell.api.methods import all_methods
from taskbell.core.errors import Internal, InvalidArgument, ResourceExhausted, TaskbellError, Unimplemented
from taskbell.engines.memory import MemoryEngine
from tests.conformance.wire import LOCATION, QUEUE, Wire

GET_QUEUE = "/google.cloud.tasks.v2.CloudTasks/GetQueue"
GetQueueRequest: Any = tasks_v2.GetQueueRequest.pb()
Queue: Any = tasks_v2.Queue.pb()
REQUEST = GetQueueRequest(name=QUEUE).SerializeToString()
GRPC = (b"content-type", b"application/grpc+proto")


def frame(message: bytes, compressed: int = 0) -> bytes:
    """A length-prefixed message."""
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message


async def trailers(wire: Wire, path: str, body: bytes, *headers: tuple[bytes, bytes]) -> tuple[int, str]:
    """The status and message of a call."""
    status, found, _ = await wire.exchange("POST", path, [GRPC, *headers], body)
    assert status == 200
    assert found[b"content-type"] == b"application/grpc"
    return int(found[b"grpc-status"]), unquote(found.get(b"grpc-message", b"").decode())


async def test_an_answer_is_one_frame_between_headers_and_trailers() -> None:
    """Status 0 and no message."""
    wire = Wire("grpc")
    await wire.create_queue()
    _, found, body = await wire.exchange("POST", GET_QUEUE, [GRPC], frame(REQUEST))

    assert found[b"grpc-status"] == b"0"
    assert b"grpc-message" not in found
    assert body[:1] == b"\0"
    queue = Queue()
    queue.ParseFromString(body[5:])
    assert queue.name == QUEUE


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [(b"gzip", gzip.compress(REQUEST, mtime=0)), (b"deflate", zlib.compress(REQUEST)), (b"identity", None)],
)
async def test_requests_may_be_compressed(encoding: bytes, packed: bytes | None) -> None:
    """As the flag of the frame says; the header alone compresses nothing."""
    wire = Wire("grpc")
    await wire.create_queue()
    body = frame(REQUEST) if packed is None else frame(packed, 1)

    assert await trailers(wire, GET_QUEUE, body, (b"grpc-encoding", encoding)) == (0, "")


@pytest.mark.parametrize(
    ("body", "encoding", "refusal"),
    [
        (b"", b"", InvalidArgument),
        (b"\0\0\0\0", b"", InvalidArgument),
        (frame(b"abc")[:-1], b"", InvalidArgument),
        (frame(b"abc") + b"x", b"", InvalidArgument),
        (frame(b"a") + frame(b"b"), b"", InvalidArgument),
        (frame(b"abc", 1), b"", Unimplemented),
        (frame(b"abc", 1), b"br", Unimplemented),
        (frame(b"abc", 1), b"gzip", Internal),
        (frame(gzip.compress(b"x" * 100, mtime=0)[:-9], 1), b"gzip", Internal),
        (frame(gzip.compress(b"x", mtime=0) + b"more", 1), b"gzip", Internal),
        (frame(gzip.compress(bytes(1001), mtime=0), 1), b"gzip", ResourceExhausted),
        (frame(b"abc", 2), b"gzip", Internal),
    ],
)
def test_a_frame_that_is_none_is_refused(body: bytes, encoding: bytes, refusal: type[TaskbellError]) -> None:
    """Too short, too long, two, cut, unknown, and bombs."""
    with pytest.raises(refusal):
        message_of(body, {"headers": [(b"grpc-encoding", encoding)]}, 1000)


def test_a_message_of_the_largest_size_is_taken_apart() -> None:
    """To the byte, compressed as well."""
    headers = {"headers": [(b"grpc-encoding", b"gzip")]}

    assert message_of(frame(gzip.compress(bytes(1000)), 1), headers, 1000) == bytes(1000)


async def test_a_request_that_is_no_message_is_said_to_be_none() -> None:
    """INTERNAL, as gRPC servers answer what they cannot parse."""
    assert (await trailers(Wire("grpc"), GET_QUEUE, frame(b"\xff\xff\xff")))[0] == 13


@pytest.mark.parametrize(
    "path",
    ["/", "/google.cloud.tasks.v2.CloudTasks/Colour", "/google.cloud.tasks.v2.CloudTasks", "/x.Y/GetQueue"],
)
async def test_a_method_that_is_not_there_is_unimplemented(path: str) -> None:
    """With its path in the text."""
    number, message = await trailers(Wire("grpc"), path, frame(b""))

    assert number == 12
    assert path in message


async def test_every_row_without_a_handler_is_unimplemented() -> None:
    """Known to the API, not built here."""
    wire = Wire("grpc")
    for method in all_methods():
        if method.grpc and method.handler is None:
            assert (await trailers(wire, method.grpc, frame(b"")))[0] == 12


async def test_a_text_of_other_characters_is_percent_encoded() -> None:
    """As the protocol wants it."""
    wire = Wire("grpc")
    name = f"{QUEUE}/tasks/ü%\n"
    request = tasks_v2.GetTaskRequest.pb()(name=name).SerializeToString()
    _, found, _ = await wire.exchange("POST", "/google.cloud.tasks.v2.CloudTasks/GetTask", [GRPC], frame(request))

    message = found[b"grpc-message"]
    assert all(0x20 <= byte <= 0x7E for byte in message)
    assert b"%C3%BC%25%0A" in message
    assert b'Task ID "' in message


@pytest.mark.parametrize("declared", [True, False])
async def test_a12_a_request_that_is_too_large_is_refused_before_it_is_kept(*, declared: bool) -> None:
    """By its declared length without a byte being read, otherwise as soon as the limit is passed."""
    wire = Wire("grpc")
    adapter = GrpcAdapter(all_methods(), wire.adapter._services, 1000)
    reads = 0
    sent: list[Any] = []

    async def receive() -> Any:
        nonlocal reads
        reads += 1
        return {"type": "http.request", "body": bytes(400), "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [GRPC, (b"content-length", b"30000000")] if declared else [GRPC]
    await adapter({"type": "http", "path": GET_QUEUE, "headers": headers}, receive, send)

    assert reads == (0 if declared else 3)
    assert dict(sent[-1]["headers"])[b"grpc-status"] == b"8"
    assert sent[-1]["type"] == "http.response.trailers"


class BrokenEngine(MemoryEngine):
    """An engine with a fault of its own."""

    async def queues(self, parent: str, after: str, limit: int) -> list[Any]:
        """Break an invariant."""
        raise ZeroDivisionError("secret")


async def test_a_fault_of_ours_is_internal_and_tells_nothing() -> None:
    """The log has it."""
    wire = Wire("grpc")
    wire.adapter._services.queues._engine = BrokenEngine()
    refusal = await wire.refused("ListQueues", parent=LOCATION)

    assert refusal.code == "INTERNAL"
    assert "secret" not in refusal.message

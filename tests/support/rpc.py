"""Plain gRPC calls by the generated messages, without Google's client above them: no retries, no default deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import grpc
from google.cloud.tasks_v2.types import cloudtasks, task
from google.protobuf import empty_pb2

from tests.support.rest import queue_name

SERVICE = "/google.cloud.tasks.v2.CloudTasks/"
CreateTaskRequest: Any = cloudtasks.CreateTaskRequest.pb()
Task: Any = task.Task.pb()
_EAGER = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
]


class RpcClient:
    """One channel, which is one connection; several threads may use it."""

    def __init__(self, address: str, *, options: Sequence[tuple[str, Any]] = ()) -> None:
        """`address` is HOST:PORT; a channel that lost its server looks for it again at once."""
        self.channel = grpc.insecure_channel(address, options=[*_EAGER, *options])
        self.create_task = self.method("CreateTask", Task)

    def method(self, name: str, answer: Any = empty_pb2.Empty) -> grpc.UnaryUnaryMultiCallable[Any, Any]:
        """A method of CloudTasks as a callable."""
        return self.channel.unary_unary(
            SERVICE + name,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )

    def __enter__(self) -> Self:
        """Nothing to do."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the channel."""
        self.channel.close()


def create_request(
    queue_id: str, url: str, *, name: str = "", body: bytes = b"", schedule_micros: int | None = None
) -> Any:
    """A CreateTaskRequest for a task that posts to `url`; `schedule_micros` is a wall-clock time."""
    request = CreateTaskRequest(parent=queue_name(queue_id))
    request.task.http_request.url = url
    request.task.http_request.body = body
    request.task.name = name
    if schedule_micros is not None:
        request.task.schedule_time.FromMicroseconds(schedule_micros)
    return request

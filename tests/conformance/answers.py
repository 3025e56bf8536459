"""Texts, instants and payloads that the cases about tasks share."""

from __future__ import annotations

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from taskbell.core.instant import SECOND, Instant
from tests.conformance.wire import Refused

QUEUE_MISSING = (
    "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize."
)
NOT_FOUND = Refused("NOT_FOUND", "Requested entity was not found.")
EXISTED = Refused(
    "NOT_FOUND",
    "The task no longer exists, though a task with this name existed recently. "
    "The task either successfully completed or was deleted.",
)
AGENT = "Google-Cloud-Tasks"
GAE_AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"


def timestamp(instant: Instant) -> Timestamp:
    """A Timestamp."""
    return Timestamp(seconds=instant // SECOND, nanos=instant % SECOND * 1000)


def instant(stamp: Any) -> Instant:
    """The instant of a Timestamp of whole microseconds."""
    assert stamp.nanos % 1000 == 0
    return int(stamp.seconds) * SECOND + int(stamp.nanos) // 1000


def one(kind: str, request: dict[str, Any]) -> dict[str, Any]:
    """The payload of a task."""
    return {kind: request}

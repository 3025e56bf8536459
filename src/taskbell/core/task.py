"""A task: one unit of scheduled work, immutable but for its bookkeeping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from taskbell.core.instant import Instant, Span
from taskbell.core.queue import RetryConfig
from taskbell.core.target import Target


class Status(NamedTuple):
    """google.rpc.Status of an attempt: the code's number and the message."""

    code: int
    message: str


class Attempt(NamedTuple):
    """The last attempt of a task as the wire shows it."""

    schedule_time: Instant
    dispatch_time: Instant
    response_time: Instant | None = None
    status: Status | None = None


class DueKey(NamedTuple):
    """The order in which a queue's tasks become due: schedule time, then id."""

    schedule_time: Instant
    id: int


@dataclass(frozen=True, slots=True)
class Task:
    """A task as stored.

    `id` is a time-ordered integer that the engine hands out and the row's key; `task_id` is the last segment of the
    name: the caller's choice where `named`, the decimal text of `id` otherwise.
    """

    id: int
    queue: str
    task_id: str
    named: bool
    target: Target
    schedule_time: Instant
    create_time: Instant
    dispatch_deadline: Span | None = None
    retry_config: RetryConfig | None = None
    dispatch_count: int = 0
    response_count: int = 0
    execution_count: int = 0
    """Responses that count for the ExecutionCount header (wire.md section 5.4)."""
    first_dispatch_time: Instant | None = None
    last_attempt: Attempt | None = None
    previous_response: int | None = None
    """What the PreviousResponse header says on the next attempt; None before the first attempt."""

    @property
    def name(self) -> str:
        """The full resource name."""
        return f"{self.queue}/tasks/{self.task_id}"

    @property
    def due_key(self) -> DueKey:
        """The task's place in its queue."""
        return DueKey(self.schedule_time, self.id)

    @property
    def size(self) -> int:
        """About how many bytes the task holds in memory: its body and a flat sum for the rest."""
        return len(self.target.body) + 1024

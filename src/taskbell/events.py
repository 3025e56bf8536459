"""What happens inside, as a table of events that logs, metrics and consoles read.

Each event is a value with a stable name; whoever is interested subscribes by type. Emitting is synchronous and must
stay cheap: subscribers count or format, they do not wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from taskbell.core.instant import Span
from taskbell.core.job import Execution, Job
from taskbell.core.outcome import Outcome
from taskbell.core.task import Task


class Result(StrEnum):
    """What became of the task of a finished attempt."""

    COMPLETED = "completed"
    RETRY = "retry"
    EXHAUSTED = "exhausted"
    SUPERSEDED = "superseded"
    """The task was deleted, purged or run by force while the attempt was out."""


@dataclass(frozen=True, slots=True)
class TaskCreated:
    """A create was committed."""

    name: ClassVar[str] = "task.created"
    task: Task


@dataclass(frozen=True, slots=True)
class TaskDispatched:
    """An attempt is about to be sent."""

    name: ClassVar[str] = "task.dispatched"
    task: Task
    lateness: Span
    """How long after its schedule time; microseconds."""


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    """An attempt ended and its outcome was committed."""

    name: ClassVar[str] = "attempt.finished"
    task: Task
    result: Result
    outcome: Outcome
    duration: Span
    next_wait: Span | None
    """Until the next attempt, where there is one."""


@dataclass(frozen=True, slots=True)
class ExecutionAttempted:
    """An attempt of a job's execution ended and was recorded."""

    name: ClassVar[str] = "execution.attempted"
    job: Job
    execution: Execution
    outcome: Outcome
    duration: Span


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    """The engine committed one group of operations."""

    name: ClassVar[str] = "batch.committed"
    operations: int
    duration: Span


Event = TaskCreated | TaskDispatched | AttemptFinished | ExecutionAttempted | BatchCommitted


class Events:
    """The switchboard."""

    def __init__(self) -> None:
        self._subscribers: dict[type[Any], list[Callable[[Any], None]]] = defaultdict(list)

    def subscribe(self, kind: type[Any], subscriber: Callable[[Any], None]) -> None:
        """Call `subscriber` with each event of this kind from now on."""
        self._subscribers[kind].append(subscriber)

    def emit(self, event: Event) -> None:
        """Hand the event to its subscribers, in the order in which they came."""
        for subscriber in self._subscribers.get(type(event), ()):
            subscriber(event)

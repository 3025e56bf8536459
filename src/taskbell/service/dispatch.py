"""What the service asks of the loops that dispatch: a contract, so that the two stay blind to each other.

`loops/dispatcher.py` implements it and `app.py` ties them together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from taskbell.core.queue import Queue
from taskbell.core.task import Task


class Dispatch(Protocol):
    """Called after each commit, in the order of the commits, inside the event loop."""

    def offer(self, tasks: Sequence[Task]) -> None:
        """These tasks were created."""

    def forget(self, task: Task) -> None:
        """A task was deleted: no new attempt of it begins from now on."""

    async def run(self, queue: str, read: Callable[[], Awaitable[Task]]) -> Task:
        """Dispatch now the task that `read` reads, whatever its queue's state; return it as just dispatched.

        Raises NotFound when the task is deleted while it is being read.
        """

    def queue_changed(self, queue: Queue) -> None:
        """A queue was created, or its state or configuration changed."""

    def queue_purged(self, queue: Queue, through: int) -> None:
        """Tasks with ids up to `through` were purged."""

    def queue_deleted(self, name: str) -> None:
        """The queue is gone with its tasks."""

    def current(self, task: Task) -> Task:
        """The task with the bookkeeping of an attempt that is out right now, if there is one."""

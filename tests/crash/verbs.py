"""A client that deletes, purges, pauses and resumes through every crash, and remembers what was acknowledged.

Each turn works on tasks and queues of its own, so that every acknowledged verb is a promise that can be looked up
later. A turn that meets the crash is abandoned: only what was answered counts.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from tests.support.rest import BROKEN, RestClient, http_task, queue_name, task_name

AHEAD = 1.5
"""Seconds. Tasks that a verb will cover are due soon: were the verb forgotten, they would be delivered in the test."""


@dataclass(slots=True)
class Promises:
    """What the server has acknowledged. Names are full."""

    deleted_tasks: list[str] = field(default_factory=list)
    purged_tasks: list[str] = field(default_factory=list)
    deleted_queues: list[str] = field(default_factory=list)
    paused_queues: list[str] = field(default_factory=list)
    held_tasks: list[str] = field(default_factory=list)
    """In the paused queues, so never to be delivered."""
    resumed_queues: list[str] = field(default_factory=list)
    freed_tasks: list[str] = field(default_factory=list)
    """In the resumed queues, so to be delivered."""
    turns: int = 0

    def covered_tasks(self) -> list[str]:
        """Tasks that are gone."""
        return [*self.deleted_tasks, *self.purged_tasks]


class VerbClient(threading.Thread):
    """Turn after turn until stopped."""

    def __init__(self, address: str, url: str) -> None:
        super().__init__(name="verbs", daemon=True)
        self.promises = Promises()
        self.fault: Exception | None = None
        self._client = RestClient(address, timeout=5)
        self._url = url + "/verbs"
        self._stopped = threading.Event()

    def run(self) -> None:
        """Take turns."""
        turns = (self._delete_tasks, self._purge, self._delete_queue, self._pause, self._resume)
        number = 0
        while not self._stopped.is_set():
            number += 1
            try:
                turns[number % len(turns)](number)
                self.promises.turns += 1
            except BROKEN:
                self._stopped.wait(0.05)
            except AssertionError as fault:
                self.fault = fault
                return

    def stop(self) -> None:
        """End after the turn at hand."""
        self._stopped.set()
        self.join(timeout=15)
        assert not self.is_alive()
        self._client.close()

    def _create(self, queue_id: str, count: int, number: int) -> list[str]:
        due = time.time() + AHEAD
        names = [task_name(queue_id, f"v{number}-{n}") for n in range(count)]
        for name in names:
            self._client.create_task(queue_id, http_task(self._url, name=name, schedule_time=due))
        return names

    def _in_time(self, began: float) -> bool:
        """Whether the acknowledgement came before the tasks were due, so that none of them may ever be sent."""
        return time.time() < began + AHEAD

    def _delete_tasks(self, number: int) -> None:
        began = time.time()
        for name in self._create("q0", 3, number):
            self._client.expect("DELETE", f"/v2/{name}")
            if self._in_time(began):
                self.promises.deleted_tasks.append(name)

    def _purge(self, number: int) -> None:
        queue_id = f"purged-{number}"
        self._client.create_queue(queue_id)
        began = time.time()
        names = self._create(queue_id, 3, number)
        self._client.do("purge", queue_name(queue_id))
        if self._in_time(began):
            self.promises.purged_tasks.extend(names)

    def _delete_queue(self, number: int) -> None:
        queue_id = f"deleted-{number}"
        self._client.create_queue(queue_id)
        began = time.time()
        self._create(queue_id, 3, number)
        self._client.expect("DELETE", f"/v2/{queue_name(queue_id)}")
        if self._in_time(began):
            self.promises.deleted_queues.append(queue_name(queue_id))

    def _pause(self, number: int) -> None:
        queue_id = f"held-{number}"
        self._client.create_queue(queue_id)
        self._client.do("pause", queue_name(queue_id))
        self.promises.paused_queues.append(queue_name(queue_id))
        self.promises.held_tasks.extend(self._create(queue_id, 2, number))

    def _resume(self, number: int) -> None:
        queue_id = f"freed-{number}"
        self._client.create_queue(queue_id)
        self._client.do("pause", queue_name(queue_id))
        names = self._create(queue_id, 2, number)
        self._client.do("resume", queue_name(queue_id))
        self.promises.resumed_queues.append(queue_name(queue_id))
        self.promises.freed_tasks.extend(names)

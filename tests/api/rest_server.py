"""The REST adapter over real services on the memory engine, called in-process through ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from taskbell.api.methods import Method, all_methods
from taskbell.api.rest import RestAdapter
from taskbell.core.instant import Instant, Span
from taskbell.core.job import Execution, Job
from taskbell.core.limits import GOOGLE
from taskbell.core.queue import Queue
from taskbell.core.task import Task
from taskbell.engines.memory import MemoryEngine
from taskbell.events import Events
from taskbell.service.access import AccessService
from taskbell.service.jobs import JobService
from taskbell.service.locations import LocationService
from taskbell.service.operations import OperationService
from taskbell.service.queues import QueueService
from taskbell.service.services import Services
from taskbell.service.tasks import TaskService

NOW: Instant = 1_780_000_000_123_456
LOCATION = "projects/p/locations/l"
QUEUE = f"{LOCATION}/queues/q"
MAX_BYTES = 1 << 20


class StillClock:
    """Always the same instant."""

    def now(self) -> Instant:
        return NOW

    def monotonic(self) -> Span:
        return 0

    async def wait(self, event: asyncio.Event, timeout: Span) -> None:
        await event.wait()


class RecordingDispatch:
    """A `Dispatch` that sends nothing and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def offer(self, tasks: Sequence[Task]) -> None:
        self.told.extend(f"offer {task.name}" for task in tasks)

    def forget(self, task: Task) -> None:
        self.told.append(f"forget {task.name}")

    async def run(self, queue: str, read: Callable[[], Awaitable[Task]]) -> Task:
        task = await read()
        self.told.append(f"run {task.name}")
        return task

    def queue_changed(self, queue: Queue) -> None:
        self.told.append(f"changed {queue.name}")

    def queue_purged(self, queue: Queue, through: int) -> None:
        self.told.append(f"purged {queue.name}")

    def queue_deleted(self, name: str) -> None:
        self.told.append(f"deleted {name}")

    def current(self, task: Task) -> Task:
        return task


class RecordingScheduling:
    """A `Scheduling` that fires nothing and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def job_changed(self, job: Job) -> None:
        self.told.append(f"changed {job.name}")

    def job_deleted(self, job: Job) -> None:
        self.told.append(f"deleted {job.name}")

    def run(self, job: Job, execution: Execution) -> None:
        self.told.append(f"run {job.name} {execution.instant}")

    def current(self, job: Job) -> Job:
        return job


@dataclass
class Answer:
    """One response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, str, str]:
        """HTTP status, canonical code and message of an error body."""
        error = self.json["error"]
        assert error["code"] == self.status
        return self.status, error["status"], error["message"]


class RestServer:
    """The adapter with what lies behind it."""

    def __init__(self, methods: Sequence[Method] | None = None, max_bytes: int = MAX_BYTES) -> None:
        self.dispatch = RecordingDispatch()
        self.engine = MemoryEngine()
        clock, events = StillClock(), Events()
        services = Services(
            queues=QueueService(self.engine, self.dispatch, clock, GOOGLE),
            tasks=TaskService(self.engine, self.dispatch, clock, GOOGLE, events),
            jobs=JobService(self.engine, RecordingScheduling(), clock, GOOGLE, forced_header="next"),
            access=AccessService(self.engine),
            locations=LocationService(self.engine, ["us-central1"]),
            operations=OperationService(),
            clock=clock,
            limits=GOOGLE,
        )
        self.adapter = RestAdapter(all_methods() if methods is None else methods, services, max_bytes)
        self.chunks_read = 0

    async def call(self, verb: str, target: str, body: Any = b"", headers: dict[str, str] | None = None) -> Answer:
        """Send one request; `target` is path and query as on the request line, bodies other than bytes go as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"host": "127.0.0.1:8123", **({} if isinstance(body, bytes) else {"content-type": "application/json"})}
        given |= headers or {}
        path, _, query = target.partition("?")
        scope: MutableMapping[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": verb,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        chunks = [data[start : start + 65536] for start in range(0, len(data), 65536)] or [b""]
        sent: list[MutableMapping[str, Any]] = []
        self.chunks_read = 0

        async def receive() -> MutableMapping[str, Any]:
            chunk = chunks[self.chunks_read]
            self.chunks_read += 1
            return {"type": "http.request", "body": chunk, "more_body": self.chunks_read < len(chunks)}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self.adapter(scope, receive, send)
        start, *rest = sent
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], answered, b"".join(message["body"] for message in rest))


async def server_with_queue() -> RestServer:
    """A server that holds the queue `QUEUE`."""
    server = RestServer()
    assert (await server.call("POST", f"/v2/{LOCATION}/queues", {"name": QUEUE})).status == 200
    return server

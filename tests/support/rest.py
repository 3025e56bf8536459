"""A plain REST client on the standard library, so that tests see statuses and bodies and no client's retries.

One `RestClient` is one connection: give each thread its own. A call on a connection that the server has closed
meanwhile raises; the next call opens a new one. Nothing is ever sent twice.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

LOCATION = "projects/p/locations/l"
BROKEN = (OSError, http.client.HTTPException)
"""What a call raises when its outcome is not known."""


def queue_name(queue_id: str) -> str:
    """The full name of a queue."""
    return f"{LOCATION}/queues/{queue_id}"


def task_name(queue_id: str, task_id: str) -> str:
    """The full name of a task."""
    return f"{queue_name(queue_id)}/tasks/{task_id}"


def wire_time(seconds: float) -> str:
    """A wall-clock time as the wire writes it."""
    return dt.datetime.fromtimestamp(seconds, tz=dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def http_task(url: str, *, name: str = "", body: bytes = b"", schedule_time: float | None = None) -> dict[str, Any]:
    """A task that posts to `url`, in JSON."""
    request = {"url": url, "body": base64.b64encode(body).decode()} if body else {"url": url}
    task: dict[str, Any] = {"httpRequest": request}
    if name:
        task["name"] = name
    if schedule_time is not None:
        task["scheduleTime"] = wire_time(schedule_time)
    return task


@dataclass(frozen=True, slots=True)
class Answer:
    """One response."""

    status: int
    body: bytes

    @property
    def value(self) -> Any:
        """The JSON in it."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The canonical code: OK, or what the error body says."""
        if self.status == 200:
            return "OK"
        error = self.value["error"]
        assert error["code"] == self.status
        return str(error["status"])


class RestClient:
    """Calls of one thread."""

    def __init__(self, address: str, *, timeout: float = 30) -> None:
        """`address` is HOST:PORT; nothing is opened before the first call."""
        self._connection = http.client.HTTPConnection(address, timeout=timeout)

    def __enter__(self) -> Self:
        """Nothing to do."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._connection.close()

    def call(
        self, verb: str, path: str, value: object = None, *, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Answer:
        """One call; `value` goes as JSON, `body` as it is. Raises one of BROKEN when there was no answer."""
        given = dict(headers or {})
        if value is not None:
            body = json.dumps(value).encode()
            given["Content-Type"] = "application/json"
        try:
            self._connection.request(verb, path, body=body, headers=given)
            response = self._connection.getresponse()
            return Answer(response.status, response.read())
        except BROKEN:
            self.close()
            raise

    def expect(self, verb: str, path: str, value: object = None) -> Any:
        """One call that must succeed; its value."""
        answer = self.call(verb, path, value)
        assert answer.status == 200, f"{verb} {path}: {answer.status} {answer.body.decode(errors='replace')}"
        return answer.value

    # The calls that most tests make.

    def create_queue(self, queue_id: str, **fields: object) -> Any:
        """Create a queue with these fields."""
        return self.expect("POST", f"/v2/{LOCATION}/queues", {"name": queue_name(queue_id), **fields})

    def create_task(self, queue_id: str, task: Mapping[str, Any]) -> str:
        """Create a task; its full name."""
        return str(self.expect("POST", f"/v2/{queue_name(queue_id)}/tasks", {"task": task})["name"])

    def do(self, verb: str, name: str) -> Any:
        """`pause`, `resume`, `purge` or `run` something by its full name."""
        return self.expect("POST", f"/v2/{name}:{verb}", {})

    def tasks(self, queue_id: str, *, page_size: int = 1000) -> Iterator[Any]:
        """Every task of a queue, page by page."""
        token = ""
        while True:
            path = f"/v2/{queue_name(queue_id)}/tasks?pageSize={page_size}&pageToken={token}"
            page = self.expect("GET", path)
            yield from page.get("tasks", ())
            token = page.get("nextPageToken", "")
            if not token:
                return

    def metrics(self) -> dict[str, float]:
        """The samples of /metrics, by name with labels as printed."""
        answer = self.call("GET", "/metrics")
        assert answer.status == 200
        samples = {}
        for line in answer.body.decode().splitlines():
            if not line.startswith("#"):
                name, _, number = line.rpartition(" ")
                with contextlib.suppress(ValueError):
                    samples[name] = float(number)
        return samples

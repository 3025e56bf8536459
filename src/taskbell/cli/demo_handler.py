"""The sample handler of `taskbell demo`: an HTTP server in a thread of its own that fails now and then, on purpose.

It keeps a record of every request, which is what the demo's report is made from: the handler is the only one who can
say what really arrived.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from taskbell.core.instant import Instant

_SLOWEST_SECONDS = 0.3
"""Slow enough that some requests are out when the server is killed."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request that reached the handler, and how it was answered."""

    ticket: int
    """The number that the demo put into the task's URL."""
    task_name: str
    retry_count: int
    idempotency_key: str
    status: int
    arrival_time: Instant


class SampleHandler:
    """Listens on a free loopback port; use it in a `with` statement."""

    def __init__(self, seed: int, failure_rate: float) -> None:
        """`seed` and `failure_rate` decide which requests fail, whatever the order in which they come."""
        self._seed = seed
        self._failure_rate = failure_rate
        self._lock = threading.Lock()
        self._deliveries: list[Delivery] = []
        self._arrivals: Counter[int] = Counter()
        self._server = _Server(("127.0.0.1", 0), _bound_to(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="handler", daemon=True)

    @property
    def url(self) -> str:
        """The root URL, without a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def deliveries(self) -> list[Delivery]:
        """Every request so far, in the order of arrival."""
        with self._lock:
            return list(self._deliveries)

    def receive(self, ticket: int, headers: Any) -> int:
        """Note a request, take a moment as real work would, and choose the status of the answer."""
        arrival_time = time.time_ns() // 1000
        with self._lock:
            nth = self._arrivals[ticket]
            self._arrivals[ticket] += 1
        drawn = random.Random(f"{self._seed}/{ticket}/{nth}")  # noqa: S311 - chance for show, repeatable from the seed
        status = 503 if drawn.random() < self._failure_rate else 200
        time.sleep(drawn.random() * _SLOWEST_SECONDS)
        delivery = Delivery(
            ticket,
            headers.get("X-CloudTasks-TaskName", ""),
            int(headers.get("X-CloudTasks-TaskRetryCount", "0")),
            headers.get("Idempotency-Key", ""),
            status,
            arrival_time,
        )
        with self._lock:
            self._deliveries.append(delivery)
        return status

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop; requests that are being answered are let go."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A server that is killed cuts its connections; that is the demo, and no news."""


def _bound_to(handler: SampleHandler) -> type[BaseHTTPRequestHandler]:
    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status = handler.receive(int(self.path.rsplit("/", 1)[-1]), self.headers)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives it
            """The demo's report says it all."""

    return Requests

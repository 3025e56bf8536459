"""One server, put together: the only file that knows every concrete class.

`App` is an ASGI application with a lifespan. `asgi` is the one that the server process serves; it takes the settings
that `cli/serving.py` handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import os
import resource
import sys
from collections.abc import Callable
from typing import TextIO, cast

import structlog

from taskbell import __version__
from taskbell.api import own
from taskbell.api.asgi import DisconnectedError, Receive, Scope, Send
from taskbell.api.grpc import GrpcAdapter
from taskbell.api.methods import all_methods
from taskbell.api.metrics import CONTENT_TYPE, Metrics
from taskbell.api.own import OwnCalls
from taskbell.api.pages import Pages, as_json, as_text
from taskbell.api.rest import RestAdapter
from taskbell.clock import Clock, SystemClock
from taskbell.core.errors import TaskbellError
from taskbell.core.instant import SECOND, rfc3339
from taskbell.core.target import AppEngineTarget, HttpTarget, PubsubTarget
from taskbell.engines import make_engine
from taskbell.events import AttemptFinished, Events, ExecutionAttempted, Result
from taskbell.loops.attempt import Attempts
from taskbell.loops.dispatcher import Dispatcher
from taskbell.loops.lane import Window
from taskbell.loops.sweeper import Sweeper
from taskbell.loops.ticker import Ticker
from taskbell.sender import Sender
from taskbell.senders.app_engine import AppEngineSender
from taskbell.senders.google import GoogleTokens
from taskbell.senders.http import HttpSender
from taskbell.senders.issuer import JWKS_PATH, Issuer
from taskbell.senders.pubsub import PubsubSender
from taskbell.senders.tokens import Tokens
from taskbell.service.access import AccessService
from taskbell.service.jobs import JobService
from taskbell.service.locations import LocationService
from taskbell.service.operations import OperationService
from taskbell.service.queues import QueueService
from taskbell.service.services import Services
from taskbell.service.tasks import TaskService
from taskbell.settings import Settings, taken_over

log = structlog.get_logger("taskbell")

SWITCH_INTERVAL = 0.002
"""Seconds. The engine's writer thread takes the interpreter back after every statement, and waits that long for a busy
event loop to give it up: Python's default of 5 ms makes commits long, much shorter times make threads fight
(docs/decisions/0002)."""


class App:
    """The ASGI application of one server."""

    def __init__(
        self, settings: Settings, clock: Clock | None = None, on_ready: Callable[[], None] | None = None
    ) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._on_ready = on_ready
        self._is_ready = False
        self._stop: list[Callable[[], object]] = []

    async def start(self) -> None:
        """Open the store, take on its queues and begin to dispatch. Raises TaskbellError with one clear sentence."""
        settings, clock = self.settings, self._clock
        self.events = events = Events()
        self.metrics = Metrics(events)
        events.subscribe(AttemptFinished, log_attempt if settings.log_level == "debug" else log_failed_attempt)
        events.subscribe(ExecutionAttempted, log_execution)
        self.engine = make_engine(settings.store, events)
        await self.engine.open()
        self.issuer = await Issuer.open(self.engine, settings.issuer_url, clock)
        google = GoogleTokens(clock)
        tokens = Tokens(self.issuer, google, is_google_signed=settings.is_google_signed)
        self.sender = HttpSender()
        await self.sender.start()
        senders: dict[type, Sender] = {
            HttpTarget: self.sender,
            AppEngineTarget: AppEngineSender(self.sender, settings.application),
            PubsubTarget: PubsubSender(
                self.sender, settings.pubsub_url, None if settings.pubsub_emulator_host else google.own_token
            ),
        }
        using = Attempts(self.engine, senders, tokens, clock, events)
        # An attempt that is out holds a socket; what is left is for callers and the store.
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        window = Window(settings.window_tasks, settings.window_bytes)
        self.dispatcher = Dispatcher(using, clock, window, max_out=max(1, files // 2))
        self.ticker = Ticker(
            using,
            clock,
            catch_up=settings.catch_up,
            max_open=max(1, min(settings.max_open_executions, files // 4)),
            delays_overlap=settings.overlap == "delay",
        )
        self.sweeper = Sweeper(self.engine, clock, history=settings.history)
        limits = settings.limits
        self.services = Services(
            queues=QueueService(self.engine, self.dispatcher, clock, limits),
            tasks=TaskService(self.engine, self.dispatcher, clock, limits, events),
            jobs=JobService(self.engine, self.ticker, clock, limits, forced_header=settings.forced_schedule_time),
            access=AccessService(self.engine),
            locations=LocationService(self.engine, settings.locations),
            operations=OperationService(),
            clock=clock,
            limits=limits,
        )
        methods = all_methods()
        self.grpc = GrpcAdapter(methods, self.services, settings.max_request_bytes)
        self.rest = RestAdapter(methods, self.services, settings.max_request_bytes)
        self.own = OwnCalls(self.services)
        self.pages = Pages(
            {
                "/healthz": self._healthz,
                "/readyz": self._readyz,
                "/metrics": self._metrics,
                "/.well-known/openid-configuration": self._discovery,
                JWKS_PATH: self._jwks,
            }
        )
        await self.dispatcher.load()
        self.dispatcher.start()
        await self.ticker.load()
        self.ticker.start()
        self.sweeper.start()
        self._is_ready = True

    async def stop(self) -> None:
        """Stop dispatching, let attempts that are out end within the grace period, commit and close."""
        self._is_ready = False
        await self.sweeper.stop()
        cuts = await asyncio.gather(self.dispatcher.drain(self.settings.grace), self.ticker.drain(self.settings.grace))
        cut = sum(cuts)
        if cut:
            log.warning("shutdown.cut", attempts=cut, grace_seconds=self.settings.grace / SECOND)
        await self.dispatcher.stop()
        await self.ticker.stop()
        await self.sender.close()
        await self.engine.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "http":
            try:
                await self._route(scope)(scope, receive, send)
            except DisconnectedError:
                return
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    def _route(self, scope: Scope) -> GrpcAdapter | RestAdapter | OwnCalls | Pages:
        for name, value in scope["headers"]:
            if name == b"content-type":
                if value.startswith(b"application/grpc"):
                    return self.grpc
                break
        path = scope["path"]
        if path.startswith(own.PREFIX):
            return self.own
        return self.pages if self.pages.has(path) else self.rest

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.start()
                except TaskbellError as refusal:
                    fail(refusal.message)
                if self._on_ready is not None:
                    self._on_ready()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _healthz(self) -> tuple[int, bytes, bytes]:
        return as_text(200, "ok")

    async def _readyz(self) -> tuple[int, bytes, bytes]:
        return as_text(200, "ready") if self._is_ready else as_text(503, "not ready")

    async def _metrics(self) -> tuple[int, bytes, bytes]:
        queues = {queue.name for queue in await self.engine.all_queues()}
        return 200, CONTENT_TYPE.encode(), self.metrics.render(await self.engine.depths(), queues)

    async def _discovery(self) -> tuple[int, bytes, bytes]:
        return as_json(self.issuer.discovery())

    async def _jwks(self) -> tuple[int, bytes, bytes]:
        return as_json(self.issuer.jwks())


def log_attempt(event: AttemptFinished) -> None:
    """One line per attempt: debug where it went well, info where it failed."""
    say = log.debug if event.result is Result.COMPLETED else log.info
    say(
        AttemptFinished.name,
        task=event.task.name,
        result=event.result.value,
        attempt=event.task.dispatch_count,
        status=event.outcome.status,
        failure=event.outcome.failure and event.outcome.failure.value,
        reason=event.outcome.reason or None,
        duration_ms=event.duration / 1000,
        next_in_seconds=None if event.next_wait is None else event.next_wait / SECOND,
    )


def log_execution(event: ExecutionAttempted) -> None:
    """The same of a job's attempt."""
    execution, outcome = event.execution, event.outcome
    say = log.debug if outcome.is_success else log.info
    say(
        ExecutionAttempted.name,
        job=execution.job,
        instant=rfc3339(execution.instant),
        outcome=execution.disposition.value,
        progress=execution.progress.value,
        attempt=execution.attempts,
        status=outcome.status,
        failure=outcome.failure and outcome.failure.value,
        reason=outcome.reason or None,
        duration_ms=event.duration / 1000,
        next_time=None if execution.retry_time is None else rfc3339(execution.retry_time),
    )


def log_failed_attempt(event: AttemptFinished) -> None:
    """Above debug the attempts that went well, the most by far, cost nothing."""
    if event.result is not Result.COMPLETED:
        log_attempt(event)


class Forgiving(io.TextIOBase):
    """A stream whose reader may go away or whose disk may fill: a line that cannot be written is lost, nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def configure_logging(settings: Settings) -> None:
    """Structured lines on stderr."""
    rendering: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if settings.log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, settings.log_level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", Forgiving(sys.stderr))),
        cache_logger_on_first_use=True,
    )


def fail(message: str) -> None:
    """End the process with one line; used where only the process can say no."""
    print(f"taskbell: {message}", file=sys.stderr, flush=True)  # noqa: T201 - the line is for the person at the terminal
    os._exit(1)


def announce(settings: Settings) -> Callable[[], None]:
    """Print the ready line as soon as the port takes connections."""

    async def when_listening() -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection(settings.host, settings.port)
            except OSError:
                await asyncio.sleep(0.01)
                continue
            writer.close()
            print(  # noqa: T201 - the line is for the person at the terminal
                f"Taskbell {__version__} is ready at {settings.url} (gRPC and REST), store {settings.store}, "
                f"metrics at {settings.url}/metrics",
                flush=True,
            )
            return

    tasks: set[asyncio.Task[None]] = set()

    def begin() -> None:
        tasks.add(asyncio.get_running_loop().create_task(when_listening()))

    return begin


def build(settings: Settings) -> App:
    """The application of a server process."""
    configure_logging(settings)
    sys.setswitchinterval(SWITCH_INTERVAL)
    say_ready = announce(settings)

    def on_ready() -> None:
        calm_collector()
        say_ready()

    return App(settings, on_ready=on_ready)


def calm_collector() -> None:
    """Keep the garbage collector from walking all loaded code and all waiting tasks again and again.

    What is there at start stays; calls and attempts leave next to no cycles, and waiting tasks look like garbage in the
    making to a collector that counts allocations. Measured: a sixth of the CPU time of a delivery.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


_served: list[App] = []


async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
    """What a server process serves by the name `taskbell.app:asgi`."""
    if not _served:
        _served.append(build(taken_over()))
    await _served[0](scope, receive, send)

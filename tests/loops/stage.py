"""A dispatcher on a stage: services and engine are real, time moves by hand, and the handler follows a script."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from taskbell.core.errors import TaskbellError, Unavailable
from taskbell.core.instant import DAY, SECOND, Instant, Span
from taskbell.core.limits import Limits
from taskbell.core.outcome import Outcome
from taskbell.core.queue import Queue, RateLimits, RetryConfig
from taskbell.core.target import AppEngineTarget, HttpTarget, Token
from taskbell.core.task import DueKey, Task
from taskbell.engine import Settlement
from taskbell.engines.memory import MemoryEngine
from taskbell.events import AttemptFinished, Events
from taskbell.loops.attempt import Attempts
from taskbell.loops.dispatcher import Dispatcher
from taskbell.loops.lane import UNBOUNDED, Lane, Window
from taskbell.sender import Request, TokenUnavailableError
from taskbell.service.queues import QueueService
from taskbell.service.tasks import Draft, TaskService
from taskbell.testing.clock import ManualClock

PARENT = "projects/p/locations/l"
QUEUE = f"{PARENT}/queues/q"
WAIT = 10 * SECOND
"""The first backoff of the queues here."""
QUICK = RetryConfig(max_attempts=100, min_backoff=WAIT, max_backoff=300 * SECOND, max_doublings=3)


class MoodyEngine(MemoryEngine):
    """The memory engine, which cannot be reached for as many calls as it was told."""

    def __init__(self) -> None:
        """In a good mood."""
        super().__init__()
        self.refusals: dict[str, int] = defaultdict(int)
        self.reads = 0

    def _refuse(self, verb: str) -> None:
        if self.refusals[verb] > 0:
            self.refusals[verb] -= 1
            raise Unavailable("The disk is away.")

    async def create_tasks(self, tasks: Sequence[Task]) -> list[TaskbellError | None]:
        """Insert tasks, or refuse."""
        self._refuse("create_tasks")
        return await super().create_tasks(tasks)

    async def settle(self, settlements: Sequence[Settlement], now: Instant) -> list[bool]:
        """Apply outcomes, or refuse."""
        self._refuse("settle")
        return await super().settle(settlements, now)

    async def due_tasks(self, queue: str, after: DueKey | None, limit: int, max_bytes: int) -> list[Task]:
        """Read ahead, or refuse."""
        self._refuse("due_tasks")
        self.reads += 1
        return await super().due_tasks(queue, after, limit, max_bytes)


class ScriptedSender:
    """Answers by URL as told; a URL that is held answers when it is let go."""

    def __init__(self, clock: ManualClock) -> None:
        """Everything is answered with 200 until told otherwise."""
        self._clock = clock
        self.requests: list[Request] = []
        self.times: dict[str, list[Instant]] = defaultdict(list)
        self.script: dict[str, list[Outcome]] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.open = self.most_open = 0
        self.breaks = False

    def answer(self, url: str, *answers: int | Outcome) -> None:
        """The n-th request to a URL gets the n-th answer; the last one repeats."""
        self.script[url] = [Outcome(status=each) if isinstance(each, int) else each for each in answers]

    def hold(self, url: str) -> asyncio.Event:
        """Keep answers back until the event is set."""
        return self.held.setdefault(url, asyncio.Event())

    def headers(self, name: str) -> list[str | None]:
        """The values of one header over all requests."""
        return [dict(request.headers).get(name) for request in self.requests]

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def send(self, request: Request) -> Outcome:
        """One exchange."""
        if self.breaks:
            raise ValueError("a sender must never do this")
        self.requests.append(request)
        self.times[request.url].append(self._clock.now())
        answers = self.script.get(request.url, [Outcome(status=200)])
        answer = answers[min(len(self.times[request.url]), len(answers)) - 1]
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if request.url in self.held:
                await self.held[request.url].wait()
        finally:
            self.open -= 1
        return answer


class ScriptedMinter:
    """Mints texts that say what was asked for."""

    def __init__(self) -> None:
        """Tokens can be had."""
        self.refusal = ""

    async def bearer(self, token: Token, url: str) -> str:
        """One bearer."""
        if self.refusal:
            raise TokenUnavailableError(self.refusal)
        return f"{token.service_account_email} for {url}"


@dataclass
class Stage:
    """One node."""

    window: Window = field(default_factory=Window)
    limits: Limits = field(default_factory=Limits)
    engine: MoodyEngine = field(default_factory=MoodyEngine)
    clock: ManualClock = field(default_factory=ManualClock)
    max_out: int = UNBOUNDED

    def __post_init__(self) -> None:
        """Put the parts together as `app.py` does."""
        self.sender = ScriptedSender(self.clock)
        self.minter = ScriptedMinter()
        self.events = Events()
        self.finished: list[AttemptFinished] = []
        self.events.subscribe(AttemptFinished, self.finished.append)
        senders = dict.fromkeys((HttpTarget, AppEngineTarget), self.sender)
        self.using = Attempts(self.engine, senders, self.minter, self.clock, self.events)
        self.dispatcher = Dispatcher(self.using, self.clock, self.window, max_out=self.max_out)
        self.queues = QueueService(self.engine, self.dispatcher, self.clock, self.limits)
        self.tasks = TaskService(self.engine, self.dispatcher, self.clock, self.limits, self.events)

    async def create_queue(
        self,
        name: str = QUEUE,
        *,
        rate: float = 500.0,
        slots: int = 1000,
        retry_config: RetryConfig = QUICK,
    ) -> Queue:
        """A queue."""
        return await self.queues.create(PARENT, Queue(name, RateLimits(rate, 0, slots), retry_config))

    async def create(
        self,
        path: str = "",
        delay: Span = 0,
        *,
        task_id: str = "",
        queue: str = QUEUE,
        token: Token | None = None,
        retry_config: RetryConfig | None = None,
    ) -> Task:
        """A task that posts to a path of the handler; refusals are raised."""
        target = HttpTarget(f"http://h/{path}", token=token)
        name = f"{queue}/tasks/{task_id}" if task_id else ""
        task = self.tasks.prepare(queue, Draft(name, target, self.clock.now() + delay, None, retry_config))
        (refusal,) = await self.tasks.create([task])
        if refusal is not None:
            raise refusal
        return task

    def lane(self, queue: str = QUEUE) -> Lane:
        """A queue's lane."""
        return self.dispatcher._lanes[queue]

    def sent(self, path: str = "") -> int:
        """How many requests came to a path."""
        return len(self.sender.times[f"http://h/{path}"])

    async def pump(self) -> None:
        """Run the dispatcher until it has nothing to do at this instant."""
        for _ in range(10_000):
            await self.dispatcher.run_once()
            await ticks()
            if not self.dispatcher._dirty:
                return
        raise AssertionError("the dispatcher never comes to rest")

    async def advance(self, span: Span, step: Span | None = None) -> None:
        """Let time pass, looking after each step."""
        await self.pump()
        passed = 0
        while passed < span:
            self.clock.advance(min(step or span, span - passed))
            passed += step or span
            await self.pump()

    async def elapse(self, span: Span = DAY) -> None:
        """Let time pass as the dispatcher itself asks for it, from one timer to the next."""
        end = self.clock.monotonic() + span
        await self.pump()
        while self.clock.monotonic() < end:
            pause = await self.dispatcher.run_once()
            await self.advance(min(max(pause, 1), end - self.clock.monotonic()))


async def ticks(count: int = 30) -> None:
    """Let everything that can go on at this instant go on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def rows(stage: Stage) -> int:
    """How many tasks the engine has."""
    return len(await stage.engine.tasks(QUEUE, None, 10_000, bodies=False))

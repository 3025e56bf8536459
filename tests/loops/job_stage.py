"""A ticker on a stage: service and engine are real, time moves by hand, and handlers answer as told, when told."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from taskbell.core.instant import SECOND, Instant, Span
from taskbell.core.job import Execution, Job, JobRetryConfig
from taskbell.core.limits import Limits
from taskbell.core.outcome import Outcome
from taskbell.core.target import AppEngineTarget, HttpTarget, PubsubTarget
from taskbell.engine import Engine, HistoryFilter, Progression, Tick
from taskbell.engines.memory import MemoryEngine
from taskbell.events import Events, ExecutionAttempted
from taskbell.loops.attempt import Attempts
from taskbell.loops.ticker import Ticker
from taskbell.sender import Request
from taskbell.service.jobs import JobService
from taskbell.testing.clock import START, ManualClock
from tests.loops.stage import ScriptedMinter, ScriptedSender, ticks

PARENT = "projects/p/locations/l"
JOB = f"{PARENT}/jobs/j"
URL = "http://h/"
ALL = HistoryFilter()
NEVER = 10**18


class TimedSender(ScriptedSender):
    """Answers by URL as told, after as long as told."""

    def __init__(self, clock: ManualClock) -> None:
        """Everything is answered with 200 at once until told otherwise."""
        super().__init__(clock)
        self.clock = clock
        self.durations: dict[str, Span] = {}
        self.sent: dict[str, list[float]] = defaultdict(list)
        """Seconds since the test began, as time passes, whatever the wall clock says."""
        self.running: dict[str, int] = defaultdict(int)
        self.most_running: dict[str, int] = defaultdict(int)

    async def send(self, request: Request) -> Outcome:
        """One exchange."""
        url = request.url
        self.sent[url].append(self.clock.monotonic() / SECOND)
        self.running[url] += 1
        self.most_running[url] = max(self.most_running[url], self.running[url])
        try:
            answer = await super().send(request)
            if span := self.durations.get(url):
                await self.clock.wait(asyncio.Event(), span)
        finally:
            self.running[url] -= 1
        return answer


class HeldEngine(MemoryEngine):
    """The memory engine, whose commits of chosen verbs wait, in order, until they are let go; or are refused."""

    def __init__(self) -> None:
        """Everything is committed at once until told otherwise."""
        super().__init__()
        self.gates: dict[str, asyncio.Event] = {}
        self.refusals: dict[str, list[BaseException]] = defaultdict(list)
        self.calls: dict[str, int] = defaultdict(int)

    def hold(self, verb: str) -> asyncio.Event:
        """Commits of the verb wait until the event is set."""
        return self.gates.setdefault(verb, asyncio.Event())

    async def _pass(self, verb: str) -> None:
        self.calls[verb] += 1
        if verb in self.gates:
            await self.gates[verb].wait()
        if self.refusals[verb]:
            raise self.refusals[verb].pop(0)

    async def tick(self, ticks: Sequence[Tick]) -> list[bool]:
        """Apply steps, when it is time."""
        await self._pass("tick")
        return await super().tick(ticks)

    async def progress(self, progressions: Sequence[Progression]) -> list[bool]:
        """Record attempts, when it is time."""
        await self._pass("progress")
        return await super().progress(progressions)

    async def update_job(self, name: str, change: Callable[[Job], tuple[Job, Sequence[Execution]]]) -> Job:
        """Replace a job, when it is time."""
        await self._pass("update_job")
        return await super().update_job(name, change)

    async def job(self, name: str) -> Job:
        """Read a job, when it is time."""
        await self._pass("job")
        return await super().job(name)


@dataclass
class JobStage:
    """One node's Scheduler. `restart` makes another node on the same engine, as after a crash."""

    engine: Engine = field(default_factory=HeldEngine)
    clock: ManualClock = field(default_factory=ManualClock)
    catch_up: Span | None = None
    max_open: int = 1000
    delays_overlap: bool = False
    forced_header: str = "next"
    sender: TimedSender = field(init=False)

    def __post_init__(self) -> None:
        """Put the parts together as `app.py` does."""
        self.sender = TimedSender(self.clock)
        self.minter = ScriptedMinter()
        self.events = Events()
        self.attempted: list[ExecutionAttempted] = []
        self.events.subscribe(ExecutionAttempted, self.attempted.append)
        self._build()

    def _build(self) -> None:
        senders = dict.fromkeys((HttpTarget, AppEngineTarget, PubsubTarget), self.sender)
        self.using = Attempts(self.engine, senders, self.minter, self.clock, self.events)
        self.ticker = Ticker(
            self.using,
            self.clock,
            catch_up=self.catch_up,
            max_open=self.max_open,
            delays_overlap=self.delays_overlap,
        )
        self.jobs = JobService(self.engine, self.ticker, self.clock, Limits(), forced_header=self.forced_header)

    @property
    def held(self) -> HeldEngine:
        """The engine, where it is one that holds back."""
        assert isinstance(self.engine, HeldEngine)
        return self.engine

    async def create(self, schedule: str = "* * * * *", name: str = JOB, url: str = URL, **fields: Any) -> Job:
        """A job that posts to a URL."""
        values: dict[str, Any] = {"target": HttpTarget(url), "schedule": schedule, **fields}
        retry_config = values.pop("retry", {})
        job = Job(id=0, name=name, retry_config=JobRetryConfig(**retry_config), **values)
        return await self.jobs.create(PARENT, job)

    async def die(self) -> None:
        """Every task of this node ends at once, as at a SIGKILL: what was not committed is lost."""
        tasks = list(self.ticker._runs)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def restart(self, after: Span = 0) -> None:
        """Die, stay away for a while, and come back on the same store."""
        await self.die()
        self.clock.advance(after)
        self._build()
        await self.ticker.load()
        await self.pump()

    async def pump(self) -> None:
        """Let everything happen that can at this instant."""
        for _ in range(100):
            await self.ticker.run_once()
            await ticks(8)
            if self._next_alarm() > self.clock.now():
                return
        raise AssertionError("the ticker never comes to rest")

    async def advance(self, span: Span) -> None:
        """Let time pass, from one thing that is waited for to the next."""
        end = self.clock.monotonic() + span
        await self.pump()
        while (left := end - self.clock.monotonic()) > 0:
            alarm = max(1, self._next_alarm() - self.clock.now())
            self.clock.advance(min(left, alarm, *self.clock.waits[:1]))
            await ticks(8)
            await self.pump()

    def _next_alarm(self) -> Instant:
        heap = self.ticker._heap
        while heap and self.ticker._is_void(heap[0]):
            heap.pop(0)
            heap.sort()
        return heap[0].time if heap else NEVER

    async def rows(self, name: str = JOB) -> list[Execution]:
        """A job's history, oldest first."""
        return (await self.engine.executions(name, None, 1_000_000, ALL))[::-1]

    async def told(self, name: str = JOB) -> list[tuple[float, str, str]]:
        """The same in short: seconds since `START`, what became of the instant, how it went on."""
        rows = await self.rows(name)
        return [((row.instant - START) / SECOND, row.disposition.value, row.progress.value) for row in rows]

    def sent(self, url: str = URL) -> list[float]:
        """When requests came to a URL: seconds since the test began."""
        return self.sender.sent[url]

    def header(self, name: str) -> list[str | None]:
        """The values of one header over all requests."""
        return self.sender.headers(name)


async def change(stage: JobStage, verb: str) -> None:
    """Pause, resume, delete, or update without changing a thing."""
    if verb == "update":
        await stage.jobs.update(JOB, lambda job: job)
    else:
        await getattr(stage.jobs, verb)(JOB)


FIRED = ("fired", "succeeded")
OVERLAP = ("skipped_overlap", "none")
PAUSED = ("skipped_paused", "none")
MISSED = ("missed", "none")
SUPERSEDED = ("superseded", "none")
"""What `JobStage.told` says."""

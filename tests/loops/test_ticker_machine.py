"""Random callers, handlers and commits against the ticker: whatever the order, nothing is lost, doubled or left open.

Commits happen when the test says so, in the order in which they were asked for, and are answered in that order: what
an engine with group commit promises.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskbell.core.errors import TaskbellError
from taskbell.core.execution import execution_key
from taskbell.core.instant import MINUTE, SECOND
from taskbell.core.job import STARTED, Disposition, Execution, Job, Progress
from taskbell.core.outcome import Outcome
from taskbell.engine import Progression, Tick
from taskbell.engines.memory import MemoryEngine
from taskbell.sender import Request
from tests.loops.job_stage import JOB, JobStage, TimedSender
from tests.loops.stage import ticks


class QueuedEngine(MemoryEngine):
    """The memory engine behind a queue of commits."""

    def __init__(self) -> None:
        """Commits at once until told to wait."""
        super().__init__()
        self.waits = False
        self._queue: deque[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = deque()

    async def _commit(self, verb: Callable[[], Awaitable[Any]]) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((verb, answer))
        if not self.waits:
            await self.commit()
        return await answer

    async def commit(self, count: int = 1_000_000) -> None:
        """Carry out the oldest verbs, and only then answer them, as a group commit does."""
        group = [self._queue.popleft() for _ in range(min(count, len(self._queue)))]
        answers: list[Callable[[], None]] = []
        for verb, answer in group:
            if answer.cancelled():
                continue
            try:
                result = await verb()
            except TaskbellError as refusal:
                answers.append(lambda answer=answer, refusal=refusal: answer.set_exception(refusal))  # type: ignore[misc]
            else:
                answers.append(lambda answer=answer, result=result: answer.set_result(result))  # type: ignore[misc]
        for tell in answers:
            # Nobody goes on before those whose answers were given earlier.
            asyncio.get_running_loop().call_soon(tell)

    async def create_job(self, job: Job) -> None:
        """Create."""
        await self._commit(lambda: super(QueuedEngine, self).create_job(job))

    async def update_job(self, name: str, change: Callable[[Job], tuple[Job, Sequence[Execution]]]) -> Job:
        """Update."""
        updated: Job = await self._commit(lambda: super(QueuedEngine, self).update_job(name, change))
        return updated

    async def delete_job(self, name: str, now: int) -> Job:
        """Delete."""
        deleted: Job = await self._commit(lambda: super(QueuedEngine, self).delete_job(name, now))
        return deleted

    async def tick(self, ticks: Sequence[Tick]) -> list[bool]:
        """Apply steps."""
        applied: list[bool] = await self._commit(lambda: super(QueuedEngine, self).tick(ticks))
        return applied

    async def force(self, execution: Execution) -> bool:
        """Insert a forced execution."""
        inserted: bool = await self._commit(lambda: super(QueuedEngine, self).force(execution))
        return inserted

    async def progress(self, progressions: Sequence[Progression]) -> list[bool]:
        """Record."""
        recorded: list[bool] = await self._commit(lambda: super(QueuedEngine, self).progress(progressions))
        return recorded


class WatchfulSender(TimedSender):
    """Handlers of every kind; each request is held against what callers were told."""

    def __init__(self, stage: JobStage, chance: random.Random) -> None:
        """`chance` decides how requests go."""
        super().__init__(stage.clock)
        self.chance = chance
        self.is_paused = self.is_deleted = False
        self.generation = 0
        """Grows with each creation: the last attempt of a deleted job may be out beside the first of the new one."""
        self.scheduled: Counter[int] = Counter()
        self.violations: list[str] = []

    async def send(self, request: Request) -> Outcome:
        """One exchange."""
        is_forced, generation = "X-CloudScheduler-ScheduleTime" not in dict(request.headers), self.generation
        self.scheduled[generation] += not is_forced
        if self.is_deleted:
            self.violations.append("sent after the delete was acknowledged")
        if self.is_paused and not is_forced:
            self.violations.append("sent after the pause was acknowledged")
        if self.scheduled[generation] > 1:
            self.violations.append("two scheduled executions at once")
        self.durations[request.url] = self.chance.choice([0, 0, SECOND, 25 * SECOND, 130 * SECOND])
        try:
            await super().send(request)
        finally:
            self.scheduled[generation] -= not is_forced
        return Outcome(status=self.chance.choice([200, 200, 500]))


class Machine:
    """One run."""

    def __init__(self, seed: int, *, edits_schedules: bool, delays_overlap: bool) -> None:
        """`edits_schedules`: else each minute must have its row."""
        self.chance = random.Random(seed)
        self.edits_schedules = edits_schedules
        self.engine = QueuedEngine()
        self.stage = JobStage(self.engine, forced_header="omit", max_open=2, delays_overlap=delays_overlap)
        self.sender = self.stage.sender = WatchfulSender(self.stage, self.chance)
        self.stage._build()
        self.calls: set[asyncio.Task[None]] = set()
        self.created_time = self.resumes = 0

    async def play(self, steps: int) -> None:
        """Take random steps, then let everything end."""
        await self.create()
        self.stage.ticker.start()
        for _ in range(steps):
            step = self.chance.choice([self.call, self.call, self.commit, self.commit, self.time, self.time, self.hold])
            await step()
            await ticks(self.chance.choice([0, 1, 2, 3, 20]))
        self.engine.waits = False
        await self.engine.commit()
        for _ in range(60):
            await self.pass_time(10 * SECOND)
        await asyncio.gather(*self.calls)
        await self.check()
        await self.stage.ticker.stop()

    async def create(self) -> None:
        """A job each minute that is tried again."""
        self.sender.is_paused = self.sender.is_deleted = False
        self.sender.generation += 1
        self.created_time = self.stage.clock.now()
        await self.stage.create(retry={"retry_count": 3, "min_backoff": 20 * SECOND})

    async def call(self) -> None:
        """A caller begins a call."""
        verb = self.chance.choice([self.pause, self.resume, self.update, self.update, self.run, self.replace])
        task = asyncio.create_task(self.forgiving(verb))
        self.calls.add(task)

    async def forgiving(self, verb: Callable[[], Awaitable[None]]) -> None:
        """A call that may be refused."""
        try:
            await verb()
        except TaskbellError:
            return

    async def pause(self) -> None:
        """Nothing scheduled is sent from the answer on, until somebody asks for a resume."""
        resumes = self.resumes
        await self.stage.jobs.pause(JOB)
        self.sender.is_paused = self.resumes == resumes

    async def resume(self) -> None:
        """From the request on it may be sent again."""
        self.resumes += 1
        self.sender.is_paused = False
        await self.stage.jobs.resume(JOB)

    async def update(self) -> None:
        """An edit."""
        schedule = self.chance.choice(["* * * * *", "*/2 * * * *", "*/3 * * * *"])
        if self.edits_schedules:
            await self.stage.jobs.update(JOB, lambda job: replace(job, schedule=schedule))
        else:
            await self.stage.jobs.update(JOB, lambda job: replace(job, description=schedule))

    async def run(self) -> None:
        """By force."""
        await self.stage.jobs.run(JOB)

    async def replace(self) -> None:
        """Delete, and create again under the name; not while other calls are under way."""
        if self.engine.waits or self.chance.random() < 0.7:
            return
        self.resumes += 1
        await self.stage.jobs.delete(JOB)
        self.sender.is_deleted = True
        await self.stage.ticker.clock.wait(asyncio.Event(), self.chance.choice([0, 30 * SECOND]))
        await self.create()

    async def commit(self) -> None:
        """Some of what waits is committed."""
        await self.engine.commit(self.chance.choice([1, 1, 2, 5]))

    async def hold(self) -> None:
        """Commits take their time, or not."""
        self.engine.waits = not self.engine.waits
        if not self.engine.waits:
            await self.engine.commit()

    async def time(self) -> None:
        """Time passes."""
        await self.pass_time(self.chance.choice([1, SECOND, 7 * SECOND, 20 * SECOND, 45 * SECOND]))

    async def pass_time(self, span: int) -> None:
        """No timer is passed over."""
        while span > 0:
            step = min([span, *self.stage.clock.waits[:1]])
            self.stage.clock.advance(max(1, step))
            span -= max(1, step)
            await ticks(12)

    async def check(self) -> None:
        """What the store says in the end."""
        assert self.sender.violations == []
        now = self.stage.clock.now()
        running = {execution_key(run.execution) for run in self.stage.ticker._runs.values()}
        assert {execution_key(each) for each in await self.engine.open_executions()} == running
        sent = {dict(request.headers)["Idempotency-Key"] for request in self.sender.requests}
        try:
            job, rows = await self.engine.job(JOB), await self.stage.rows()
        except TaskbellError:
            return
        timer = self.stage.ticker._timers[JOB]
        assert timer.is_as(job)
        assert job.next_time is not None
        assert job.next_time > now or (timer.is_waiting and timer.is_open)
        for row in rows:
            was_attempted = row.attempts > 0 or row.progress is Progress.OPEN
            assert (execution_key(row) in sent) == was_attempted or row.progress is Progress.CANCELLED, row
            assert row.disposition in STARTED or row.attempts == 0
        scheduled = [row.instant for row in rows if row.disposition is not Disposition.FORCED]
        if not self.edits_schedules:
            first = self.created_time // MINUTE * MINUTE + MINUTE
            assert scheduled == list(range(first, min(now + 1, job.next_time), MINUTE))


@pytest.mark.parametrize(
    ("edits_schedules", "delays_overlap"), [(False, False), (True, False), (False, True), (True, True)]
)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_the_order(seed: int, *, edits_schedules: bool, delays_overlap: bool) -> None:
    """One run for each seed."""
    asyncio.run(Machine(seed, edits_schedules=edits_schedules, delays_overlap=delays_overlap).play(120))

"""A year of 200 jobs on a clock that is moved by hand, checked row by row; and the same with a node that keeps dying.

The zones between them change their clocks in both hemispheres, by an hour and by half of one, at midnight too.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from itertools import product
from typing import Any, TypeVar

import pytest

from taskbell.core.execution import execution_key
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND, Instant
from taskbell.core.job import STARTED, Disposition, Execution, Job, Progress
from taskbell.core.outcome import Outcome
from taskbell.core.schedule import Schedule, parse_schedule
from taskbell.engine import Progression, Tick
from taskbell.engines.memory import MemoryEngine
from taskbell.sender import Request
from taskbell.testing.clock import ManualClock
from tests.loops.job_stage import PARENT, JobStage, TimedSender

BEGIN: Instant = 1_798_761_600 * SECOND + 7
"""2027-01-01T00:00:00.000007Z."""
YEAR = 365 * DAY

SCHEDULES = [
    "30 2 * * 0,3",
    "0 9 * * mon-fri",
    "0 0 * * sun",
    "15 10 1,15 * *",
    "*/30 1-3 * 3,4,10,11 sun",
    "0,30 */12 * 3,10 *",
    "0 12 13 * FRI",
    "59 23 31 * *",
    "30 1 1-7 11 *",
    "5 0 * * *",
    "0 0 1 1 *",
    "20 2 28-31 3 *",
    "0 */8 * * 6",
    "every saturday 02:30",
    "every day 00:00",
    "1st,third mon,wed of march 17:00",
    "first sunday of month 02:30",
    "2nd sunday of mar,nov 02:00",
    "1,15,31 of month 00:30",
    "5th monday of quarter 09:00",
    "every 12 hours synchronized",
    "every 300 minutes from 22:00 to 03:30",
    "every 24 hours",
    "every 50 hours",
    "0 3 * 1-2 *",
]
ZONES = [
    "UTC",
    "America/New_York",
    "Europe/Paris",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Asia/Kolkata",
    "Africa/Cairo",
    "Pacific/Auckland",
]
T = TypeVar("T")


def jobs() -> dict[str, Schedule]:
    """Two hundred jobs by name."""
    pairs = enumerate(product(SCHEDULES, ZONES))
    return {f"{PARENT}/jobs/j{number}": parse_schedule(text, zone) for number, (text, zone) in pairs}


def planned(schedule: Schedule, until: Instant) -> list[Instant]:
    """What the schedule alone says, of intervals as if every run were instant."""
    found: list[Instant] = []
    instant = BEGIN
    while True:
        following = schedule.next_after(instant) if schedule.interval is None else instant + schedule.interval
        if following is None or following > until:
            return found
        instant = following
        found.append(instant)


def url_of(name: str) -> str:
    """Where a job posts to."""
    return f"http://h/{name.rpartition('/')[2]}"


async def create_jobs(stage: JobStage, schedules: dict[str, Schedule], **fields: Any) -> None:
    """All of them, at one instant."""
    for name, schedule in schedules.items():
        await stage.create(schedule.text, name, url_of(name), time_zone=schedule.time_zone, **fields)


async def test_a_year_row_by_row() -> None:
    """Each instant of each job is fired, on time, once; each execution was sent once."""
    schedules = jobs()
    stage = JobStage(MemoryEngine(), ManualClock(BEGIN))
    await create_jobs(stage, schedules)
    await stage.advance(YEAR)

    total = 0
    for name, schedule in schedules.items():
        rows = await stage.rows(name)
        expected = planned(schedule, BEGIN + YEAR)
        assert [row.instant for row in rows] == expected, (schedule.text, schedule.time_zone)
        assert {(row.disposition, row.progress, row.attempts) for row in rows} <= {
            (Disposition.FIRED, Progress.SUCCEEDED, 1)
        }
        assert [row.start_time for row in rows] == expected
        assert stage.sender.times[url_of(name)] == expected
        total += len(rows)
    assert len(schedules) == 200
    assert total > 10_000
    assert len(set(stage.header("Idempotency-Key"))) == len(stage.sender.requests) == total


class Killed(BaseException):
    """The process was killed while it waited for its store."""


class MortalEngine(MemoryEngine):
    """The memory engine of a node that dies now and then: just before a commit, or after it, before it is told so."""

    def __init__(self, chance: random.Random) -> None:
        """`chance` decides where it dies."""
        super().__init__()
        self.chance = chance
        self.is_dead = self.is_immortal = False

    async def _mortal(self, commit: Callable[[], Coroutine[Any, Any, T]]) -> T:
        fate = 0.5 if self.is_immortal else self.chance.random()
        if self.is_dead or fate < 0.004:
            self.is_dead = True
            raise Killed
        answer = await commit()
        if fate > 0.996:
            self.is_dead = True
            raise Killed
        return answer

    async def tick(self, ticks: Sequence[Tick]) -> list[bool]:
        """Apply steps, or die."""
        return await self._mortal(lambda: super(MortalEngine, self).tick(ticks))

    async def progress(self, progressions: Sequence[Progression]) -> list[bool]:
        """Record attempts, or die."""
        return await self._mortal(lambda: super(MortalEngine, self).progress(progressions))


class MoodySender(TimedSender):
    """Handlers that mostly answer at once; some take their time, some fail."""

    def __init__(self, clock: ManualClock, chance: random.Random) -> None:
        """`chance` decides how each request goes."""
        super().__init__(clock)
        self.chance = chance
        self.is_calm = False

    async def send(self, request: Request) -> Outcome:
        """One exchange."""
        if self.is_calm:
            self.durations[request.url] = 0
            return await super().send(request)
        fate = self.chance.random()
        self.durations[request.url] = 40 * MINUTE if fate < 0.01 else 3 * SECOND if fate < 0.3 else 0
        answer = await super().send(request)
        return Outcome(status=500) if self.chance.random() < 0.05 else answer


async def live(stage: JobStage, engine: MortalEngine, chance: random.Random) -> int:
    """Let a year pass, life after life; return how many there were."""
    lives, end = 1, stage.clock.monotonic() + YEAR
    next_death = chance.randrange(4 * DAY)
    while (left := end - stage.clock.monotonic()) > 0:
        with contextlib.suppress(Killed):
            await stage.advance(min(left, next_death))
        if engine.is_dead or left > next_death:
            lives += 1
            await come_back(stage, engine, chance)
        next_death = chance.randrange(4 * DAY)
    # What is open may end; what starts from now on, up to the very last instant, ends at once.
    engine.is_immortal = True
    assert isinstance(stage.sender, MoodySender)
    stage.sender.is_calm = True
    await stage.advance(2 * HOUR)
    return lives


async def come_back(stage: JobStage, engine: MortalEngine, chance: random.Random) -> None:
    """Start again after a while, and again if it dies while it starts."""
    away = chance.choice([0, 20 * SECOND, 10 * MINUTE, 3 * HOUR, 2 * DAY])
    while True:
        engine.is_dead = False
        try:
            await stage.restart(away)
        except Killed:
            away = 0
        if not engine.is_dead:
            return


SEEDS = [1, 286102278, random.SystemRandom().randrange(2**32)]


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_year_with_a_node_that_keeps_dying(seed: int) -> None:
    """Each instant of each job has one row; each execution is one, however often it was sent; none is left open.

    The seed is in the test's name; one that fails goes into `SEEDS`.
    """
    chance = random.Random(seed)
    schedules = jobs()
    engine = MortalEngine(chance)
    stage = JobStage(engine, ManualClock(BEGIN))
    stage.sender = MoodySender(stage.clock, chance)
    stage._build()
    await create_jobs(stage, schedules, retry={"retry_count": 2, "min_backoff": MINUTE})
    lives = await live(stage, engine, chance)

    assert lives > 100
    assert await engine.open_executions() == []
    sent = Counter(stage.header("Idempotency-Key"))
    started = 0
    for name, schedule in schedules.items():
        rows = await stage.rows(name)
        check_rows(await engine.job(name), schedule, rows, stage.clock.now())
        for row in rows:
            count = sent[execution_key(row)]
            # A node may die between a request and its record, and then between the next one and its own.
            assert count >= row.attempts, row
            assert (count > 0) == (row.disposition in STARTED), row
            started += row.disposition in STARTED
    assert len(sent) == started


def check_rows(job: Job, schedule: Schedule, rows: list[Execution], now: Instant) -> None:
    """Every instant up to now has one row, in order, and the next one follows."""
    instants = [row.instant for row in rows]
    if schedule.interval is None:
        assert instants == planned(schedule, now), (schedule.text, schedule.time_zone)
        assert job.next_time == schedule.next_after(now)
    else:
        ends = [row.end_time or row.instant for row in rows]
        # From the end of a run; where none started, from the moment at which the node saw that it would not.
        waits = [instant - end for end, instant in zip([BEGIN, *ends], instants, strict=False)]
        exact = [wait for row, wait in zip(rows[:-1], waits[1:], strict=True) if row.disposition in STARTED]
        assert set(exact) <= {schedule.interval}
        assert all(wait >= schedule.interval for wait in waits)
        assert job.next_time is not None
        assert job.next_time > now
    assert {row.disposition for row in rows} <= {
        Disposition.FIRED,
        Disposition.LATE,
        Disposition.MISSED,
        Disposition.SKIPPED_OVERLAP,
    }
    for row in rows:
        assert (row.start_time is not None) == (row.disposition in STARTED)
        if row.disposition is Disposition.LATE:
            assert row.start_time is not None
            following = schedule.next_after(row.instant)
            assert following is None or row.start_time < following
            assert row.start_time - row.instant <= HOUR

"""Jobs without a server around them, through the engine's own contract.

- `python -m bench.jobs_alone herd STORE COUNT URL SECONDS` leaves jobs that all fire on the minute, the first time at
  that Unix time;
- `... sparse STORE COUNT` leaves jobs of mixed schedules of which only a handful fire within some hours;
- `... hour STORE COUNT` runs the whole application on such a store through an hour of a manual clock and prints the CPU
  seconds that it took and the executions that came of it.

The API would take the same jobs, but far slower.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain, count, islice, repeat

import uvloop

from taskbell.app import App, calm_collector, configure_logging
from taskbell.core.instant import HOUR, SECOND, Instant
from taskbell.core.job import Job
from taskbell.core.job_headers import stored_job_headers
from taskbell.core.schedule import parse_schedule
from taskbell.core.target import HttpTarget
from taskbell.engine import Engine, HistoryFilter
from taskbell.engines import open_engine
from taskbell.settings import Settings
from taskbell.testing.clock import ManualClock

PARENT = "projects/bench/locations/here"
BODY = b"a" * 100
# Port 9 is discard: a job that fires by mistake reaches nobody.
NOWHERE = "http://127.0.0.1:9/waiting"
CREATES = 1000
HANDFUL = 10
FIRES_AN_HOUR = 4
# What does not fire for so long does not fire while the benchmark runs.
FAR = 6 * HOUR
LOOPS = 3
EVERY_MINUTE = ("* * * * *", "Etc/UTC")
EVERY_QUARTER = ("*/15 * * * *", "Etc/UTC")
ZONES = ("Etc/UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Sydney")
KINDS = (
    "{minute} {hour} * * *",
    "{minute} {hour} * * MON-FRI",
    "{minute} {hour} 1,15 * *",
    "1st,3rd tuesday of month {hour:02}:{minute:02}",
)


def now_us() -> Instant:
    """Now, as the engine counts."""
    return time.time_ns() // 1000


def make_job(engine: Engine, number: int, url: str, schedule: tuple[str, str], next_time: Instant) -> Job:
    """A job as the service would store it."""
    now = now_us()
    target = HttpTarget(url, body=BODY)
    target = replace(target, headers=stored_job_headers(target))
    name = f"{PARENT}/jobs/job-{number:07}"
    job = Job(engine.next_id(now), name, target, *schedule, user_update_time=now, next_time=next_time)
    return replace(job, attempt_deadline=180 * SECOND)


async def create(engine: Engine, jobs: Iterable[Job]) -> None:
    """Create jobs, many at once so that commits are shared."""
    waiting = iter(jobs)
    while some := list(islice(waiting, CREATES)):
        await asyncio.gather(*(engine.create_job(job) for job in some))


async def herd(engine: Engine, size: int, url: str, instant: Instant) -> None:
    """Jobs that all fire every minute."""
    await create(engine, (make_job(engine, number, url, EVERY_MINUTE, instant) for number in range(size)))


@cache
def next_time(schedule: str, zone: str, now: Instant) -> Instant:
    """When a schedule fires next; it always does."""
    found = parse_schedule(schedule, zone).next_after(now)
    assert found is not None
    return found


def far_schedules(now: Instant) -> Iterator[tuple[str, str]]:
    """Schedules and zones, most of them distinct for a while, that do not fire soon."""
    for number in count():
        day, turn = divmod(number, 1440)
        schedule = KINDS[day % len(KINDS)].format(hour=turn // 60, minute=turn % 60)
        zone = ZONES[day // len(KINDS) % len(ZONES)]
        if next_time(schedule, zone, now) > now + FAR:
            yield schedule, zone


async def sparse(engine: Engine, size: int) -> None:
    """Jobs of which a handful fire four times an hour and all others later."""
    now = now_us()
    schedules = chain(repeat(EVERY_QUARTER, HANDFUL), islice(far_schedules(now), size - HANDFUL))
    await create(
        engine,
        (
            make_job(engine, number, NOWHERE, schedule, next_time(*schedule, now))
            for number, schedule in enumerate(schedules)
        ),
    )


async def hour(store: str, size: int) -> None:
    """Print the CPU seconds of an hour, and how many executions it had."""
    settings = Settings(store=store)
    configure_logging(settings)
    clock = ManualClock(now_us())
    # Instants that came between the filling of the store and now have their rows too, and are not of this hour.
    of_the_hour = HistoryFilter(since=clock.now())
    app = App(settings, clock)
    await app.start()
    calm_collector()
    begin = time.process_time()
    for _ in range(HOUR // SECOND):
        clock.advance(SECOND)
        # Until every loop has done its piece of work and waits again.
        while len(clock.waits) < LOOPS:  # noqa: ASYNC110 - a turn of the event loop is what is waited for
            await asyncio.sleep(0)
    spent = time.process_time() - begin
    fired = 0
    for number in range(min(HANDFUL, size)):
        fired += len(await app.engine.executions(f"{PARENT}/jobs/job-{number:07}", None, 100, of_the_hour))
    # The server's own way out waits for attempts on the clock, which stands still from here on.
    await app.engine.close()
    print(spent, fired, flush=True)


async def fill(mode: str, store: str, size: int, rest: list[str]) -> None:
    """Fill a store in one of the two ways."""
    engine = await open_engine(store)
    try:
        await (herd(engine, size, rest[0], int(rest[1]) * SECOND) if mode == "herd" else sparse(engine, size))
    finally:
        await engine.close()


if __name__ == "__main__":
    _, mode, store, size, *rest = sys.argv
    uvloop.run(hour(store, int(size)) if mode == "hour" else fill(mode, store, int(size), rest))

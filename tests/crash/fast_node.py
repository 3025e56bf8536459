"""A whole node without its port, on a clock that runs fast: a minute passes in half a second.

    python -m tests.crash.fast_node STORE URL EPOCH LIFE

It creates its jobs in its first life, pauses one in each later one, and says so on stdout once that is acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
import time

from taskbell.app import App
from taskbell.core.instant import SECOND, Instant, Span
from taskbell.core.job import Job, JobRetryConfig
from taskbell.core.target import HttpTarget
from taskbell.settings import Settings

RATE = 120
PARENT = "projects/p/locations/l"
SCHEDULES = ["* * * * *", "*/2 * * * *", "* * * * *", "every minute", "every 2 minutes synchronized"]
JOBS = 30
BEGIN: Instant = 1_800_000_000 * SECOND


class FastClock:
    """A `taskbell.clock.Clock` whose time passes `RATE` times as fast as ours since `epoch`, over restarts too."""

    def __init__(self, epoch: float) -> None:
        """`epoch` is a `time.time()`."""
        self._epoch = epoch

    def now(self) -> Instant:
        """Wall time."""
        return BEGIN + round((time.time() - self._epoch) * RATE * SECOND)

    def monotonic(self) -> Span:
        """Monotonic time."""
        return round(time.monotonic() * RATE * SECOND)

    async def wait(self, event: asyncio.Event, timeout: Span) -> None:
        """Return when the event is set or the timeout has passed."""
        handle = asyncio.get_running_loop().call_later(max(0, timeout) / RATE / SECOND, event.set)
        try:
            await event.wait()
        finally:
            handle.cancel()


def job_name(number: int) -> str:
    """The name of a job."""
    return f"{PARENT}/jobs/j{number}"


async def create_jobs(app: App, url: str) -> None:
    """All of them: some fail a few times, none takes long."""
    for number in range(JOBS):
        job = Job(
            id=0,
            name=job_name(number),
            target=HttpTarget(f"{url}/{number}"),
            schedule=SCHEDULES[number % len(SCHEDULES)],
            retry_config=JobRetryConfig(2, min_backoff=10 * SECOND),
        )
        await app.services.jobs.create(PARENT, job)


async def live(store: str, url: str, epoch: float, life: int) -> None:
    """Until killed."""
    app = App(Settings(store=f"sqlite:{store}"), FastClock(epoch))
    await app.start()
    if life == 0:
        await create_jobs(app, url)
    print("ready", flush=True)  # noqa: T201 - the test reads it
    if life > 0:
        await app.services.jobs.pause(job_name(life))
        print(f"paused {life} {time.time()}", flush=True)  # noqa: T201 - the test reads it
    await asyncio.to_thread(sys.stdin.read)
    await app.stop()


if __name__ == "__main__":
    asyncio.run(live(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))

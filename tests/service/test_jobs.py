"""The job service by itself: what it stores, and what it tells the ticker after each commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from taskbell.core.errors import FailedPrecondition, InvalidArgument, NotFound
from taskbell.core.instant import HOUR, MILLISECOND, MINUTE, SECOND
from taskbell.core.job import Disposition, Execution, Job, JobRetryConfig, JobState
from taskbell.core.limits import Limits
from taskbell.core.target import AppEngineTarget, HttpTarget, PubsubTarget, Routing
from taskbell.core.task import Status
from taskbell.engine import HistoryFilter, Tick
from taskbell.engines.memory import MemoryEngine
from taskbell.service.jobs import JobService
from taskbell.testing.clock import START, ManualClock

PARENT = "projects/p/locations/l"
JOB = f"{PARENT}/jobs/j"


class RecordingTicker:
    """A `Scheduling` that starts nothing and remembers what it was told."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.told: list[tuple[str, Job]] = []
        self.runs: list[Execution] = []

    def job_changed(self, job: Job) -> None:
        """Created or changed."""
        self.told.append(("changed", job))

    def job_deleted(self, job: Job) -> None:
        """Deleted."""
        self.told.append(("deleted", job))

    def run(self, job: Job, execution: Execution) -> None:
        """Run by force."""
        self.told.append(("run", job))
        self.runs.append(execution)

    def current(self, job: Job) -> Job:
        """The job as it stands."""
        return job


class Desk:
    """A service with nothing behind it but the memory engine."""

    def __init__(self, forced_header: str = "next") -> None:
        """An empty store."""
        self.engine = MemoryEngine()
        self.clock = ManualClock()
        self.ticker = RecordingTicker()
        self.jobs = JobService(self.engine, self.ticker, self.clock, Limits(), forced_header=forced_header)

    async def create(self, **fields: Any) -> Job:
        """A job."""
        values: dict[str, Any] = {"name": JOB, "target": HttpTarget("http://h/"), "schedule": "0 9 * * *", **fields}
        return await self.jobs.create(PARENT, Job(**{"id": 0, **values}))

    async def rows(self) -> list[Execution]:
        """The job's history, newest first."""
        return await self.jobs.history(JOB, None, 1000, HistoryFilter())


@pytest.fixture
def desk() -> Desk:
    """A service."""
    return Desk()


async def test_a_job_is_stored_whole_and_the_ticker_told(desk: Desk) -> None:
    """Enabled, with an id, its next instant and its defaults, whatever was sent for them."""
    job = await desk.create(id=99, state=JobState.PAUSED, next_time=1)

    assert (job.state, job.next_time, job.user_update_time) == (JobState.ENABLED, START + HOUR, START)
    assert job.attempt_deadline == 3 * MINUTE
    assert job.id > 99
    assert await desk.jobs.get(JOB) == job
    assert desk.ticker.told == [("changed", job)]


@pytest.mark.parametrize(
    ("target", "sent", "stored"),
    [
        (HttpTarget("http://h/"), None, 3 * MINUTE),
        (HttpTarget("http://h/"), 0, 3 * MINUTE),
        (HttpTarget("http://h/"), 15 * SECOND + 1, 15 * SECOND),
        (HttpTarget("http://h/"), 15 * SECOND + MILLISECOND, 15 * SECOND + MILLISECOND),
        (AppEngineTarget(), None, None),
        (AppEngineTarget(), 0, None),
        (AppEngineTarget(), 24 * HOUR, 24 * HOUR),
        (PubsubTarget("projects/p/topics/t", b"x"), None, None),
        (PubsubTarget("projects/p/topics/t", b"x"), SECOND, SECOND),
    ],
)
async def test_attempt_deadlines(desk: Desk, target: Any, sent: int | None, stored: int | None) -> None:
    """A default for HTTP, to the millisecond; App Engine's is its service's, Pub/Sub's is ignored."""
    assert (await desk.create(target=target, attempt_deadline=sent)).attempt_deadline == stored


async def test_app_engine_routing_shows_its_host(desk: Desk) -> None:
    """And a relative URI has its slash."""
    job = await desk.create(target=AppEngineTarget("", routing=Routing("s")))

    assert isinstance(job.target, AppEngineTarget)
    assert (job.target.relative_uri, job.target.routing) == ("/", Routing("s", host="s.p.appspot.com"))


async def test_an_update_keeps_what_is_not_the_callers(desk: Desk) -> None:
    """Identity, state and runs; the revision grows, so that timers set before are void."""
    created = await desk.create()
    await desk.jobs.pause(JOB)
    ran = Status(13, "INTERNAL")
    await desk.engine.update_job(JOB, lambda job: (replace(job, last_attempt_time=START - 1, status=ran), ()))
    desk.clock.advance(SECOND)
    forged = Job(1, "other", HttpTarget("http://h/new"), "0 9 * * *", state=JobState.ENABLED, revision=77)
    job = await desk.jobs.update(JOB, lambda _: forged)

    assert job == replace(
        created,
        target=job.target,
        state=JobState.PAUSED,
        revision=created.revision + 2,
        user_update_time=START + SECOND,
        last_attempt_time=START - 1,
        status=ran,
    )
    assert desk.ticker.told[-1] == ("changed", job)


@pytest.mark.parametrize(
    ("change", "rows", "next_time"),
    [
        ({"description": "new"}, [], HOUR),
        ({"time_zone": "Etc/UTC"}, [], HOUR),
        ({"schedule": "00 9 * * *"}, [], HOUR),
        ({"schedule": "0 10 * * *"}, [HOUR], 2 * HOUR),
        ({"time_zone": "Asia/Kolkata"}, [HOUR], 19 * HOUR + 30 * MINUTE),
        ({"schedule": "every 10 minutes"}, [HOUR], 10 * MINUTE),
    ],
)
async def test_what_an_edit_does_to_the_next_instant(
    desk: Desk, change: dict[str, str], rows: list[int], next_time: int
) -> None:
    """It stays unless schedule and zone together say another; then the one that is dropped has its row."""
    await desk.create()
    job = await desk.jobs.update(JOB, lambda stored: replace(stored, **change))  # type: ignore[arg-type]

    assert job.next_time == START + next_time
    assert [(row.instant, row.disposition) for row in await desk.rows()] == [
        (START + instant, Disposition.SUPERSEDED) for instant in rows
    ]


async def test_an_interval_begins_again_with_every_edit(desk: Desk) -> None:
    """Nothing was promised for the time that was planned; what had come has its row."""
    await desk.create(schedule="every 10 minutes")
    desk.clock.advance(9 * MINUTE)
    assert (await desk.jobs.update(JOB, lambda job: job)).next_time == START + 19 * MINUTE
    assert await desk.rows() == []
    desk.clock.advance(11 * MINUTE)
    assert (await desk.jobs.update(JOB, lambda job: job)).next_time == START + 30 * MINUTE
    assert [row.disposition for row in await desk.rows()] == [Disposition.SUPERSEDED]


async def test_a_resume_goes_on_with_an_interval(desk: Desk) -> None:
    """What was planned stands; what came meanwhile was skipped; a run that was cut off begins another wait."""
    await desk.create(schedule="every 10 minutes")
    await desk.jobs.pause(JOB)
    desk.clock.advance(5 * MINUTE)
    assert (await desk.jobs.resume(JOB)).next_time == START + 10 * MINUTE
    await desk.jobs.pause(JOB)
    desk.clock.advance(6 * MINUTE)
    assert (await desk.jobs.resume(JOB)).next_time == START + 21 * MINUTE
    assert [row.disposition for row in await desk.rows()] == [Disposition.SKIPPED_PAUSED]
    await desk.engine.tick([Tick(await desk.jobs.get(JOB), (), None)])
    await desk.jobs.pause(JOB)
    assert (await desk.jobs.resume(JOB)).next_time == START + 21 * MINUTE


async def test_refusals_store_nothing_and_tell_nobody(desk: Desk) -> None:
    """Of a create, an update, and of verbs in the wrong state."""
    await desk.create()
    told = len(desk.ticker.told)
    with pytest.raises(InvalidArgument):
        await desk.jobs.update(JOB, lambda job: replace(job, retry_config=JobRetryConfig(6)))
    with pytest.raises(FailedPrecondition):
        await desk.jobs.resume(JOB)
    with pytest.raises(InvalidArgument):
        await desk.create(name=f"{PARENT}/jobs/k", schedule="soon")
    with pytest.raises(NotFound):
        await desk.jobs.get(f"{PARENT}/jobs/k")

    assert len(desk.ticker.told) == told


async def test_a_run_takes_the_next_free_instant(desk: Desk) -> None:
    """However many come at once; a deleted job has none."""
    await desk.create()
    jobs = [await desk.jobs.run(JOB) for _ in range(3)]

    assert [each.instant for each in desk.ticker.runs] == [START, START + 1, START + 2]
    assert {each.header_time for each in desk.ticker.runs} == {START + HOUR}
    assert {job.status for job in jobs} == {None}
    await desk.jobs.delete(JOB)
    with pytest.raises(NotFound):
        await desk.jobs.run(JOB)


class VanishingEngine(MemoryEngine):
    """The job is made anew between the reading and the insertion."""

    def __init__(self) -> None:
        """Once."""
        super().__init__()
        self.replacement: Job | None = None

    async def force(self, execution: Execution) -> bool:
        """Insert, after the job was replaced."""
        if self.replacement is not None:
            await self.delete_job(self.replacement.name, START)
            await self.create_job(self.replacement)
            self.replacement = None
        return await super().force(execution)


async def test_a_run_of_a_job_that_is_made_anew_meanwhile_is_the_new_jobs(desk: Desk) -> None:
    """Never an execution of a job that is gone."""
    engine = VanishingEngine()
    desk.engine, desk.jobs._engine = engine, engine
    job = await desk.create()
    engine.replacement = replace(job, id=job.id + 1)
    await desk.jobs.run(JOB)

    assert [each.job_id for each in desk.ticker.runs] == [job.id + 1]


@pytest.mark.parametrize("schedule", ["soon", "0 0 31 2 *"])
async def test_a_schedule_that_another_version_stored_can_still_be_run_edited_and_deleted(
    desk: Desk, schedule: str
) -> None:
    """Though it says nothing to this one."""
    await desk.create()
    change: Callable[[Job], tuple[Job, Sequence[Execution]]] = lambda job: (replace(job, schedule=schedule), ())  # noqa: E731
    await desk.engine.update_job(JOB, change)

    await desk.jobs.run(JOB)
    assert desk.ticker.runs[0].header_time is None
    job = await desk.jobs.update(JOB, lambda stored: replace(stored, schedule="0 10 * * *"))
    assert job.next_time == START + 2 * HOUR
    await desk.jobs.delete(JOB)


async def test_pages_and_single_rows(desk: Desk) -> None:
    """As the engine keeps them; names are checked before."""
    await desk.create()
    await desk.jobs.run(JOB)

    (row,) = await desk.rows()
    assert await desk.jobs.execution(JOB, START, is_forced=True) == row
    assert [job.name for job in await desk.jobs.page(PARENT, "", 10)] == [JOB]
    assert await desk.jobs.page(PARENT, JOB, 10) == []
    with pytest.raises(InvalidArgument):
        await desk.jobs.history("j", None, 1, HistoryFilter())
    with pytest.raises(InvalidArgument):
        await desk.jobs.page("projects/p", "", 10)

"""The ticker: every instant of every job starts once or has a row that says why not; and changes by callers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.instant import HOUR, MINUTE, SECOND
from taskbell.core.job import JobState, Progress
from taskbell.core.target import HttpTarget
from taskbell.testing.clock import START
from tests.loops.job_stage import FIRED, JOB, OVERLAP, PARENT, PAUSED, SUPERSEDED, URL, JobStage, change


@pytest.fixture
def stage() -> JobStage:
    """A node."""
    return JobStage()


# Instants, and what may keep them from starting.


async def test_each_instant_starts_one_execution_on_time(stage: JobStage) -> None:
    """Never before it; the rows say when."""
    await stage.create()
    await stage.advance(59 * SECOND)
    assert stage.sent() == []
    await stage.advance(121 * SECOND)

    assert stage.sent() == [60, 120, 180]
    assert await stage.told() == [(60, *FIRED), (120, *FIRED), (180, *FIRED)]
    first = (await stage.rows())[0]
    assert (first.start_time, first.last_attempt_time, first.end_time) == (START + MINUTE,) * 3
    assert (first.attempts, first.response) == (1, 200)


async def test_a_handler_that_takes_longer_than_the_period_is_not_run_twice_at_once(stage: JobStage) -> None:
    """150 s each minute: the instants meanwhile are skipped, not queued up; each has its row."""
    stage.sender.durations[URL] = 150 * SECOND
    await stage.create()
    await stage.advance(10 * MINUTE + 20 * SECOND)

    assert stage.sent() == [60, 240, 420, 600]
    assert stage.sender.most_running[URL] == 1
    assert await stage.told() == [
        (60, *FIRED),
        (120, *OVERLAP),
        (180, *OVERLAP),
        (240, *FIRED),
        (300, *OVERLAP),
        (360, *OVERLAP),
        (420, *FIRED),
        (480, *OVERLAP),
        (540, *OVERLAP),
        (600, "fired", "open"),
    ]


async def test_retries_that_reach_the_next_instant_make_it_skipped(stage: JobStage) -> None:
    """Also while they are only waited for."""
    stage.sender.answer(URL, 500, 500, 200)
    await stage.create(retry={"retry_count": 2, "min_backoff": 50 * SECOND})
    await stage.advance(5 * MINUTE)

    assert stage.sent() == [60, 110, 210, 240, 300]
    assert await stage.told() == [(60, *FIRED), (120, *OVERLAP), (180, *OVERLAP), (240, *FIRED), (300, *FIRED)]


async def test_c25_one_start_may_wait_for_the_end() -> None:
    """By a setting: the latest instant starts as soon as the execution before it ends, the others are skipped."""
    stage = JobStage(delays_overlap=True, catch_up=0)
    stage.sender.durations[URL] = 150 * SECOND
    await stage.create()
    await stage.advance(9 * MINUTE)

    assert stage.sent() == [60, 210, 360, 510]
    assert stage.sender.most_running[URL] == 1
    assert await stage.told() == [
        (60, *FIRED),
        (120, *OVERLAP),
        (180, "fired", "succeeded"),
        (240, *OVERLAP),
        (300, *OVERLAP),
        (360, *FIRED),
        (420, *OVERLAP),
        (480, "fired", "open"),
    ]


async def test_a_delayed_start_waits_for_retries_too_and_over_a_restart() -> None:
    """Meanwhile the job waits; a forced run that ends does not free it."""
    stage = JobStage(delays_overlap=True)
    stage.sender.answer(URL, 500, 500, 200)
    await stage.create(retry={"retry_count": 2, "min_backoff": 100 * SECOND})
    await stage.advance(130 * SECOND)
    await stage.jobs.run(JOB)
    await stage.restart(10 * SECOND)
    await stage.advance(5 * MINUTE)

    assert stage.sent()[:1] == [60]
    scheduled = [row for row in await stage.rows() if not row.is_forced]
    assert [(row.instant - START) // SECOND for row in scheduled] == [60, 120, 180, 240, 300, 360, 420]
    assert scheduled[0].end_time is not None
    late = scheduled[[row.start_time is not None for row in scheduled].index(True, 1)]
    assert late.start_time == scheduled[0].end_time


async def test_a_delayed_start_is_given_up_by_a_pause(stage: JobStage) -> None:
    """What has come is skipped."""
    stage = JobStage(delays_overlap=True)
    stage.sender.durations[URL] = 150 * SECOND
    await stage.create()
    await stage.advance(130 * SECOND)
    await stage.jobs.pause(JOB)
    await stage.advance(2 * MINUTE)

    assert stage.sent() == [60]
    assert await stage.told() == [(60, *FIRED), (120, *PAUSED), (180, *PAUSED), (240, *PAUSED)]


async def test_windows_never_wait(stage: JobStage) -> None:
    """As documented for groc."""
    stage = JobStage(delays_overlap=True)
    stage.sender.durations[URL] = 90 * SECOND
    await stage.create("every 1 minutes from 08:00 to 09:00")
    await stage.advance(4 * MINUTE)

    assert stage.sent() == [60, 180]
    assert (await stage.told())[1] == (120, *OVERLAP)


async def test_a_forced_run_goes_beside_a_scheduled_one(stage: JobStage) -> None:
    """It neither waits nor makes instants be skipped, and does not change the schedule."""
    stage.sender.durations[URL] = 50 * SECOND
    await stage.create()
    await stage.advance(70 * SECOND)
    job = await stage.jobs.run(JOB)
    await stage.advance(55 * SECOND)

    assert job.next_time == START + 2 * MINUTE
    assert stage.sent() == [60, 70, 120]
    assert stage.sender.most_running[URL] == 2
    assert await stage.told() == [(60, *FIRED), (70, "forced", "succeeded"), (120, "fired", "open")]


async def test_forced_runs_of_one_instant_are_executions_of_their_own(stage: JobStage) -> None:
    """Each has its own row and key."""
    await stage.create()
    for _ in range(3):
        await stage.jobs.run(JOB)
    await stage.pump()

    assert [row.instant for row in await stage.rows()] == [START, START + 1, START + 2]
    assert len(set(stage.header("Idempotency-Key"))) == 3


async def test_an_interval_counts_from_the_end_of_the_run(stage: JobStage) -> None:
    """Also when the run failed and was tried again; the instants are those at which it was due."""
    stage.sender.answer(URL, 500, 200)
    stage.sender.durations[URL] = 70 * SECOND
    await stage.create("every 5 minutes", retry={"retry_count": 1, "min_backoff": 10 * SECOND})
    await stage.advance(16 * MINUTE)

    assert stage.sent() == [300, 380, 750]
    assert await stage.told() == [(300, *FIRED), (750, *FIRED)]
    assert stage.header("X-CloudScheduler-ScheduleTime") == [None] * 3


async def test_an_interval_goes_on_after_a_skipped_instant(stage: JobStage) -> None:
    """While it is paused each skipped instant begins another wait."""
    await stage.create("every 5 minutes")
    await stage.jobs.pause(JOB)
    await stage.advance(11 * MINUTE)
    await stage.jobs.resume(JOB)
    await stage.advance(5 * MINUTE)

    assert await stage.told() == [(300, *PAUSED), (600, *PAUSED), (900, *FIRED)]


@pytest.mark.parametrize("verbs", [("pause", "resume"), ("update",)])
async def test_an_interval_counts_from_the_end_of_the_run_over_changes_too(
    stage: JobStage, verbs: tuple[str, ...]
) -> None:
    """Whatever was planned meanwhile is put off."""
    stage.sender.durations[URL] = 200 * SECOND
    await stage.create("every 5 minutes")
    await stage.advance(310 * SECOND)
    for verb in verbs:
        await change(stage, verb)
    await stage.advance(10 * MINUTE)

    assert stage.sent() == [300, 800]


async def test_an_interval_counts_from_the_end_over_a_restart(stage: JobStage) -> None:
    """The end was stored, so the wait is the same."""
    stage.sender.durations[URL] = 30 * SECOND
    await stage.create("every 5 minutes")
    await stage.advance(340 * SECOND)
    await stage.restart(100 * SECOND)
    await stage.advance(5 * MINUTE)

    assert stage.sent() == [300, 630]


# Changes by callers.


async def test_a_paused_job_says_so_at_each_instant(stage: JobStage) -> None:
    """And fires from the resume on; nothing is made up for."""
    await stage.create()
    await stage.jobs.pause(JOB)
    await stage.advance(150 * SECOND)
    await stage.jobs.resume(JOB)
    await stage.advance(60 * SECOND)

    assert stage.sent() == [180]
    assert await stage.told() == [(60, *PAUSED), (120, *PAUSED), (180, *FIRED)]
    assert (await stage.rows())[0].reason == "The job was PAUSED."


async def test_a_paused_job_can_be_edited_and_stays_paused(stage: JobStage) -> None:
    """It does not fire at its new instants either."""
    await stage.create("0 12 * * *")
    await stage.jobs.pause(JOB)
    job = await stage.jobs.update(JOB, lambda job: replace(job, schedule="* * * * *", state=JobState.ENABLED))
    await stage.advance(2 * MINUTE)

    assert job.state is JobState.PAUSED
    assert stage.sent() == []
    assert await stage.told() == [(60, *PAUSED), (120, *PAUSED), (4 * 3600, *SUPERSEDED)]


async def test_twenty_edits_leave_one_timer(stage: JobStage) -> None:
    """Whatever they change: one run a minute."""
    await stage.create()
    for turn in range(20):
        schedule = ["*/2 * * * *", "* * * * *"][turn % 2]
        await stage.jobs.update(JOB, lambda job, schedule=schedule: replace(job, schedule=schedule))  # type: ignore[misc]
        await stage.jobs.pause(JOB)
        await stage.jobs.resume(JOB)
    await stage.advance(3 * MINUTE)

    assert stage.sent() == [60, 120, 180]
    assert await stage.told() == [(60, *FIRED), (120, *FIRED), (180, *FIRED)]


async def test_a_job_that_is_made_anew_around_a_tick_runs_once_a_tick(stage: JobStage) -> None:
    """Twenty times deleted and created again, before, at and after the instant."""
    await stage.create()
    for _ in range(20):
        await stage.jobs.delete(JOB)
        await stage.create()
        await stage.advance(6 * SECOND)

    assert stage.sent() == [60, 120]
    await stage.advance(MINUTE)
    assert stage.sent() == [60, 120, 180]
    assert len(stage.ticker._timers) == 1


async def test_an_edit_of_the_schedule_says_what_became_of_the_instant_it_dropped(stage: JobStage) -> None:
    """An instant that comes back after all fires, and its row says so."""
    await stage.create("5 * * * *")
    await stage.jobs.update(JOB, lambda job: replace(job, schedule="10 * * * *"))
    assert await stage.told() == [(300, *SUPERSEDED)]
    await stage.jobs.update(JOB, lambda job: replace(job, schedule="5 * * * *"))
    assert await stage.told() == [(300, *SUPERSEDED), (600, *SUPERSEDED)]
    await stage.advance(11 * MINUTE)

    assert stage.sent() == [300]
    assert await stage.told() == [(300, *FIRED), (600, *SUPERSEDED)]


async def test_an_edit_of_something_else_drops_nothing(stage: JobStage) -> None:
    """The same instant stays the next one."""
    await stage.create("5 * * * *")
    await stage.jobs.update(JOB, lambda job: replace(job, description="new", time_zone="utc"))
    await stage.advance(6 * MINUTE)

    assert await stage.told() == [(300, *FIRED)]


@pytest.mark.parametrize("verb", ["pause", "update", "delete"])
async def test_a_retry_that_is_waited_for_is_dropped_by_achange(stage: JobStage, verb: str) -> None:
    """Its execution is cancelled, and the next instant is not skipped for it."""
    stage.sender.answer(URL, 500, 200)
    await stage.create("*/5 * * * *", retry={"retry_count": 5, "min_backoff": 30 * SECOND})
    await stage.advance(310 * SECOND)
    await change(stage, verb)
    await stage.advance(MINUTE)

    assert stage.sent() == [300]
    assert await stage.engine.open_executions() == []
    if verb != "delete":
        assert await stage.told() == [(300, "fired", "cancelled")]
    if verb == "update":
        await stage.advance(5 * MINUTE)
        assert stage.sent() == [300, 600]


@pytest.mark.parametrize(("verb", "progress"), [("pause", "cancelled"), ("update", "cancelled")])
async def test_an_attempt_that_is_out_at_a_change_is_the_last(stage: JobStage, verb: str, progress: str) -> None:
    """How it ends is recorded; it is not tried again."""
    stage.sender.answer(URL, 500)
    gate = stage.sender.hold(URL)
    await stage.create("*/5 * * * *", retry={"retry_count": 5})
    await stage.advance(310 * SECOND)
    await change(stage, verb)
    gate.set()
    await stage.advance(MINUTE)

    assert stage.sent() == [300]
    (row,) = await stage.rows()
    assert (row.progress.value, row.response, row.attempts) == (progress, 500, 1)
    assert (await stage.jobs.get(JOB)).status is not None


async def test_a_deleted_jobs_attempt_that_is_out_leaves_nothing_behind(stage: JobStage) -> None:
    """Its record is refused, and that is all."""
    gate = stage.sender.hold(URL)
    await stage.create()
    await stage.advance(70 * SECOND)
    await stage.jobs.delete(JOB)
    gate.set()
    await stage.advance(5 * MINUTE)

    assert stage.sent() == [60]
    assert await stage.engine.all_jobs() == []
    assert await stage.engine.open_executions() == []
    assert not stage.ticker._runs


@pytest.mark.parametrize("verb", ["pause", "delete"])
async def test_nothing_is_sent_once_a_pause_or_delete_is_acknowledged(verb: str) -> None:
    """Not even by executions that wait for their turn; they end as cancelled, never attempted."""
    stage = JobStage(max_open=1)
    gate = stage.sender.hold("http://h/slow")
    await stage.create(name=f"{PARENT}/jobs/a", url="http://h/slow")
    await stage.create()
    await stage.advance(MINUTE)
    await change(stage, verb)
    gate.set()
    await stage.advance(30 * SECOND)

    assert stage.sent() == []
    assert await stage.engine.open_executions() == []
    if verb == "pause":
        (row,) = await stage.rows()
        assert (row.progress, row.attempts, row.last_attempt_time) == (Progress.CANCELLED, 0, None)
        assert (await stage.jobs.get(JOB)).status is None


async def test_an_execution_that_waits_for_its_turn_goes_to_the_target_as_edited(stage: JobStage) -> None:
    """Once an update is acknowledged nothing new goes to the old one."""
    stage = JobStage(max_open=1)
    gate = stage.sender.hold("http://h/slow")
    await stage.create(name=f"{PARENT}/jobs/a", url="http://h/slow")
    await stage.create()
    await stage.advance(MINUTE)
    await stage.jobs.update(JOB, lambda job: replace(job, target=HttpTarget("http://h/new")))
    gate.set()
    await stage.advance(SECOND)

    assert stage.sent() == []
    assert stage.sent("http://h/new") == [60]


async def test_a_wait_for_a_retry_holds_no_slot() -> None:
    """Jobs that fail do not keep others from their turn."""
    stage = JobStage(max_open=1)
    stage.sender.answer("http://h/bad", 500)
    await stage.create("*/5 * * * *", f"{PARENT}/jobs/a", "http://h/bad", retry={"retry_count": 5, "min_backoff": HOUR})
    await stage.create("6 * * * *")
    await stage.advance(7 * MINUTE)

    assert stage.sent("http://h/bad") == [300]
    assert stage.sent() == [360]

"""The ticker: every instant of every job starts once or has a row that says why not, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from taskbell.core.errors import Unavailable
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND
from taskbell.core.job import Disposition, JobState, Progress
from taskbell.core.schedule import fires, parse_schedule
from taskbell.core.target import HttpTarget
from taskbell.loops.ticker import BATCH
from taskbell.testing.clock import START
from tests.loops.job_stage import JOB, PARENT, URL, JobStage
from tests.loops.stage import ticks

FIRED = ("fired", "succeeded")
OVERLAP = ("skipped_overlap", "none")
PAUSED = ("skipped_paused", "none")
MISSED = ("missed", "none")
SUPERSEDED = ("superseded", "none")


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
        await _change(stage, verb)
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


async def _change(stage: JobStage, verb: str) -> None:
    if verb == "update":
        await stage.jobs.update(JOB, lambda job: job)
    else:
        await getattr(stage.jobs, verb)(JOB)


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
async def test_a_retry_that_is_waited_for_is_dropped_by_a_change(stage: JobStage, verb: str) -> None:
    """Its execution is cancelled, and the next instant is not skipped for it."""
    stage.sender.answer(URL, 500, 200)
    await stage.create("*/5 * * * *", retry={"retry_count": 5, "min_backoff": 30 * SECOND})
    await stage.advance(310 * SECOND)
    await _change(stage, verb)
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
    await _change(stage, verb)
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
    await _change(stage, verb)
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


# Changes while a commit is under way.


@pytest.mark.parametrize("verb", ["pause", "update", "delete"])
async def test_a_change_that_is_committed_before_the_tick_wins(stage: JobStage, verb: str) -> None:
    """The tick is refused. An edit that keeps the schedule keeps the instant."""
    await stage.create()
    gate = stage.held.hold("tick")
    await stage.advance(59 * SECOND)
    stage.clock.advance(SECOND)
    running = asyncio.create_task(stage.ticker.run_once())
    await ticks()
    await _change(stage, verb)
    gate.set()
    await running
    await stage.advance(MINUTE)

    if verb == "delete":
        assert stage.sent() == []
        assert await stage.engine.open_executions() == []
    elif verb == "pause":
        assert stage.sent() == []
        assert await stage.told() == [(60, *PAUSED), (120, *PAUSED)]
    else:
        assert stage.sent() == [60, 120]
        assert await stage.told() == [(60, *FIRED), (120, *FIRED)]


async def test_an_edit_of_the_schedule_before_the_tick_is_committed_leaves_a_row(stage: JobStage) -> None:
    """The instant had come, and was not begun."""
    await stage.create()
    gate = stage.held.hold("tick")
    stage.clock.advance(MINUTE)
    running = asyncio.create_task(stage.ticker.run_once())
    await ticks()
    await stage.jobs.update(JOB, lambda job: replace(job, schedule="5 * * * *"))
    gate.set()
    await running
    await stage.advance(5 * MINUTE)

    assert await stage.told() == [(60, *SUPERSEDED), (300, *FIRED)]
    assert stage.sent() == [300]
    assert (await stage.rows())[0].reason == "An edit replaced the schedule before the instant was begun."


async def test_a_resume_before_the_tick_is_committed_leaves_a_row(stage: JobStage) -> None:
    """The instant came while the job was paused."""
    await stage.create()
    await stage.jobs.pause(JOB)
    gate = stage.held.hold("tick")
    stage.clock.advance(MINUTE)
    running = asyncio.create_task(stage.ticker.run_once())
    await ticks()
    await stage.jobs.resume(JOB)
    gate.set()
    await running
    await stage.advance(MINUTE)

    assert await stage.told() == [(60, *PAUSED), (120, *FIRED)]


@pytest.mark.parametrize("verb", ["pause", "update"])
async def test_a_change_that_waits_behind_the_tick_comes_after_it(stage: JobStage, verb: str) -> None:
    """The instant has started, its retry is dropped, and the job goes on as changed."""
    stage.sender.answer(URL, 500, 200)
    await stage.create(retry={"retry_count": 5})
    gate = stage.held.hold("update_job")
    changing = asyncio.create_task(_change(stage, verb))
    await stage.advance(MINUTE)
    gate.set()
    await changing
    await stage.advance(MINUTE)

    following = (120, *PAUSED) if verb == "pause" else (120, *FIRED)
    assert stage.sent() == ([60] if verb == "pause" else [60, 120])
    assert await stage.told() == [(60, "fired", "cancelled"), following]


@pytest.mark.parametrize("verb", ["pause", "update"])
async def test_a_change_while_an_attempt_is_being_recorded_ends_the_execution(stage: JobStage, verb: str) -> None:
    """The record said that a retry would come; none does, and nothing stays open, not even over a restart."""
    stage.sender.answer(URL, 500)
    await stage.create("*/5 * * * *", retry={"retry_count": 5})
    gate = stage.held.hold("progress")
    await stage.advance(5 * MINUTE)
    await _change(stage, verb)
    gate.set()
    await ticks()
    await stage.advance(MINUTE)

    assert stage.sent() == [300]
    assert await stage.engine.open_executions() == []
    assert await stage.told() == [(300, "fired", "cancelled")]
    (row,) = await stage.rows()
    assert (row.attempts, row.response) == (1, 500)


async def test_an_edit_while_a_refused_tick_is_looked_into_is_not_forgotten(stage: JobStage) -> None:
    """What was read before it does not overwrite it."""
    await stage.create("5 * * * *")
    stage.held.hold("tick")
    stage.clock.advance(5 * MINUTE)
    running = asyncio.create_task(stage.ticker.run_once())
    await ticks()
    await stage.jobs.update(JOB, lambda job: replace(job, description="first"))
    reading = stage.held.hold("job")
    stage.held.gates["tick"].set()
    await ticks()
    await stage.jobs.update(JOB, lambda job: replace(job, schedule="* * * * *"))
    reading.set()
    await running
    await stage.advance(2 * MINUTE)

    assert stage.sent() == [360, 420]


# Faults of the store.


async def test_jobs_outlive_a_store_that_cannot_be_reached(stage: JobStage) -> None:
    """More jobs than one commit takes: all of them fire when it is back, once."""
    names = [f"{PARENT}/jobs/j{number}" for number in range(BATCH + 200)]
    for name in names:
        await stage.create("5 * * * *", name)
    await stage.advance(4 * MINUTE)
    stage.clock.advance(MINUTE)
    stage.held.refusals["tick"] = [Unavailable("The disk is away.")] * 2
    for _ in range(2):
        with pytest.raises(Unavailable):
            await stage.ticker.run_once()
    await stage.advance(MINUTE)

    assert len(stage.sent()) == len(names)
    for name in names[::100]:
        assert await stage.told(name) == [(300, *FIRED)]


async def test_what_was_committed_starts_although_another_step_cannot_be_looked_into(stage: JobStage) -> None:
    """A refused step in the same commit, and a store that is away when it is read."""
    other = f"{PARENT}/jobs/other"
    await stage.create()
    await stage.create(name=other, url="http://h/other")
    gate = stage.held.hold("tick")
    stage.clock.advance(MINUTE)
    running = asyncio.create_task(stage.ticker.run_once())
    await ticks()
    await stage.jobs.update(JOB, lambda job: replace(job, description="new"))
    stage.held.refusals["job"] = [Unavailable("The disk is away.")]
    gate.set()
    with pytest.raises(Unavailable):
        await running
    await stage.advance(SECOND)

    assert stage.sent("http://h/other") == [60]
    assert stage.sent() == [60]


async def test_a_record_is_tried_until_the_store_takes_it(stage: JobStage) -> None:
    """The handler is not asked again for it."""
    await stage.create("1 * * * *")
    stage.held.refusals["progress"] = [Unavailable("The disk is away.")] * 3
    await stage.advance(2 * MINUTE)

    assert stage.sent() == [60]
    assert await stage.told() == [(60, *FIRED)]


# Downtime and clocks.


async def test_after_downtime_the_latest_instant_is_made_up_for(stage: JobStage) -> None:
    """The others are missed; the row of the late one says how late."""
    await stage.create()
    await stage.advance(90 * SECOND)
    await stage.restart(3 * MINUTE + 15 * SECOND)
    await stage.advance(MINUTE)

    assert stage.sent() == [60, 285, 300]
    assert await stage.told() == [
        (60, *FIRED),
        (120, *MISSED),
        (180, *MISSED),
        (240, "late", "succeeded"),
        (300, *FIRED),
    ]
    assert (await stage.rows())[3].reason == "It started 45 s after its time."


@pytest.mark.parametrize(
    ("schedule", "down", "late"),
    [
        ("5 * * * *", 50 * MINUTE, True),
        ("5 * * * *", 64 * MINUTE, True),
        ("5 9 * * *", 2 * HOUR, True),
        ("5 9 * * *", 2 * HOUR + 6 * MINUTE, False),
        ("every 30 minutes", 59 * MINUTE, True),
        ("every 30 minutes", 61 * MINUTE, False),
        ("every 5 hours", 5 * HOUR + 59 * MINUTE, True),
        ("every 5 hours", 6 * HOUR + MINUTE, False),
    ],
)
async def test_the_catch_up_window_is_one_period_at_most_an_hour(
    stage: JobStage, schedule: str, down: int, *, late: bool
) -> None:
    """What is older is missed."""
    await stage.create(schedule)
    await stage.restart(down)

    assert len(stage.sent()) == late
    assert [row.disposition for row in await stage.rows()] == [Disposition.LATE if late else Disposition.MISSED]


@pytest.mark.parametrize(("catch_up", "late"), [(0, False), (40 * SECOND, False), (46 * SECOND, True)])
async def test_the_catch_up_window_can_be_set(catch_up: int, *, late: bool) -> None:
    """Zero makes up for nothing."""
    stage = JobStage(catch_up=catch_up)
    await stage.create("5 * * * *")
    await stage.restart(5 * MINUTE + 45 * SECOND)

    assert len(stage.sent()) == late


@pytest.mark.parametrize(
    ("schedule", "down"), [("* * * * *", 30 * DAY), ("* 9 * * *", 200 * DAY), ("*/7 1-3 * * mon", 900 * DAY)]
)
async def test_long_downtime_leaves_a_bounded_number_of_rows(stage: JobStage, schedule: str, down: int) -> None:
    """The newest ones have their own; the first one speaks for those that were left out."""
    await stage.create(schedule)
    first = (await stage.jobs.get(JOB)).next_time
    await stage.restart(down)

    rows = await stage.rows()
    assert 500 <= len(rows) <= 1000
    assert rows[0].instant == first
    assert rows[0].reason.endswith("The instants between this one and the next row went the same way.")
    assert {row.disposition for row in rows[:-1]} == {Disposition.MISSED}
    expected = fires(parse_schedule(schedule, ""), rows[1].instant, len(rows) - 1)
    assert [row.instant for row in rows[2:]] == expected[:-1]
    assert (await stage.jobs.get(JOB)).next_time == expected[-1]


async def test_many_jobs_with_many_missed_instants_are_committed_in_parts(stage: JobStage) -> None:
    """So that coming back needs neither all memory nor one commit that takes for ever."""
    for number in range(8):
        await stage.create(name=f"{PARENT}/jobs/j{number}")
    await stage.restart(DAY)

    assert len(stage.sent()) == 8
    assert stage.held.calls["tick"] >= 4


async def test_a_clock_that_is_set_back_makes_nothing_fire_twice(stage: JobStage) -> None:
    """Two hours: the instants that come again have had their runs; the loop sleeps meanwhile."""
    await stage.create()
    await stage.advance(5 * MINUTE)
    stage.clock.step(-2 * HOUR)
    await stage.advance(HOUR)
    assert await stage.ticker.run_once() > 0
    await stage.advance(HOUR + 2 * MINUTE)

    assert stage.sent() == [60, 120, 180, 240, 300, 7560, 7620]
    assert await stage.told() == [(60 * minute, *FIRED) for minute in range(1, 8)]


async def test_an_edit_after_the_clock_was_set_back_makes_nothing_fire_twice(stage: JobStage) -> None:
    """It plans instants again that have their rows: they are passed over, those that have none are not."""
    await stage.create("*/2 * * * *")
    await stage.advance(5 * MINUTE)
    stage.clock.step(-5 * MINUTE)
    await stage.jobs.update(JOB, lambda job: replace(job, schedule="* * * * *"))
    await stage.advance(6 * MINUTE)

    assert stage.sent() == [120, 240, 360, 480, 600, 660]
    assert await stage.told() == [(60 * minute, *FIRED) for minute in range(1, 7)]


async def test_downtime_over_instants_that_have_rows_and_instants_that_have_none(stage: JobStage) -> None:
    """Each of the latter gets its own."""
    await stage.create("*/2 * * * *")
    await stage.advance(5 * MINUTE)
    stage.clock.step(-5 * MINUTE)
    await stage.jobs.update(JOB, lambda job: replace(job, schedule="* * * * *"))
    await stage.restart(5 * MINUTE + 50 * SECOND)

    assert await stage.told() == [
        (60, *MISSED),
        (120, *FIRED),
        (180, *MISSED),
        (240, *FIRED),
        (300, "late", "succeeded"),
        (360, *SUPERSEDED),
    ]


async def test_an_interval_goes_on_where_its_instant_has_a_row(stage: JobStage) -> None:
    """The clock was set back, and the interval comes upon the same instant again."""
    await stage.create("every 5 minutes")
    await stage.advance(6 * MINUTE)
    stage.clock.step(-6 * MINUTE)
    await stage.jobs.update(JOB, lambda job: job)
    await stage.advance(11 * MINUTE)

    assert await stage.told() == [(300, *FIRED), (600, *FIRED)]


async def test_a_clock_that_is_set_forward_is_like_downtime(stage: JobStage) -> None:
    """By a day: one late run, a row for each instant, and no burst."""
    await stage.create("0 * * * *")
    await stage.advance(61 * MINUTE)
    stage.clock.step(DAY)
    await stage.advance(MINUTE)

    missed = [(3600 * hour, *MISSED) for hour in range(2, 25)]
    assert stage.sent() == [3600, 3660]
    assert await stage.told() == [(3600, *FIRED), *missed, (3600 * 25, "late", "succeeded")]


async def test_a_clock_that_is_set_back_does_not_put_off_a_retry(stage: JobStage) -> None:
    """Its wait is a span of time that passes."""
    stage.sender.answer(URL, 500, 200)
    await stage.create("5 * * * *", retry={"retry_count": 1, "min_backoff": 30 * SECOND})
    await stage.advance(310 * SECOND)
    stage.clock.step(-2 * HOUR)
    await stage.advance(MINUTE)

    assert stage.sent() == [300, 330]


# Restarts with an execution that is open.


async def test_an_execution_that_was_never_attempted_is_taken_up(stage: JobStage) -> None:
    """Its row was committed, and the server died."""
    gate = stage.sender.hold(URL)
    await stage.create("1 * * * *")
    await stage.advance(MINUTE)
    await stage.die()
    assert [row.attempts for row in await stage.rows()] == [0]
    gate.set()
    await stage.restart(10 * SECOND)

    assert stage.sent() == [60, 70]
    assert len(set(stage.header("Idempotency-Key"))) == 1
    assert stage.header("X-CloudScheduler-ScheduleTime") == ["2027-01-15T08:01:00Z"] * 2
    assert await stage.told() == [(60, *FIRED)]


async def test_an_execution_that_waits_for_a_retry_is_taken_up(stage: JobStage) -> None:
    """At the instant of the retry, with its failures counted."""
    stage.sender.answer(URL, 500)
    await stage.create("1 * * * *", retry={"retry_count": 2, "min_backoff": 30 * SECOND})
    await stage.advance(70 * SECOND)
    await stage.restart(5 * SECOND)
    await stage.advance(5 * MINUTE)

    assert stage.sent() == [60, 90, 150]
    assert len(set(stage.header("Idempotency-Key"))) == 1
    assert await stage.told() == [(60, "fired", "failed")]


async def test_a_retry_whose_attempt_was_out_is_made_again(stage: JobStage) -> None:
    """Nobody knows how it ended."""
    stage.sender.answer(URL, 500, 200)
    await stage.create("1 * * * *", retry={"retry_count": 1, "min_backoff": 30 * SECOND})
    await stage.advance(70 * SECOND)
    gate = stage.sender.hold(URL)
    await stage.advance(25 * SECOND)
    assert stage.sent() == [60, 90]
    gate.set()
    await stage.restart(MINUTE)

    assert stage.sent() == [60, 90, 155]
    assert len(set(stage.header("Idempotency-Key"))) == 1
    assert (await stage.rows())[0].attempts == 2


async def test_a_forced_run_is_taken_up(stage: JobStage) -> None:
    """As one."""
    gate = stage.sender.hold(URL)
    await stage.create("0 12 * * *")
    await stage.jobs.run(JOB)
    await stage.pump()
    gate.set()
    await stage.restart(SECOND)

    assert stage.sent() == [0, 1]
    assert len(set(stage.header("Idempotency-Key"))) == 1
    assert await stage.told() == [(0, "forced", "succeeded")]


@pytest.mark.parametrize("attempts", [0, 1])
async def test_a_job_that_was_paused_meanwhile_is_not_attempted_after_a_restart(stage: JobStage, attempts: int) -> None:
    """Its execution is cancelled."""
    stage.sender.answer(URL, 500)
    await stage.create("1 * * * *", retry={"retry_count": 5, "min_backoff": 30 * SECOND})
    if attempts:
        await stage.advance(70 * SECOND)
    gate = stage.sender.hold(URL)
    await stage.advance(25 * SECOND if attempts else 70 * SECOND)
    sent = list(stage.sent())
    await stage.jobs.pause(JOB)
    gate.set()
    await stage.die()
    await stage.restart(MINUTE)

    assert stage.sent() == sent
    assert await stage.told() == [(60, "fired", "cancelled")]
    assert await stage.engine.open_executions() == []


async def test_an_execution_of_an_edited_job_has_one_attempt_left(stage: JobStage) -> None:
    """Its first attempt was out when the job was edited and the server died."""
    gate = stage.sender.hold(URL)
    await stage.create("1 * * * *", retry={"retry_count": 5})
    await stage.advance(70 * SECOND)
    await stage.jobs.update(JOB, lambda job: replace(job, target=HttpTarget("http://h/new")))
    gate.set()
    stage.sender.answer("http://h/new", 500)
    await stage.restart(SECOND)
    await stage.advance(MINUTE)

    assert stage.sent("http://h/new") == [71]
    assert await stage.told() == [(60, "fired", "cancelled")]


# Stopping.


async def test_a_stop_lets_attempts_end_and_leaves_the_rest_to_the_next_start() -> None:
    """A retry that is waited for, an execution that waits for its turn, and an instant that comes meanwhile."""
    stage = JobStage(max_open=1)
    stage.sender.answer("http://h/bad", 500)
    await stage.create("1 * * * *", f"{PARENT}/jobs/a", "http://h/bad", retry={"retry_count": 1})
    await stage.advance(61 * SECOND)
    gate = stage.sender.hold("http://h/slow")
    await stage.create("2 * * * *", f"{PARENT}/jobs/b", "http://h/slow")
    await stage.create("2 * * * *", f"{PARENT}/jobs/c", "http://h/c")
    await stage.advance(2 * SECOND)
    stage.clock.step(57 * SECOND)
    await stage.pump()
    draining = asyncio.create_task(stage.ticker.drain(10 * SECOND))
    await ticks()
    assert not draining.done()
    await stage.ticker.run_once()
    gate.set()

    assert await draining == 0
    assert stage.sent("http://h/slow") == [63]
    assert stage.sent("http://h/c") == []
    await stage.restart()
    assert stage.sent("http://h/c") == [63]


async def test_a_stop_cuts_off_attempts_that_take_longer_than_the_grace_period(stage: JobStage) -> None:
    """And says how many; they are made again after the next start."""
    stage.sender.hold(URL)
    await stage.create()
    await stage.advance(MINUTE)
    draining = asyncio.create_task(stage.ticker.drain(10 * SECOND))
    await ticks()
    stage.clock.advance(10 * SECOND)

    assert await draining == 1
    assert await stage.ticker.run_once() > 0
    assert [row.progress for row in await stage.rows()] == [Progress.OPEN]


# Many jobs.


async def test_edits_leave_no_heap_of_old_alarms(stage: JobStage) -> None:
    """However often a job is edited."""
    await stage.create("0 0 1 1 *")
    for _ in range(3 * BATCH):
        await stage.jobs.update(JOB, lambda job: job)

    assert len(stage.ticker._heap) <= 2 + BATCH


async def test_a_schedule_that_cannot_be_read_stops_its_own_job_alone(stage: JobStage) -> None:
    """As may be stored by another version."""
    job = await stage.create()
    await stage.create(name=f"{PARENT}/jobs/good", url="http://h/good")
    await stage.held.update_job(JOB, lambda job: (replace(job, schedule="soon"), ()))
    stage.ticker.job_changed(replace(job, schedule="soon"))
    await stage.advance(2 * MINUTE)

    assert stage.sent("http://h/good") == [60, 120]
    assert stage.sent() == []

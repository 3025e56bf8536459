"""The ticker after downtime and under clocks that are set, and what a restart takes up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND
from taskbell.core.job import Disposition
from taskbell.core.schedule import fires, parse_schedule
from taskbell.core.target import HttpTarget
from tests.loops.job_stage import FIRED, JOB, MISSED, PARENT, SUPERSEDED, URL, JobStage


@pytest.fixture
def stage() -> JobStage:
    """A node."""
    return JobStage()


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


async def test_downtime_over_instants_that_were_dropped_and_came_back(stage: JobStage) -> None:
    """Their rows give way, also where another instant of the same step has one that does not."""
    await stage.create("*/2 * * * *")
    await stage.advance(3 * MINUTE)
    stage.clock.step(-3 * MINUTE)
    for schedule in ("* * * * *", "3 * * * *", "* * * * *"):
        await stage.jobs.update(JOB, lambda job, schedule=schedule: replace(job, schedule=schedule))  # type: ignore[misc]
    assert await stage.told() == [(60, *SUPERSEDED), (120, *FIRED), (180, *SUPERSEDED), (240, *SUPERSEDED)]
    await stage.restart(3 * MINUTE + 10 * SECOND)

    assert await stage.told() == [(60, *MISSED), (120, *FIRED), (180, *FIRED), (240, *SUPERSEDED)]
    assert stage.sent() == [120, 370]


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

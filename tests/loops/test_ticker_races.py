"""The ticker while a commit is under way, or refused, and when it stops: nothing is lost, and nothing starts twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from taskbell.core.errors import Unavailable
from taskbell.core.instant import MINUTE, SECOND
from taskbell.core.job import Progress
from taskbell.loops.ticker import BATCH
from tests.loops.job_stage import FIRED, JOB, PARENT, PAUSED, SUPERSEDED, URL, JobStage, change
from tests.loops.stage import ticks


@pytest.fixture
def stage() -> JobStage:
    """A node."""
    return JobStage()


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
    await change(stage, verb)
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
    changing = asyncio.create_task(change(stage, verb))
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
    await change(stage, verb)
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

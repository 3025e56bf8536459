"""RunTask, DeleteTask, PurgeQueue and PauseQueue against the timer and against attempts that are out."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from taskbell.core.errors import NotFound
from taskbell.core.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from taskbell.core.limits import Limits
from taskbell.core.queue import QueueState
from taskbell.core.target import OidcToken
from taskbell.events import Result
from taskbell.loops.lane import Window
from tests.loops.stage import PARENT, QUEUE, QUICK, WAIT, Stage, rows, ticks

# RunTask.


async def test_s07_a_forced_run_of_a_future_task_that_succeeds_is_its_only_one() -> None:
    """Nothing fires at the old time."""
    stage = Stage()
    await stage.create_queue()
    task = await stage.create(delay=HOUR, task_id="t")
    ran = await stage.tasks.run(task.name)
    assert (ran.dispatch_count, ran.response_count) == (1, 0)
    await stage.elapse(2 * HOUR)

    assert stage.sent() == 1
    assert await rows(stage) == 0


@pytest.mark.parametrize("delay", [5 * SECOND, HOUR], ids=["old time before the retry", "old time after the retry"])
async def test_s07_a_forced_run_that_fails_takes_over_the_wait(delay: int) -> None:
    """The next attempt is at the call plus the backoff, and none at the old time."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 500, 200)
    call = stage.clock.now()
    await stage.tasks.run((await stage.create(delay=delay, task_id="t")).name)
    await stage.elapse(2 * HOUR)

    assert stage.sender.times["http://h/"] == [call, call + WAIT]


async def test_a_forced_run_that_takes_long_counts_its_backoff_from_the_call() -> None:
    """Ten seconds from the call are over when it fails: it goes out again at once."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 500, 200)
    answer = stage.sender.hold("http://h/")
    call = stage.clock.now()
    await stage.tasks.run((await stage.create(delay=HOUR, task_id="t")).name)
    await stage.advance(MINUTE)
    answer.set()
    await stage.elapse(2 * HOUR)

    assert stage.sender.times["http://h/"] == [call, call + MINUTE]


async def test_attempts_over_all_queues_stay_within_the_node_and_every_queue_gets_its_turn() -> None:
    """A stalled queue cannot take every socket, and what waits for room goes out as soon as there is some."""
    stage = Stage(max_out=3)
    other = f"{PARENT}/queues/other"
    await stage.create_queue()
    await stage.create_queue(other)
    await stage.pump()
    release = stage.sender.hold("http://h/stalled")
    for _ in range(10):
        await stage.create("stalled")
    for _ in range(10):
        await stage.create("good", queue=other)
    await stage.pump()
    before = stage.sender.open, stage.sent("stalled"), stage.sent("good")
    rounds = await stage.dispatcher.run_once()
    release.set()
    await stage.pump()

    assert before == (3, 3, 0)
    assert rounds > 0
    assert (stage.sent("stalled"), stage.sent("good"), stage.sender.most_open) == (10, 10, 3)


async def test_queues_that_share_a_full_node_take_turns() -> None:
    """One attempt may be out: no queue takes each place that it has just freed."""
    stage = Stage(max_out=1)
    for name in "abcde":
        await stage.create_queue(f"{PARENT}/queues/{name}")
        for _ in range(10):
            await stage.create(name, queue=f"{PARENT}/queues/{name}")
    await stage.pump()

    urls = [request.url for request in stage.sender.requests]
    assert len(urls) == 50
    assert stage.sender.most_open == 1
    assert all(len(set(urls[start : start + 5])) == 5 for start in range(5, 45, 5))


async def test_a_place_that_a_deleted_queue_waited_for_goes_to_the_next() -> None:
    """Nothing else would wake it."""
    stage = Stage(max_out=1)
    names = [f"{PARENT}/queues/{name}" for name in ("first", "deleted", "last")]
    for name in names:
        await stage.create_queue(name)
    answer = stage.sender.hold("http://h/first")
    for name in names:
        await stage.create(name.rpartition("/")[2], queue=name)
        await stage.pump()
    await stage.queues.delete(names[1])
    answer.set()
    await ticks()
    await stage.dispatcher.run_once()
    await ticks()

    assert (stage.sent("deleted"), stage.sent("last")) == (0, 1)


async def test_a_full_node_is_no_busy_loop() -> None:
    """What waits for room sets no timer: the end of an attempt wakes it."""
    stage = Stage(max_out=1)
    await stage.create_queue()
    await stage.create_queue(f"{PARENT}/queues/other", rate=100.0)
    stage.sender.hold("http://h/stuck")
    for _ in range(25):
        await stage.create(queue=f"{PARENT}/queues/other")
    await stage.advance(SECOND, 10 * MILLISECOND)
    await stage.create("stuck")
    await stage.pump()
    for _ in range(20):
        await stage.create(queue=f"{PARENT}/queues/other")
    await stage.pump()

    assert stage.sender.open == 1
    assert await stage.dispatcher.run_once() >= SECOND


async def test_a_forced_run_passes_pause_bucket_and_slots() -> None:
    """And leaves the others where they are."""
    stage = Stage()
    await stage.create_queue(rate=0.001, slots=1)
    stage.sender.hold("http://h/")
    for _ in range(12):
        await stage.create()
    await stage.pump()
    assert stage.sent() == 1
    await stage.queues.pause(QUEUE)
    task = await stage.create("forced", task_id="t")
    await stage.tasks.run(task.name)
    await stage.pump()

    assert (stage.sent(), stage.sent("forced")) == (1, 1)


async def test_a_forced_run_beside_an_attempt_that_is_out_begins_a_second_one() -> None:
    """If either succeeds the task is over; the other's failure does not bring it back."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 500, 200)
    answer = stage.sender.hold("http://h/")
    task = await stage.create(task_id="t")
    await stage.pump()
    assert (await stage.tasks.run(task.name)).dispatch_count == 2
    await stage.pump()
    assert stage.sent() == 2
    answer.set()
    await stage.elapse(HOUR)

    assert stage.sent() == 2
    assert sorted(event.result for event in stage.finished) == [Result.COMPLETED, Result.SUPERSEDED]


async def test_a_retry_that_is_committed_while_a_forced_run_is_out_waits_for_its_end() -> None:
    """The store refuses the first failure for a while; meanwhile the task is run by force and succeeds."""
    stage = Stage()
    await stage.create_queue(retry_config=replace(QUICK, min_backoff=0))
    stage.sender.answer("http://h/", 500, 200)
    task = await stage.create(task_id="t")
    stage.engine.refusals["settle"] = 1
    await stage.pump()
    answer = stage.sender.hold("http://h/")
    await stage.tasks.run(task.name)
    await stage.advance(MINUTE, SECOND)
    assert stage.sent() == 2
    answer.set()
    await stage.elapse(HOUR)

    assert stage.sent() == 2
    assert await rows(stage) == 0


@pytest.mark.parametrize("how", ["never existed", "completed", "deleted", "purged"])
async def test_a11_a_run_of_a_task_that_is_not_there_is_not_found(how: str) -> None:
    """One text, whatever became of the task."""
    stage = Stage()
    await stage.create_queue()
    if how != "never existed":
        task = await stage.create(task_id="t", delay=0 if how == "completed" else HOUR)
        await stage.pump()
        if how == "deleted":
            await stage.tasks.delete(task.name)
        elif how == "purged":
            await stage.queues.purge(QUEUE)

    with pytest.raises(NotFound, match=r"^Requested entity was not found\.$"):
        await stage.tasks.run(f"{QUEUE}/tasks/t")


@pytest.mark.parametrize("rival", ["delete", "purge", "queue"])
async def test_a_run_that_loses_the_race_is_not_found(rival: str) -> None:
    """The task goes while RunTask reads it: no attempt begins after the rival was answered."""
    stage = Stage(limits=Limits(queue_tombstone=0))
    await stage.create_queue()
    task = await stage.create(task_id="t", delay=HOUR)

    async def read() -> object:
        found = await stage.engine.task(QUEUE, "t", stage.clock.now())
        if rival == "delete":
            await stage.tasks.delete(task.name)
        elif rival == "purge":
            await stage.queues.purge(QUEUE)
        else:
            await stage.queues.delete(QUEUE)
        return found

    with pytest.raises(NotFound):
        await stage.dispatcher.run(QUEUE, read)  # type: ignore[arg-type]
    await stage.elapse(2 * HOUR)
    assert stage.sent() == 0


async def test_a_run_during_many_changes_reads_the_task_again_instead_of_losing_it() -> None:
    """More arrives behind the horizon than may be noted, this task's retry among it."""
    stage = Stage(window=Window(tasks=1, bytes=1 << 20))
    await stage.create_queue()
    stage.sender.answer("http://h/", 500, 200)
    answer = stage.sender.hold("http://h/")
    task = await stage.create(task_id="t")
    await stage.pump()
    stage.lane().horizon = task.due_key
    calls = 0

    async def read() -> object:
        nonlocal calls
        calls += 1
        found = await stage.engine.task(QUEUE, "t", stage.clock.now())
        if calls == 1:
            await stage.create("other", delay=HOUR)
            answer.set()
            await ticks()
        return found

    ran = await stage.dispatcher.run(QUEUE, read)  # type: ignore[arg-type]

    assert calls == 2
    assert ran.dispatch_count == 2


async def test_a_run_that_finds_nothing_does_not_keep_its_queue_from_reading_ahead() -> None:
    """A restart's backlog is read although the first look fell into the run's own read."""
    stage = Stage()
    await stage.create_queue()
    await stage.queues.pause(QUEUE)
    await stage.create()
    await stage.queues.resume(QUEUE)
    again = Stage(engine=stage.engine, clock=stage.clock)
    await again.dispatcher.load()

    async def read() -> object:
        await again.dispatcher.run_once()
        raise NotFound("gone")

    with pytest.raises(NotFound):
        await again.dispatcher.run(QUEUE, read)  # type: ignore[arg-type]
    await again.pump()

    assert again.sent() == 1


# Delete, purge, pause, and attempts that are out.


@pytest.mark.parametrize("rival", ["delete", "purge", "queue"])
@pytest.mark.parametrize("status", [200, 500])
async def test_what_is_removed_while_its_attempt_is_out_is_not_tried_again(rival: str, status: int) -> None:
    """The answer means nothing any more, whatever it is."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", status)
    answer = stage.sender.hold("http://h/")
    task = await stage.create(task_id="t")
    await stage.pump()
    if rival == "delete":
        await stage.tasks.delete(task.name)
    elif rival == "purge":
        await stage.queues.purge(QUEUE)
    else:
        await stage.queues.delete(QUEUE)
    answer.set()
    await stage.elapse(DAY)

    assert stage.sent() == 1
    assert [event.result for event in stage.finished] == [Result.SUPERSEDED]
    assert not stage.dispatcher._attempts


async def test_a_purge_spares_what_is_created_after_it() -> None:
    """Five waiting tasks go, the sixth is delivered."""
    stage = Stage()
    await stage.create_queue()
    for _ in range(5):
        await stage.create("old", delay=MINUTE)
    await stage.queues.purge(QUEUE)
    await stage.create("new", delay=MINUTE)
    await stage.elapse(HOUR)

    assert (stage.sent("old"), stage.sent("new")) == (0, 1)


async def test_n04_a_queue_made_again_starts_empty_and_fires_nothing_of_the_old_one() -> None:
    """Where the setting allows the name again at once."""
    stage = Stage(limits=Limits(queue_tombstone=0))
    await stage.create_queue()
    for number in range(5):
        await stage.create("old", delay=MINUTE, task_id=f"t{number}")
    await stage.queues.delete(QUEUE)
    await stage.create_queue()
    assert await rows(stage) == 0
    await stage.create("new", task_id="t1")
    await stage.elapse(HOUR)

    assert (stage.sent("old"), stage.sent("new")) == (0, 1)


async def test_q06_after_a_pause_no_attempt_begins_and_those_that_are_out_end() -> None:
    """A failure of one that was out waits for the resume, and so does everything else."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/out", 500, 200)
    answer = stage.sender.hold("http://h/out")
    await stage.create("out")
    await stage.pump()
    await stage.queues.pause(QUEUE)
    for _ in range(20):
        await stage.create("waiting")
    answer.set()
    await stage.elapse(HOUR)
    assert (stage.sent("out"), stage.sent("waiting")) == (1, 0)

    await stage.queues.resume(QUEUE)
    await stage.elapse(HOUR)
    assert (stage.sent("out"), stage.sent("waiting")) == (2, 20)


async def test_q06_pause_survives_a_restart() -> None:
    """And the backlog is delivered once it is resumed."""
    stage = Stage()
    await stage.create_queue()
    await stage.queues.pause(QUEUE)
    await stage.create()
    again = Stage(engine=stage.engine, clock=stage.clock)
    await again.dispatcher.load()
    await again.elapse(HOUR)
    assert again.sent() == 0
    assert again.lane().queue.state is QueueState.PAUSED

    await again.queues.resume(QUEUE)
    await again.elapse(HOUR)
    assert again.sent() == 1


async def test_a_delete_of_a_waiting_task_is_final() -> None:
    """Its time comes and nothing happens."""
    stage = Stage()
    await stage.create_queue()
    task = await stage.create(delay=MINUTE, task_id="t")
    await stage.tasks.delete(task.name)
    await stage.elapse(HOUR)

    assert stage.sent() == 0


async def test_an_attempt_that_is_overtaken_while_its_token_is_minted_is_not_sent() -> None:
    """The delete was answered before anything went out."""
    stage = Stage()
    await stage.create_queue()
    minting = asyncio.Event()

    async def slow(token: object, url: str) -> str:
        await minting.wait()
        return "late"

    stage.minter.bearer = slow  # type: ignore[method-assign]
    task = await stage.create(task_id="t", token=OidcToken("a@p"))
    await stage.pump()
    await stage.tasks.delete(task.name)
    minting.set()
    await stage.elapse(HOUR)

    assert stage.sent() == 0

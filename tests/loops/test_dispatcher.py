"""The dispatcher with everything real but the network and the time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from taskbell.core.errors import AlreadyExists, NotFound, Unavailable
from taskbell.core.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from taskbell.core.limits import Limits
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.queue import QueueState, RetryConfig
from taskbell.core.target import HttpOverride, OidcToken
from taskbell.engine import Settlement
from taskbell.events import Result
from taskbell.loops.dispatcher import Dispatcher
from taskbell.loops.lane import Window
from tests.loops.stage import PARENT, QUEUE, QUICK, Stage, ticks

WAIT = 10 * SECOND
"""The first backoff of the queues here."""


async def rows(stage: Stage) -> int:
    """How many tasks the engine has."""
    return len(await stage.engine.tasks(QUEUE, None, 10_000, bodies=False))


# When a task goes out.


async def test_a_task_that_is_due_goes_out_once_and_is_gone_after_a_success() -> None:
    """The whole path."""
    stage = Stage()
    await stage.create_queue()
    await stage.create()
    await stage.elapse(HOUR)

    assert stage.sent() == 1
    assert await rows(stage) == 0
    assert [event.result for event in stage.finished] == [Result.COMPLETED]


async def test_s02_a_task_never_goes_out_before_its_time_nor_late_on_an_idle_queue() -> None:
    """The dispatcher's own timers lead to the instant."""
    stage = Stage()
    await stage.create_queue()
    due = stage.clock.now() + 40 * SECOND
    await stage.create(delay=40 * SECOND)
    await stage.elapse(MINUTE)

    assert stage.sender.times["http://h/"] == [due]


async def test_r03_any_answer_outside_the_two_hundreds_is_retried() -> None:
    """Redirects and client errors too."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 301, 304, 404, 422, 500, 299)
    await stage.create()
    await stage.elapse(HOUR)

    assert stage.sent() == 6
    assert await rows(stage) == 0


async def test_the_waits_between_attempts_are_the_documented_series() -> None:
    """10, 20, 40, 80, 160, 240 and then 300 seconds."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 500)
    await stage.create()
    await stage.elapse(20 * MINUTE)

    times = stage.sender.times["http://h/"]
    assert [(b - a) / SECOND for a, b in pairwise(times)] == [10, 20, 40, 80, 160, 240, 300, 300]


async def test_a_task_with_retry_settings_of_its_own_follows_them() -> None:
    """They replace the queue's."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 500)
    await stage.create(retry_config=RetryConfig(max_attempts=2, min_backoff=SECOND, max_backoff=SECOND))
    await stage.elapse(HOUR)

    assert stage.sent() == 2
    assert await rows(stage) == 0


async def test_r05_n02_the_last_attempt_says_so_by_its_count_and_leaves_a_tombstone() -> None:
    """Four attempts with counts 0 to 3; then the task is gone and its name is not free."""
    stage = Stage()
    await stage.create_queue(retry_config=replace(QUICK, max_attempts=4))
    stage.sender.answer("http://h/", 500)
    await stage.create(task_id="t")
    await stage.elapse(HOUR)

    assert stage.sender.headers("X-CloudTasks-TaskRetryCount") == ["0", "1", "2", "3"]
    assert stage.finished[-1].result is Result.EXHAUSTED
    with pytest.raises(NotFound, match="existed recently"):
        await stage.tasks.get(f"{QUEUE}/tasks/t")
    with pytest.raises(AlreadyExists, match="existed too recently"):
        await stage.create(task_id="t")


@pytest.mark.parametrize(
    ("attempts", "duration", "sent"),
    [
        (3, None, 3),  # 0, 10, 30
        (3, 100 * SECOND, 5),  # 0, 10, 30, 70, 150: at 70 three are made but the time is not up
        (10, 5 * SECOND, 10),
        (None, 25 * SECOND, 3),
    ],
)
async def test_r04_retries_end_when_every_limit_that_is_set_is_reached(
    attempts: int | None, duration: int | None, sent: int
) -> None:
    """By attempts, by both, by time alone."""
    stage = Stage()
    config = replace(QUICK, max_attempts=attempts, max_retry_duration=duration)
    await stage.create_queue(retry_config=config)
    stage.sender.answer("http://h/", 500)
    await stage.create()
    await stage.elapse(2 * HOUR)

    assert stage.sent() == sent
    assert await rows(stage) == 0


async def test_r01_the_headers_of_one_task_over_six_answers() -> None:
    """The recorded sequence, through the dispatcher."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 503, 404, 429, 500, 302, 200)
    await stage.create()
    await stage.elapse(HOUR)

    headers = stage.sender.headers
    assert headers("X-CloudTasks-TaskRetryCount") == ["0", "1", "2", "3", "4", "5"]
    assert headers("X-CloudTasks-TaskExecutionCount") == ["0", "0", "1", "2", "2", "3"]
    assert headers("X-CloudTasks-TaskPreviousResponse") == [None, "503", "404", "429", "500", "302"]
    assert headers("X-CloudTasks-TaskRetryReason") == [None, "", "", "", "", ""]
    assert len(set(headers("Idempotency-Key"))) == 1


async def test_s10_between_attempts_the_task_shows_what_happened_and_what_comes() -> None:
    """While an attempt is out, and while the next one waits."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 500)
    answer = stage.sender.hold("http://h/")
    start = stage.clock.now()
    name = (await stage.create(task_id="t")).name
    await stage.pump()

    out = await stage.tasks.get(name)
    assert (out.dispatch_count, out.response_count, out.first_dispatch_time) == (1, 0, start)
    assert out.last_attempt is not None
    assert out.last_attempt.status is None

    await stage.advance(SECOND)
    answer.set()
    await stage.pump()
    waiting = await stage.tasks.get(name)
    assert waiting.schedule_time == start + SECOND + WAIT
    assert (waiting.dispatch_count, waiting.response_count, waiting.first_dispatch_time) == (1, 1, start)
    assert waiting.last_attempt is not None
    assert waiting.last_attempt.status == (13, "INTERNAL(13): HTTP status code 500")
    assert waiting.last_attempt.response_time == start + SECOND


async def test_a_task_past_its_time_to_live_is_not_dispatched() -> None:
    """Created thirty-one days ago on a queue that was paused since."""
    stage = Stage()
    await stage.create_queue()
    await stage.queues.pause(QUEUE)
    await stage.create()
    await stage.advance(31 * DAY)
    await stage.queues.resume(QUEUE)
    await stage.elapse(HOUR)

    assert stage.sent() == 0
    assert (await stage.engine.sweep(stage.clock.now(), 100)).expired_tasks == 1


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


# Limits.


async def test_no_interval_sees_more_dispatches_than_rate_and_burst_allow() -> None:
    """Three hundred tasks at 7 a second; retries take tokens like first attempts."""
    stage = Stage()
    await stage.create_queue(rate=7.0)
    stage.sender.answer("http://h/", 500, 200)
    for _ in range(300):
        await stage.create()
    await stage.elapse(5 * MINUTE)

    times = stage.sender.times["http://h/"]
    assert len(times) == 301
    for index, since in enumerate(times):
        for count, until in enumerate(times[index:], start=1):
            assert count <= 7.0 * (until - since) / SECOND + 10 + 1e-6


async def test_a_queue_of_one_in_a_thousand_seconds_keeps_to_it() -> None:
    """After its burst of ten."""
    stage = Stage()
    await stage.create_queue(rate=0.001)
    for _ in range(12):
        await stage.create()
    await stage.elapse(999 * SECOND)
    assert stage.sent() == 10
    await stage.elapse(2 * SECOND)
    assert stage.sent() == 11


async def test_q04_never_more_attempts_are_out_than_the_queue_allows() -> None:
    """Thirty tasks, three at a time."""
    stage = Stage()
    await stage.create_queue(slots=3)
    for _ in range(30):
        await stage.create()
    for _ in range(20):
        answer = stage.sender.hold("http://h/")
        await stage.pump()
        del stage.sender.held["http://h/"]
        answer.set()
        await stage.pump()

    assert stage.sender.most_open == 3
    assert stage.sent() == 30


async def test_one_queue_does_not_wait_for_another() -> None:
    """Q08: the second queue's task goes out although the first is stuck."""
    stage = Stage()
    other = QUEUE + "2"
    await stage.create_queue(slots=1)
    await stage.create_queue(other)
    stage.sender.hold("http://h/stuck")
    for _ in range(5):
        await stage.create("stuck")
    await stage.create("quick", queue=other)
    await stage.pump()

    assert (stage.sent("stuck"), stage.sent("quick")) == (1, 1)


async def test_5_000_tasks_go_through_a_window_of_ten_each_once() -> None:
    """Whatever their order, with memory bounded all the way."""
    stage = Stage(window=Window(tasks=10, bytes=1 << 20))
    await stage.create_queue(slots=5000)
    most = 0
    for number in range(5000):
        await stage.create(f"{number}", delay=(number * 7919 % 600) * SECOND)
        most = max(most, stage.lane().held)
    await stage.elapse(15 * MINUTE)

    assert {len(times) for times in stage.sender.times.values()} == {1}
    assert len(stage.sender.times) == 5000
    assert most <= 15
    assert await rows(stage) == 0


# Throttling.


@pytest.mark.parametrize("status", [429, 503])
async def test_q08_an_overloaded_handler_slows_its_queue_down_and_successes_speed_it_up(status: int) -> None:
    """The configuration that callers see stays."""
    stage = Stage()
    await stage.create_queue(rate=64.0)
    stage.sender.answer("http://h/", *[status] * 40, 200)
    for _ in range(40):
        await stage.create()
    await stage.elapse(5 * SECOND)
    assert stage.lane().throttle.rate < 64.0
    assert (await stage.queues.get(QUEUE)).rate_limits.max_dispatches_per_second == 64.0

    await stage.elapse(HOUR)
    assert await rows(stage) == 0
    assert stage.lane().throttle.rate == 64.0


async def test_other_failures_do_not_slow_the_queue_down() -> None:
    """A bug in a handler is not an overload."""
    stage = Stage()
    await stage.create_queue(rate=64.0)
    stage.sender.answer("http://h/", 500)
    await stage.create()
    await stage.elapse(HOUR)

    assert stage.lane().throttle.rate == 64.0


@pytest.mark.parametrize(
    ("text", "wait"), [("60", 60), ("Fri, 15 Jan 2027 08:01:40 GMT", 100), ("3600", 300), ("1", 10)]
)
async def test_a_retry_after_is_kept_between_backoff_and_max_backoff(text: str, wait: int) -> None:
    """Seconds or a date."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", Outcome(status=429, retry_after=text), 200)
    start = stage.clock.now()
    await stage.create()
    await stage.elapse(HOUR)

    assert stage.sender.times["http://h/"] == [start, start + wait * SECOND]


# Faults.


@pytest.mark.parametrize("status", [200, 500])
async def test_a_store_that_is_away_when_an_attempt_ends_neither_repeats_nor_loses_the_work(status: int) -> None:
    """The outcome is kept until the store takes it."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", status, 200)
    await stage.create()
    stage.engine.refusals["settle"] = 5
    await stage.advance(4 * SECOND, SECOND)
    assert stage.sent() == 1
    assert await rows(stage) == 1
    await stage.elapse(HOUR)

    assert stage.sent() == (1 if status == 200 else 2)
    assert await rows(stage) == 0


async def test_a_store_that_is_away_when_a_window_is_read_is_asked_again() -> None:
    """A second later."""
    stage = Stage()
    await stage.create_queue()
    await stage.queues.pause(QUEUE)
    await stage.create()
    again = Stage(engine=stage.engine, clock=stage.clock)
    again.engine.refusals["due_tasks"] = 3
    await again.dispatcher.load()
    await again.queues.resume(QUEUE)
    await again.elapse(10 * SECOND)

    assert again.sent() == 1


async def test_a_fault_of_the_senders_own_is_a_failed_attempt_and_not_a_lost_task() -> None:
    """It is tried again after its backoff."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.breaks = True
    await stage.create()
    await stage.pump()
    stage.sender.breaks = False
    await stage.elapse(HOUR)

    assert stage.sent() == 1
    assert stage.finished[0].outcome.failure is Failure.UNSENDABLE
    assert "a sender must never do this" in stage.finished[0].outcome.reason


async def test_without_a_token_the_attempt_fails_with_the_reason() -> None:
    """Nothing is sent; the retry has a token."""
    stage = Stage()
    await stage.create_queue()
    stage.minter.refusal = "configure Google credentials"
    await stage.create(token=OidcToken("a@p"))
    await stage.pump()
    assert (stage.sent(), stage.finished[0].outcome.reason) == (0, "configure Google credentials")
    stage.minter.refusal = ""
    await stage.elapse(HOUR)

    assert stage.sender.headers("Authorization") == ["Bearer a@p for http://h/"]


async def test_a_queues_override_applies_to_tasks_that_wait_already() -> None:
    """The stored task keeps its URL, which stays the token's default audience."""
    stage = Stage()
    await stage.create_queue()
    task = await stage.create("x", delay=MINUTE, task_id="t", token=OidcToken("a@p"))
    override = HttpOverride(host="other", has_uri=True, method="GET")
    await stage.queues.update(QUEUE, lambda queue: replace(queue, http_override=override))
    assert (await stage.tasks.get(task.name)).target == task.target
    await stage.elapse(HOUR)

    (request,) = stage.sender.requests
    assert (request.url, request.method, request.body) == ("http://other/x", "GET", None)
    assert dict(request.headers)["Authorization"] == "Bearer a@p for http://h/x"


async def test_a_refused_create_dispatches_nothing() -> None:
    """The caller was told so."""
    stage = Stage()
    await stage.create_queue()
    stage.engine.refusals["create_tasks"] = 1
    with pytest.raises(Unavailable):
        await stage.create()
    await stage.elapse(HOUR)

    assert stage.sent() == 0


# Restarts and ends.


async def test_p02_what_was_out_when_the_process_died_goes_out_again() -> None:
    """At once, and only that."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.hold("http://h/out")
    await stage.create("out")
    await stage.create("done")
    await stage.create("later", delay=HOUR)
    await stage.pump()
    again = Stage(engine=stage.engine, clock=stage.clock)
    await again.dispatcher.load()
    await again.elapse(MINUTE)

    assert (again.sent("out"), again.sent("done"), again.sent("later")) == (1, 0, 0)
    await stage.dispatcher.drain(0)


async def test_an_attempt_that_ends_within_the_grace_period_is_settled() -> None:
    """And nothing new begins meanwhile."""
    stage = Stage()
    await stage.create_queue()
    answer = stage.sender.hold("http://h/")
    await stage.create()
    await stage.pump()
    draining = asyncio.ensure_future(stage.dispatcher.drain(10 * SECOND))
    await ticks()
    await stage.create("new")
    await stage.pump()
    answer.set()

    assert await draining == 0
    assert (stage.sent(), stage.sent("new")) == (1, 0)
    assert await rows(stage) == 1


async def test_an_attempt_that_outlasts_the_grace_period_is_cut_and_its_task_stays() -> None:
    """It will be delivered again by whoever starts next."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.hold("http://h/")
    await stage.create()
    await stage.pump()
    draining = asyncio.ensure_future(stage.dispatcher.drain(10 * SECOND))
    await ticks()
    stage.clock.advance(10 * SECOND)

    assert await draining == 1
    assert stage.sender.open == 0
    assert await rows(stage) == 1


async def test_a_dispatcher_that_drains_refuses_forced_runs() -> None:
    """The caller may try again elsewhere."""
    stage = Stage()
    await stage.create_queue()
    task = await stage.create(task_id="t", delay=HOUR)
    assert await stage.dispatcher.drain(SECOND) == 0

    with pytest.raises(Unavailable):
        await stage.tasks.run(task.name)


# The clock.


async def test_p04_a_clock_set_back_two_hours_loses_nothing_and_fires_nothing_twice() -> None:
    """What was due stays due, what is out ends, what waits for its time does so once."""
    stage = Stage()
    await stage.create_queue(rate=1.0)
    for number in range(30):
        await stage.create(f"due{number}")
    await stage.create("soon", delay=MINUTE)
    await stage.create("late", delay=3 * HOUR)
    await stage.elapse(2 * SECOND)
    before = len(stage.sender.requests)
    assert 10 <= before < 30

    stage.clock.step(-2 * HOUR)
    await stage.elapse(45 * SECOND)
    assert sum(stage.sent(f"due{number}") for number in range(30)) == 30
    assert stage.sent("soon") == 0
    await stage.advance(6 * HOUR, MINUTE)

    assert {len(times) for times in stage.sender.times.values()} == {1}
    assert stage.sent("soon") == stage.sent("late") == 1


async def test_p04_a_backlog_behind_the_window_stays_due_when_the_clock_goes_back() -> None:
    """It is read from the engine after the step."""
    stage = Stage(window=Window(tasks=2, bytes=1 << 20))
    await stage.create_queue(slots=1)
    answer = stage.sender.hold("http://h/0")
    for number in range(20):
        await stage.create(f"{number}")
    await stage.pump()
    stage.clock.step(-2 * HOUR)
    answer.set()
    await stage.elapse(10 * SECOND)

    assert sorted(len(times) for times in stage.sender.times.values()) == [1] * 20


async def test_p04_a_clock_set_forward_a_day_fires_what_has_become_due_once() -> None:
    """Within a second, without a wake-up from outside."""
    stage = Stage()
    await stage.create_queue()
    for number in range(20):
        await stage.create(f"{number}", delay=(number + 1) * HOUR)
    await stage.create("beyond", delay=30 * HOUR)
    await stage.pump()
    stage.clock.step(DAY)
    await stage.elapse(1100 * MILLISECOND)
    assert len(stage.sender.requests) == 20
    await stage.advance(DAY, 10 * MINUTE)

    assert {len(times) for times in stage.sender.times.values()} == {1}
    assert stage.sent("beyond") == 1


async def test_p04_a_retry_after_a_step_back_waits_its_backoff_and_no_two_hours() -> None:
    """Its time is counted on the clock as it is now."""
    stage = Stage()
    await stage.create_queue()
    stage.sender.answer("http://h/", 500, 200)
    answer = stage.sender.hold("http://h/")
    await stage.create()
    await stage.pump()
    stage.clock.step(-2 * HOUR)
    answer.set()
    await stage.elapse(9 * SECOND)
    assert stage.sent() == 1
    await stage.elapse(2 * SECOND)
    assert stage.sent() == 2


class CountingDispatcher(Dispatcher):
    """Counts how often it looks."""

    looks = 0

    async def run_once(self) -> int:
        """Look."""
        self.looks += 1
        return await super().run_once()


@pytest.mark.parametrize("step", [-2 * HOUR, -SECOND, DAY])
async def test_p04_a_step_of_the_clock_makes_no_busy_loop(step: int) -> None:
    """One look a second is enough for a queue that waits."""
    stage = Stage()
    stage.dispatcher = CountingDispatcher(stage.dispatcher._using, stage.clock, stage.window)
    stage.queues._dispatch = stage.tasks._dispatch = stage.dispatcher
    await stage.create_queue()
    await stage.create(delay=50 * HOUR)
    stage.dispatcher.start()
    await ticks()
    stage.clock.step(step)
    before = stage.dispatcher.looks
    for _ in range(60):
        stage.clock.advance(SECOND)
        await ticks()

    assert stage.dispatcher.looks - before <= 65
    assert stage.sent() == 0
    await stage.dispatcher.stop()


async def test_an_idle_dispatcher_sleeps() -> None:
    """Nothing waits: no look but for one in a minute."""
    stage = Stage()
    stage.dispatcher = CountingDispatcher(stage.dispatcher._using, stage.clock, stage.window)
    stage.queues._dispatch = stage.tasks._dispatch = stage.dispatcher
    await stage.create_queue()
    stage.dispatcher.start()
    await ticks()
    before = stage.dispatcher.looks
    for _ in range(300):
        stage.clock.advance(SECOND)
        await ticks()

    assert stage.dispatcher.looks - before == 5
    await stage.dispatcher.stop()


async def test_timers_do_not_pile_up() -> None:
    """A queue that alternates between its bucket and a task far off keeps a handful."""
    stage = Stage()
    await stage.create_queue(rate=50.0)
    await stage.create("far", delay=HOUR)
    for _ in range(10):
        await stage.create()
    await stage.pump()
    most = 0
    for _ in range(500):
        await stage.create()
        await stage.advance(20 * MILLISECOND, 5 * MILLISECOND)
        most = max(most, len(stage.dispatcher._timers))

    assert stage.sent() >= 500
    assert most < 120


async def test_a_late_settlement_of_an_older_attempt_changes_nothing() -> None:
    """The engine's own guard, as the dispatcher relies on it."""
    stage = Stage()
    await stage.create_queue()
    task = await stage.create(task_id="t", delay=HOUR)
    newer = replace(task, dispatch_count=2, schedule_time=task.schedule_time + HOUR)
    older = replace(task, dispatch_count=1)

    assert await stage.engine.settle([Settlement(task, newer), Settlement(task, older)], 0) == [True, False]

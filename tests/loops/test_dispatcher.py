"""The dispatcher with everything real but the network and the time: when a task goes out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from taskbell.core.errors import AlreadyExists, NotFound
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND
from taskbell.core.queue import RetryConfig
from taskbell.events import Result
from tests.loops.stage import QUEUE, QUICK, WAIT, Stage, rows


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

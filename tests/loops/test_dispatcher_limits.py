"""Rates, bursts, slots, windows and throttling, as the dispatcher keeps to them."""

from __future__ import annotations

import pytest

from taskbell.core.instant import HOUR, MINUTE, SECOND
from taskbell.core.outcome import Outcome
from taskbell.loops.lane import Window
from tests.loops.stage import QUEUE, Stage, rows

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

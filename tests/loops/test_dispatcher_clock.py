"""P04: steps of the wall clock lose nothing, fire nothing twice, and make no busy loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from taskbell.engine import Settlement
from taskbell.loops.dispatcher import Dispatcher
from taskbell.loops.lane import Window
from tests.loops.stage import Stage, ticks


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

"""The shape of everything that runs for ever, and the sweeper in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from taskbell.core.errors import Unavailable
from taskbell.core.instant import DAY, MILLISECOND, SECOND, Span
from taskbell.loops.loop import Loop
from taskbell.loops.sweeper import Sweeper
from taskbell.testing.clock import ManualClock
from tests.loops.stage import QUEUE, Stage, ticks


class Turns(Loop):
    """Counts its turns, and does in them what it is told."""

    def __init__(self, clock: ManualClock, pause: Span, act: Callable[[], None] = lambda: None) -> None:
        """`pause` after each turn."""
        super().__init__(clock)
        self.pause, self.act, self.turns = pause, act, 0

    async def run_once(self) -> Span:
        """One turn."""
        self.turns += 1
        self.act()
        return self.pause


async def test_a_loop_rests_as_long_as_its_work_says() -> None:
    """And not a microsecond less."""
    clock = ManualClock()
    loop = Turns(clock, 10 * SECOND)
    loop.start()
    await ticks()
    clock.advance(10 * SECOND - 1)
    await ticks()
    assert loop.turns == 1
    clock.advance(1)
    await ticks()
    assert loop.turns == 2
    await loop.stop()


async def test_a_loop_that_is_woken_does_not_wait_any_longer() -> None:
    """A wake-up during the work is not lost either."""
    clock = ManualClock()
    loop = Turns(clock, DAY)
    loop.start()
    await ticks()
    loop.wake.set()
    await ticks()
    assert loop.turns == 2

    loop.act = lambda: loop.wake.set() if loop.turns == 3 else None
    loop.wake.set()
    await ticks()
    assert loop.turns == 4
    await loop.stop()


async def test_a_loop_outlives_its_faults_and_rests_after_each() -> None:
    """Ours, and those of the store."""
    for fault in (ZeroDivisionError("ours"), Unavailable("the disk is away")):
        clock = ManualClock()

        def act(fault: Exception = fault) -> None:
            raise fault

        loop = Turns(clock, 0, act)
        loop.start()
        await ticks()
        assert (loop.turns, clock.waits) == (1, [SECOND])
        loop.act = lambda: None
        loop.pause = DAY
        clock.advance(SECOND)
        await ticks()
        assert loop.turns == 2
        await loop.stop()


async def test_a_loop_may_be_stopped_before_it_starts_twice_and_in_its_rest() -> None:
    """It waits for the turn that is under way, and makes no other."""
    loop = Turns(ManualClock(), DAY)
    await loop.stop()
    loop.start()
    await ticks()
    await asyncio.gather(loop.stop(), loop.stop())
    await loop.stop()

    assert loop.turns == 1


async def test_the_sweeper_goes_on_while_there_is_more_than_a_batch() -> None:
    """Then it rests."""
    stage = Stage()
    await stage.create_queue()
    await stage.queues.pause(QUEUE)
    for _ in range(5):
        await stage.create()
    sweeper = Sweeper(stage.engine, stage.clock, history=DAY, batch=2)
    assert await sweeper.run_once() == 10 * SECOND
    stage.clock.advance(31 * DAY + SECOND)

    assert [await sweeper.run_once() for _ in range(3)] == [50 * MILLISECOND, 50 * MILLISECOND, 10 * SECOND]
    assert await stage.engine.depths() == {QUEUE: 0}

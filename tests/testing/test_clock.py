"""The clock for tests, and that the machine's own behaves alike."""

from __future__ import annotations

import asyncio

import pytest

from taskbell.clock import SystemClock
from taskbell.core.instant import HOUR, MILLISECOND, SECOND
from taskbell.testing.clock import ManualClock


async def finished(wait: asyncio.Future[None]) -> bool:
    """Whether a wait has returned once everything that can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)
    return wait.done()


async def test_time_stands_still_until_it_is_moved() -> None:
    """Both clocks."""
    clock = ManualClock(now=100, monotonic=7)

    assert (clock.now(), clock.now(), clock.monotonic()) == (100, 100, 7)


async def test_advance_moves_both_clocks_and_step_the_wall_alone() -> None:
    """In either direction."""
    clock = ManualClock(now=100, monotonic=7)
    clock.advance(5)
    clock.step(-50)
    clock.step(1)

    assert (clock.now(), clock.monotonic()) == (56, 12)


async def test_time_does_not_pass_backwards() -> None:
    """A test that says so is wrong."""
    with pytest.raises(AssertionError):
        ManualClock().advance(-1)


async def test_a_wait_ends_when_its_timeout_has_passed() -> None:
    """A step of the wall clock is no time."""
    clock = ManualClock()
    wait = asyncio.ensure_future(clock.wait(asyncio.Event(), 10))
    assert not await finished(wait)
    clock.step(HOUR)
    clock.advance(9)
    assert not await finished(wait)
    assert clock.waits == [1]
    clock.advance(1)
    assert await finished(wait)
    assert clock.waits == []


async def test_a_wait_ends_when_its_event_is_set() -> None:
    """And leaves nothing behind; so does one that is cancelled."""
    clock = ManualClock()
    event = asyncio.Event()
    wait = asyncio.ensure_future(clock.wait(event, 10))
    other = asyncio.ensure_future(clock.wait(asyncio.Event(), 5))
    assert not await finished(wait)
    assert clock.waits == [5, 10]
    event.set()
    other.cancel()
    assert await finished(wait)
    assert clock.waits == []


@pytest.mark.parametrize("timeout", [0, -1])
async def test_a_wait_of_no_time_returns(timeout: int) -> None:
    """At once, whether the event is set or not."""
    await ManualClock().wait(asyncio.Event(), timeout)


async def test_the_systems_clock_waits_for_the_event_or_the_timeout() -> None:
    """And its times move on."""
    clock = SystemClock()
    before, wall = clock.monotonic(), clock.now()
    await clock.wait(asyncio.Event(), 20 * MILLISECOND)
    assert clock.monotonic() - before >= 15 * MILLISECOND
    assert clock.now() >= wall
    event = asyncio.Event()
    wait = asyncio.ensure_future(clock.wait(event, HOUR))
    event.set()
    await asyncio.wait_for(wait, 5)
    assert clock.monotonic() - before < 60 * SECOND

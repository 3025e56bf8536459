"""A clock that stands still until a test moves it.

Wall and monotonic time move independently: `advance` is time passing, `step` is somebody setting the wall clock.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

from taskbell.core.instant import SECOND, Instant, Span

START: Instant = 1_800_000_000 * SECOND
"""2027-01-15T08:00:00Z: a wall time no test needs to care about."""


class ManualClock:
    """A `taskbell.clock.Clock` for tests. Make it and use it within one event loop."""

    def __init__(self, now: Instant = START, monotonic: Span = 0) -> None:
        """Begin at these times."""
        self._now = now
        self._monotonic = monotonic
        self._waiters: list[tuple[Span, int, asyncio.Event]] = []
        self._order = count()

    def now(self) -> Instant:
        """Wall time."""
        return self._now

    def monotonic(self) -> Span:
        """Monotonic time."""
        return self._monotonic

    async def wait(self, event: asyncio.Event, timeout: Span) -> None:
        """Return when the event is set or the clock was advanced by the timeout; a timeout sets the event."""
        if timeout <= 0:
            event.set()
        waiter = (self._monotonic + timeout, next(self._order), event)
        heapq.heappush(self._waiters, waiter)
        try:
            await event.wait()
        finally:
            # An event that was set by somebody else leaves its waiter behind.
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                heapq.heapify(self._waiters)

    def advance(self, span: Span) -> None:
        """Let time pass: both clocks move, and waits whose timeout has passed return."""
        assert span >= 0, "time does not pass backwards: step() sets the wall clock"
        self._now += span
        self._monotonic += span
        while self._waiters and self._waiters[0][0] <= self._monotonic:
            heapq.heappop(self._waiters)[2].set()

    def step(self, span: Span) -> None:
        """Set the wall clock by this much, in either direction. No time passes, and no wait returns."""
        self._now += span

    @property
    def waits(self) -> list[Span]:
        """How long each wait under way still takes, shortest first."""
        return [deadline - self._monotonic for deadline, _, _ in sorted(self._waiters, key=lambda w: w[:2])]

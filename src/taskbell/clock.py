"""The clock is an argument: whoever needs time is given a `Clock`.

Wall time (`now`) says when tasks are due; monotonic time paces and measures. `taskbell.testing.ManualClock` is the
implementation for tests, which moves either of them by hand.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from taskbell.core.instant import SECOND, Instant, Span


class Clock(Protocol):
    """Wall and monotonic time, and waiting."""

    def now(self) -> Instant:
        """Wall time. May step in either direction."""

    def monotonic(self) -> Span:
        """Time since some fixed instant. Never steps."""

    async def wait(self, event: asyncio.Event, timeout: Span) -> None:
        """Return when the event is set or the monotonic timeout has passed, whichever is first.

        A timeout may leave the event set.
        """


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Instant:
        """Wall time, in microseconds since the Unix epoch."""
        return time.time_ns() // 1000

    def monotonic(self) -> Span:
        """CLOCK_MONOTONIC in microseconds."""
        return time.monotonic_ns() // 1000

    async def wait(self, event: asyncio.Event, timeout: Span) -> None:
        """Wait on the event loop's own (monotonic) timers. A timeout sets the event, which is cheaper than a task."""
        timer = asyncio.get_running_loop().call_later(timeout / SECOND, event.set)
        try:
            await event.wait()
        finally:
            timer.cancel()

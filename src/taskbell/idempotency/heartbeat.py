"""Renewing a lease while work runs, and saying when that failed.

The rhythm is one pure function, `next_beat`; a thread (`Heartbeat`) or a task of the event loop (`AsyncHeartbeat`)
walks it. Time is monotonic, and a lease is counted from before its renewal was asked for, so that ours never ends later
than the store's. Renewing stops at a cap: work that hangs must not keep its key for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from taskbell.core.instant import SECOND, Span

log = logging.getLogger("taskbell.idempotency")


class Clock(Protocol):
    """Monotonic time, and waiting in a thread."""

    def monotonic(self) -> Span:
        """Time since some fixed instant. Never steps."""

    def wait(self, event: threading.Event, timeout: Span) -> None:
        """Return when the event is set or the timeout has passed."""


class AsyncClock(Protocol):
    """Monotonic time, and waiting on an event loop. `taskbell.testing.ManualClock` is one."""

    def monotonic(self) -> Span:
        """Time since some fixed instant. Never steps."""

    async def wait(self, event: asyncio.Event, timeout: Span) -> None:
        """Return when the event is set or the timeout has passed, which may set the event."""


class SystemClock:
    """The machine's clock, for threads."""

    def monotonic(self) -> Span:
        """Microseconds."""
        return time.monotonic_ns() // 1000

    def wait(self, event: threading.Event, timeout: Span) -> None:
        """Wait."""
        event.wait(timeout / SECOND)


class AsyncSystemClock:
    """The machine's clock, for event loops."""

    def monotonic(self) -> Span:
        """Microseconds."""
        return time.monotonic_ns() // 1000

    async def wait(self, event: asyncio.Event, timeout: Span) -> None:
        """Wait."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), timeout / SECOND)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How a lease is kept."""

    lease: Span
    interval: Span
    """Between renewals. Well below the lease, so that one that fails can be tried again in time."""
    longest: Span
    """From the beginning of the work to the last renewal."""


@dataclass(frozen=True, slots=True)
class Beat:
    """What comes next: wait, then renew, or give up if there is nothing left to renew."""

    wait: Span
    is_last: bool
    """Nothing is renewed after the wait: the lease has ended by then."""


def next_beat(rhythm: Rhythm, began: Span, held_until: Span, now: Span) -> Beat:
    """Decide from when the work began, how long the claim is held, and now."""
    left = max(0, held_until - now)
    if now + rhythm.interval > began + rhythm.longest:
        return Beat(left, is_last=True)
    return Beat(min(rhythm.interval, left), is_last=left == 0)


class Kept(Protocol):
    """The hold whose lease is kept."""

    held_until: Span
    """As far as is known now."""

    def lose(self) -> None:
        """It is, or may be, another's."""


class Heartbeat:
    """A thread that renews one lease."""

    def __init__(self, clock: Clock, rhythm: Rhythm, kept: Kept, renew: Callable[[], bool]) -> None:
        """`renew` asks the store, notes what it said, and returns whether the claim is still ours."""
        self._clock, self._rhythm, self._kept, self._renew = clock, rhythm, kept, renew
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="taskbell-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more. Does not wait for a renewal that is under way: its result is ignored."""
        self._stopping.set()

    def _beat(self) -> None:
        began = self._clock.monotonic()
        while True:
            beat = next_beat(self._rhythm, began, self._kept.held_until, self._clock.monotonic())
            self._clock.wait(self._stopping, beat.wait)
            if self._stopping.is_set():
                return
            if beat.is_last or not self._is_ours():
                self._kept.lose()
                return

    def _is_ours(self) -> bool:
        try:
            return self._renew()
        except Exception:
            # The store may be back before the lease ends; if not, next_beat says so.
            log.exception("a lease could not be renewed")
            return True


class AsyncHeartbeat:
    """A task of the event loop that renews one lease."""

    def __init__(self, clock: AsyncClock, rhythm: Rhythm, kept: Kept, renew: Callable[[], Awaitable[bool]]) -> None:
        """As `Heartbeat`."""
        self._clock, self._rhythm, self._kept, self._renew = clock, rhythm, kept, renew
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._beat(), name="taskbell-heartbeat")

    def stop(self) -> None:
        """Renew no more. A renewal that is under way is cancelled, which leaves it done or not done."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()

    async def _beat(self) -> None:
        began = self._clock.monotonic()
        while True:
            beat = next_beat(self._rhythm, began, self._kept.held_until, self._clock.monotonic())
            await self._clock.wait(asyncio.Event(), beat.wait)
            if self._is_stopping:
                return
            if beat.is_last or not await self._is_ours():
                self._kept.lose()
                return

    async def _is_ours(self) -> bool:
        try:
            return await self._renew()
        except Exception:
            log.exception("a lease could not be renewed")
            return True

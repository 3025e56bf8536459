"""A clock for threads that stands still until a test moves it: what `ManualClock` is for event loops."""

from __future__ import annotations

import threading

from taskbell.core.instant import SECOND, Instant, Span
from taskbell.testing.clock import START


class ManualThreadClock:
    """A `taskbell.idempotency.heartbeat.Clock`, and the wall time of stores."""

    def __init__(self, now: Instant = START, monotonic: Span = 0) -> None:
        """Begin at these times."""
        self._now = now
        self._monotonic = monotonic
        self._waiting: dict[threading.Event, Span] = {}
        self._changed = threading.Condition()

    def now(self) -> Instant:
        """Wall time."""
        return self._now

    def monotonic(self) -> Span:
        """Monotonic time."""
        return self._monotonic

    def wait(self, event: threading.Event, timeout: Span) -> None:
        """Return when the clock was advanced by the timeout, or soon after the event was set."""
        with self._changed:
            self._waiting[event] = self._monotonic + timeout
            self._changed.notify_all()
            while self._monotonic < self._waiting[event] and not event.is_set():
                # An event cannot wake a condition: look now and then.
                self._changed.wait(0.01)
            del self._waiting[event]
            self._changed.notify_all()

    def advance(self, span: Span) -> None:
        """Let time pass."""
        assert span >= 0, "time does not pass backwards"
        with self._changed:
            self._now += span
            self._monotonic += span
            self._changed.notify_all()

    def until_waiting(self, left: Span, patience: float = 10) -> None:
        """Block until some thread waits for `left` from now, so that moving the clock cannot overtake it."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self._monotonic + left in self._waiting.values(), timeout=patience)
            assert reached, f"no thread waits {left / SECOND} s, but {self._waiting.values()}"

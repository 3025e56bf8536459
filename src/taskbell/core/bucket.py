"""The token bucket that paces a queue (wire.md section 5.8).

Time is monotonic and an argument. Fractions of a token accrue, so rates such as 0.001/s work as they say.
"""

from __future__ import annotations

from taskbell.core.instant import SECOND, Span


class Bucket:
    """Capacity `burst` tokens, refilled continuously at `rate` tokens a second, full at start."""

    __slots__ = ("_burst", "_level", "_rate", "_time")

    def __init__(self, rate: float, burst: int, monotonic: Span) -> None:
        self._rate = rate
        self._burst = burst
        self._level = float(burst)
        self._time = monotonic

    def adjust(self, rate: float, burst: int, monotonic: Span) -> None:
        """Change the rate and the capacity from now on; what has accrued stays, up to the new capacity."""
        self._refill(monotonic)
        self._rate = rate
        self._burst = burst
        self._level = min(self._level, float(burst))

    def available(self, monotonic: Span) -> int:
        """Whole tokens at hand."""
        self._refill(monotonic)
        # A hair of tolerance: a wait computed by `delay` must suffice in spite of floating point.
        return int(self._level + 1e-9)

    def take(self, tokens: int) -> None:
        """Spend tokens that `available` just reported."""
        self._level = max(0.0, self._level - tokens)

    def delay(self) -> Span:
        """How long after the last refill the next whole token is there, in whole microseconds, rounded up."""
        missing = 1.0 - self._level
        return 0 if missing <= 0 else int(missing / self._rate * SECOND) + 1

    def _refill(self, monotonic: Span) -> None:
        elapsed = monotonic - self._time
        if elapsed > 0:
            self._level = min(float(self._burst), self._level + elapsed * self._rate / SECOND)
            self._time = monotonic

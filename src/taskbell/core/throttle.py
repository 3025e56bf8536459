"""Adaptive throttling: how a queue slows down for an overloaded handler (wire.md section 5.9).

The service documents that it throttles without giving numbers; these are ours. The stored configuration is untouched:
only the effective rate moves between a floor and the configured rate.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from taskbell.core.instant import SECOND, Instant, Span, from_datetime
from taskbell.core.target import HttpTarget
from taskbell.core.task import Task

FLOOR = 1 / 64
"""The effective rate never falls below this part of the configured one."""
RECOVERY = 0.05
"""What one success gives back, as a part of the configured rate."""


def is_overload(task: Task, http_status: int | None) -> bool:
    """Whether an answer asks the queue to slow down: 429 and 503 of HTTP handlers, 503 alone of App Engine."""
    return http_status == 503 or (http_status == 429 and isinstance(task.target, HttpTarget))


class Throttle:
    """The effective rate of one queue."""

    __slots__ = ("_configured", "_factor", "_halved_time")

    def __init__(self, configured: float) -> None:
        self._configured = configured
        self._factor = 1.0
        self._halved_time: Span | None = None

    @property
    def rate(self) -> float:
        """Dispatches a second, at most the configured rate."""
        return self._configured * self._factor

    def configure(self, rate: float) -> None:
        """A new configured rate; the degree of throttling stays."""
        self._configured = rate

    def overloaded(self, monotonic: Span) -> bool:
        """Note an answer of 429 or 503; halve the rate at most once a second. True if the rate moved."""
        if self._factor <= FLOOR or (self._halved_time is not None and monotonic - self._halved_time < SECOND):
            return False
        self._factor = max(FLOOR, self._factor / 2)
        self._halved_time = monotonic
        return True

    def succeeded(self) -> bool:
        """Note a success; give a little of the rate back. True if the rate moved."""
        if self._factor >= 1.0:
            return False
        self._factor = min(1.0, self._factor + RECOVERY)
        return True


def retry_after(text: str | None, now: Instant, cap: Span) -> Span:
    """How long a Retry-After header asks to wait (RFC 9110 section 10.2.3), from 0 to `cap`; nonsense counts as 0."""
    if not text:
        return 0
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]) * SECOND, cap)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0
    wait = from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    return max(0, min(wait, cap))

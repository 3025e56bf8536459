"""google.protobuf.Timestamp and Duration as instants and spans."""

from __future__ import annotations

from typing import Any

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import EARLIEST, LATEST, SECOND, Instant, Span

_LONGEST_DURATION_SECONDS = 315_576_000_000
"""The range that duration.proto allows, about 10,000 years."""


def instant_of(timestamp: Any, field: str) -> Instant:
    """The instant of a Timestamp, to the microsecond. Raises InvalidArgument where timestamp.proto forbids it."""
    instant: Instant = timestamp.seconds * SECOND + timestamp.nanos // 1000
    if not (0 <= timestamp.nanos < 1_000_000_000 and EARLIEST <= instant <= LATEST):
        raise InvalidArgument(f"{field} is not a valid timestamp: it must lie between the years 0001 and 9999.")
    return instant


def span_of(duration: Any, field: str) -> Span:
    """The span of a Duration, to the microsecond. Raises InvalidArgument where duration.proto forbids it."""
    seconds, nanos = duration.seconds, duration.nanos
    if abs(seconds) > _LONGEST_DURATION_SECONDS or abs(nanos) >= 1_000_000_000 or seconds * nanos < 0:
        raise InvalidArgument(f"{field} is not a valid duration.")
    span: Span = seconds * SECOND + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))
    return span


def set_instant(timestamp: Any, instant: Instant) -> None:
    """Fill a Timestamp."""
    seconds, micros = divmod(instant, SECOND)
    timestamp.seconds = seconds
    timestamp.nanos = micros * 1000


def set_span(duration: Any, span: Span) -> None:
    """Fill a Duration; seconds and nanos have the same sign."""
    seconds, micros = divmod(abs(span), SECOND)
    sign = -1 if span < 0 else 1
    duration.seconds = sign * seconds
    duration.nanos = sign * micros * 1000

"""Instants and spans: how Taskbell counts time.

An `Instant` is an integer count of microseconds since the Unix epoch, a `Span` an integer count of microseconds. The
wire's times are microseconds too (wire.md section 4.1), integers compare and store exactly in every database, and the
hot path pays nothing for them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

Instant = int
Span = int

MICROSECOND: Span = 1
MILLISECOND: Span = 1_000
SECOND: Span = 1_000_000
MINUTE: Span = 60 * SECOND
HOUR: Span = 60 * MINUTE
DAY: Span = 24 * HOUR

EARLIEST: Instant = -62_135_596_800 * SECOND
"""0001-01-01T00:00:00Z, the first instant of google.protobuf.Timestamp."""
LATEST: Instant = 253_402_300_800 * SECOND - 1
"""9999-12-31T23:59:59.999999Z, the last instant of google.protobuf.Timestamp."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(instant: Instant, offset: Span = 0) -> datetime:
    """The instant as an aware datetime at a fixed offset from UTC."""
    return (_EPOCH + timedelta(microseconds=instant)).astimezone(timezone(timedelta(microseconds=offset)))


def from_datetime(moment: datetime) -> Instant:
    """The instant of an aware datetime, exact to the microsecond."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def rfc3339(instant: Instant, offset: Span = 0) -> str:
    """RFC 3339 text: `2026-10-16T12:00:00Z`, with a fraction only where there is one and `Z` at offset zero."""
    text = to_datetime(instant, offset).isoformat()
    return text.removesuffix("+00:00") + "Z" if offset == 0 else text


def decimal_seconds(instant: Instant) -> str:
    """Unix seconds as a decimal with six digits of fraction, as the ETA headers carry it (wire.md section 5.4)."""
    seconds, micros = divmod(instant, SECOND)
    return f"{seconds}.{micros:06d}"


def span_text(span: Span) -> str:
    """A span as Google's error texts print one: `15s`, `30m`, `24h15s`, `720h`."""
    seconds, rest = divmod(span, SECOND)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    parts.append(f"{seconds}{fraction}s" if seconds or fraction else "")
    return "".join(parts) or "0s"

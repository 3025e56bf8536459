"""Timestamps and durations as text: what proto3 JSON, query parameters and filters write.

A Timestamp is RFC 3339 with `Z` or an offset and up to nine digits of fraction; a Duration is decimal seconds that end
in `s`. Both are read to whole nanoseconds, since messages carry those.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

NANOS = 1_000_000_000
LONGEST_DURATION_SECONDS = 315_576_000_000
"""The range that duration.proto allows, about 10,000 years."""

_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_DURATION = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?s")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def timestamp_nanos(text: str) -> int | None:
    """Nanoseconds since the Unix epoch, or None where the text is no timestamp of the years 0001 to 9999."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time}+00:00")
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            moment = moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) // _SECOND * NANOS + _fraction_nanos(fraction)


def duration_nanos(text: str) -> int | None:
    """A span in nanoseconds, or None where the text is no duration within the range of duration.proto."""
    match = _DURATION.fullmatch(text)
    if match is None or int(match[2]) > LONGEST_DURATION_SECONDS:
        return None
    nanos = int(match[2]) * NANOS + _fraction_nanos(match[3])
    return -nanos if match[1] else nanos


def _fraction_nanos(digits: str | None) -> int:
    return int(digits.ljust(9, "0")) if digits else 0

"""Time zones: their names, and the two ways between an instant and the clock on the wall.

A *label* is what a wall clock shows: a naive datetime. An instant has one label. A label has one instant, except in a
gap (clocks go forward: none) and in a repeated hour (clocks go back: two). `schedule.py` decides what a schedule does
there.

The name comes from callers, and `zoneinfo` opens a file of that name. So the name's form is checked first, and the
names that lead out of the tz database (`localtime` is a link to the host's own zone) or to its leap-second copies are
refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from taskbell.core.instant import DAY, MINUTE, SECOND, Instant, Span
from taskbell.core.reason import quoted, refused

_NAME = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")
_LONGEST = 64
_NOT_ZONES = frozenset({"localtime", "posixrules", "posix", "right"})

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - labels are naive on purpose
_MICROSECOND = timedelta(microseconds=1)
# No zone of the tz database changes its offset twice within two days (tests/core/test_zone.py).
_PROBE: Span = DAY


@dataclass(frozen=True, slots=True)
class Zone:
    """The rules of one time zone."""

    rules: tzinfo

    def offset(self, instant: Instant) -> Span:
        """What the zone adds to UTC at an instant."""
        return in_utc(self.label(instant)) - instant

    def label(self, instant: Instant) -> datetime:
        """What the clock on the wall shows at an instant."""
        utc = _EPOCH + timedelta(microseconds=instant)
        return self.rules.fromutc(utc.replace(tzinfo=self.rules)).replace(tzinfo=None, fold=0)

    def first(self, label: datetime) -> Instant:
        """The instant of a label: the first of two, and in a gap the first whole minute after it."""
        before, after = (_offset(label.replace(tzinfo=self.rules, fold=fold)) for fold in (0, 1))
        instant = in_utc(label) - before
        if before >= after:
            return instant
        shift = self.next_shift(instant - (after - before), instant)
        assert shift is not None, "a gap is around a shift"
        return shift + -(shift + after) % MINUTE

    def next_shift(self, start: Instant, until: Instant) -> Instant | None:
        """The first instant in (start, until] at which the offset is another than at `start`, if there is one."""
        if self.rules is UTC:
            return None
        offset = self.offset(start)
        low = start
        while low < until:
            high = min(low + _PROBE, until)
            if self.offset(high) != offset:
                return self._shift_between(low, high, offset)
            low = high
        return None

    def _shift_between(self, low: Instant, high: Instant, offset: Span) -> Instant:
        """The shift in (low, high], to the second, as shifts are."""
        first, last = low // SECOND, -(-high // SECOND)
        while last - first > 1:
            middle = (first + last) // 2
            if self.offset(middle * SECOND) == offset:
                first = middle
            else:
                last = middle
        return last * SECOND


def parse_zone(name: str) -> Zone:
    """The zone of a tz database name; `utc` in any case, and UTC when empty."""
    if not name or name.lower() == "utc":
        return Zone(UTC)
    well_formed = len(name) <= _LONGEST and _NAME.fullmatch(name)
    if well_formed and name.partition("/")[0].lower() not in _NOT_ZONES:
        try:
            return Zone(ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):  # No such file; not a zone's file; a folder.
            pass
    raise refused(
        f"Time zone {quoted(name)} is not in the tz database: expected a name such as Europe/Paris, Etc/UTC or utc."
    )


def _offset(moment: datetime) -> Span:
    """The offset of an aware datetime from UTC."""
    offset = moment.utcoffset()
    assert offset is not None
    return offset // _MICROSECOND


def in_utc(label: datetime) -> Instant:
    """The instant at which a clock in UTC shows the label; a clock with an offset shows it that much earlier."""
    return (label - _EPOCH) // _MICROSECOND

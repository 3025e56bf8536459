"""A job's schedule: text and time zone to "the next fire after this instant". And the rule for clock changes.

Google documents only that anomalies happen when clocks change. Our rule, with a table, is docs/reference/schedules.md:

- A calendar of fixed times (groc's times of day; unix-cron whose minute and hour fields do not begin with `*`) fires
  once for each of its labels: in a gap at the first minute after it, in a repeated hour at the first of the two.
- unix-cron whose minute or hour field begins with `*` follows the clock on the wall: never in a gap, twice in a
  repeated hour.
- A window (`from A to B`, `synchronized`, `on mon`) counts real elapsed time from its start.

`parse_schedule` is called when a job is written and when one is loaded; `next_after` by the ticker, for each fire.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Literal, Protocol

from taskbell.core.cron import Cron, parse_cron
from taskbell.core.groc import ORDINALS, Interval, Specific, Window, parse_groc
from taskbell.core.instant import DAY, EARLIEST, HOUR, LATEST, MICROSECOND, Instant, Span
from taskbell.core.reason import refused
from taskbell.core.zone import Zone, in_utc, parse_zone

Kind = Literal["unix-cron", "groc-specific", "groc-window", "groc-interval"]

_KINDS: Mapping[type, Kind] = {
    Cron: "unix-cron",
    Specific: "groc-specific",
    Window: "groc-window",
    Interval: "groc-interval",
}

LONGEST_SCHEDULE = 1_000
"""Characters; a list of all sixty minutes takes 170."""

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
# Offsets are below a day, so labels near the calendar's first instant would lie before it.
_FIRST_SEARCHED: Instant = EARLIEST + 7 * DAY
_GROC_WORDS = frozenset({"every", "of", "on", "from", "to", "month", "quarter", "synchronized"})
_ODD = re.compile(r"[^\x20-\x7e\t\r\n]")


class _Calendar(Protocol):
    """Labels in order: what unix-cron and groc's times of day have in common."""

    def label_from(self, label: datetime) -> datetime:
        """The first matching label at or after the given one."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a job's `schedule` and `time_zone` mean together."""

    text: str
    time_zone: str
    zone: Zone = field(repr=False, compare=False)
    _rule: Cron | Specific | Window | Interval = field(repr=False, compare=False)

    @property
    def kind(self) -> Kind:
        """Which language it is in, and which family of it."""
        return _KINDS[type(self._rule)]

    @property
    def is_aligned(self) -> bool:
        """Whether its instants are fixed by the clock, not by the end of the run before."""
        return self.interval is None

    @property
    def interval(self) -> Span | None:
        """For an end-time interval, the wait from the end of one run to the start of the next."""
        return self._rule.span if isinstance(self._rule, Interval) else None

    def next_after(self, instant: Instant) -> Instant | None:
        """The first fire strictly later than the instant.

        None for end-time intervals, whose fires depend on the runs (see `interval`), and past the year 9999.
        """
        if isinstance(self._rule, Interval):
            return None
        after = max(instant, _FIRST_SEARCHED)
        try:
            if isinstance(self._rule, Window):
                found = _next_in_windows(self._rule, self.zone, after)
            elif isinstance(self._rule, Cron) and self._rule.follows_clock:
                found = _next_on_the_wall(self._rule, self.zone, after)
            else:
                found = _next_once(self._rule, self.zone, after)
        except OverflowError:  # datetime's, at the end of its calendar.
            return None
        return found if found <= LATEST else None


@lru_cache(maxsize=4096)  # Thousands of jobs share a few schedules, and all are read at a start.
def parse_schedule(text: str, time_zone: str) -> Schedule:
    """The schedule of a job; InvalidArgument names the word that is wrong."""
    if not text.strip():
        raise refused(
            "The field schedule is empty: expected unix-cron such as 0 9 * * 1-5, or groc such as every 5 minutes."
        )
    if len(text) > LONGEST_SCHEDULE:
        raise refused(f"The field schedule has {len(text)} characters: expected at most {LONGEST_SCHEDULE}.")
    if odd := _ODD.search(text):
        raise refused(
            f"The field schedule has the character {odd.group()!a}: expected letters, digits and signs of ASCII."
        )
    return Schedule(text, time_zone, parse_zone(time_zone), parse_groc(text) if _is_groc(text) else parse_cron(text))


def fires(schedule: Schedule, after: Instant, count: int) -> list[Instant]:
    """The next `count` fires; for end-time intervals as if every run were instant. Fewer only at the year 9999."""
    return list(islice(_fires(schedule, after), count))


def _fires(schedule: Schedule, after: Instant) -> Iterator[Instant]:
    """Fire after fire."""
    while True:
        found = schedule.next_after(after) if schedule.interval is None else after + schedule.interval
        if found is None or found > LATEST:
            return
        yield found
        after = found


def _is_groc(text: str) -> bool:
    """Whether the text is to be read, and refused, as groc: it has a word that no unix-cron field can be."""
    words = text.lower().split()
    return not _GROC_WORDS.isdisjoint(words) or words[0].split(",")[0] in ORDINALS or any(":" in word for word in words)


def _next_once(calendar: _Calendar, zone: Zone, after: Instant) -> Instant:
    """Each label fires once. Within a repeated hour the labels from here to its end have fired already."""
    label = zone.label(after)
    while True:
        label = calendar.label_from(label)
        instant = zone.first(label)
        if instant > after:
            return instant
        label += _MINUTE


def _next_on_the_wall(calendar: _Calendar, zone: Zone, after: Instant) -> Instant:
    """Each time the wall shows a matching label: stretch by stretch of one offset."""
    start = after + MICROSECOND
    while True:
        offset = zone.offset(start)
        instant = in_utc(calendar.label_from(zone.label(start))) - offset
        near = min(instant, start + 2 * DAY)
        shift = zone.next_shift(start, near)
        if shift is not None:
            start = shift
        elif instant == near:
            return instant
        else:
            # No label matches between the start's and this one, however the clocks change in between.
            start = instant - 36 * HOUR


def _next_in_windows(window: Window, zone: Zone, after: Instant) -> Instant:
    """Window after window; they do not overlap, since each is shorter than a day."""
    # A window that is still open may have started the day before, by a clock that has gone back a day since.
    day = zone.label(after).date() - 2 * _DAY
    while True:
        if window.is_open_on(day):
            start, end = _bounds(window, zone, day)
            if after < start:
                return start
            found = start + ((after - start) // window.span + 1) * window.span
            if found <= end:
                return found
        day += _DAY


def _bounds(window: Window, zone: Zone, day: date) -> tuple[Instant, Instant]:
    """The instants at which the window of a day opens and closes."""
    last_day = day + _DAY if window.end < window.start else day
    return zone.first(datetime.combine(day, window.start)), zone.first(datetime.combine(last_day, window.end))

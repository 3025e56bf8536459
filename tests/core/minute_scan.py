"""The schedules' oracle: every minute is looked at, one after the other, with nothing of `core` but its units."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)

Matches = Callable[[datetime], bool]


class MinuteScan:
    """The minutes between two instants in UTC, and what the wall shows in each."""

    def __init__(self, zone: str, first: datetime, last: datetime) -> None:
        rules = ZoneInfo(zone)
        self.first, self.last = first, last
        self.labels: dict[datetime, datetime] = {}
        moment = first - 3 * DAY
        while moment <= last + 3 * DAY:
            self.labels[moment] = moment.astimezone(rules).replace(tzinfo=None)
            moment += MINUTE

        self.moments: dict[datetime, datetime] = {}
        """For each label of the wall the moment it fires at when it fires once; labels of gaps included."""
        expected = min(self.labels.values())
        for moment, label in self.labels.items():
            while expected <= label:  # More than one step: the minutes in between are in a gap that ends here.
                self.moments[expected] = moment
                expected += MINUTE

    def within(self, moments: set[datetime]) -> list[datetime]:
        """Those of the span, in order."""
        return sorted(moment for moment in moments if self.first < moment <= self.last)

    def on_the_wall(self, matches: Matches) -> list[datetime]:
        """Every minute whose label matches."""
        return self.within({moment for moment, label in self.labels.items() if matches(label)})

    def once(self, matches: Matches) -> list[datetime]:
        """Each label that matches, once."""
        return self.within({moment for label, moment in self.moments.items() if matches(label)})

    def windows(self, every: timedelta, start: time, end: time, weekdays: set[int]) -> list[datetime]:
        """From the start of each day's window to its end, in steps of real time."""
        found = set()
        days: list[date] = sorted({label.date() for label in self.moments})
        for day in days[1:-2]:
            opens = self.moments[datetime.combine(day, start)]
            closes = self.moments[datetime.combine(day + DAY if end < start else day, end)]
            while day.weekday() in weekdays and opens <= closes:
                found.add(opens)
                opens += every
        return self.within(found)


def utc(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)

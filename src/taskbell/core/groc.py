"""groc, the English-like language: `every 12 hours`, `every monday 09:00`, `1st,third mon of march 17:00`.

    schedule  := "every" interval | "every" weekdays ["of" months] TIME | ordinals weekdays ["of" months] [TIME]
               | days "of" months [TIME]
    interval  := "minute" | N period ["from" TIME "to" TIME | "synchronized" | "on" weekdays]
    period    := "hours" | "hour" | "minutes" | "mins"
    weekdays  := "day" | "mon", "monday" and so on, with commas
    ordinals  := "1st", "first" and so on, with commas: to 5th before weekdays, to 31st before "day" (days of the month)
    days      := 1 to 31, with commas
    months    := "month" | "jan", "january" and so on, with commas | "quarter" | ordinals "month of quarter" (to 3rd)
    TIME      := H:MM or HH:MM, 00:00 where it is left out

Words are lower case. It is Google's published grammar, stretched by what Google's pages show beyond it. `every minute`
is taken and `every 1 minute` is not, as in Google's; `hour` after a number is. Only labels (naive datetimes) are
handled here; `schedule.py` turns them into instants.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, date, datetime, time
from typing import NoReturn

from taskbell.core.instant import DAY, HOUR, MINUTE, Span
from taskbell.core.reason import quoted, refused

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_TEENS = (
    *("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth"),
    *("sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth"),
)
_TENS = (*(f"twenty{unit}" for unit in _UNITS), "thirtieth", "thirtyfirst")


def _names(words: tuple[str, ...], first: int) -> dict[str, int]:
    """Each word and its first three letters."""
    return {name: number for number, word in enumerate(words, first) for name in (word, word[:3])}


def _suffix(number: int) -> str:
    """1st, 2nd, 3rd, 4th and 11th, 12th, 13th."""
    return "th" if number in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


MONTHS: Mapping[str, int] = _names(_MONTHS, 1)
WEEKDAYS: Mapping[str, int] = _names(_WEEKDAYS, 0)
ORDINALS: Mapping[str, int] = {
    name: number
    for number, word in enumerate((*_UNITS, *_TEENS, *_TENS), 1)
    for name in (word, f"{number}{_suffix(number)}")
}
_OF_QUARTER: Mapping[str, int] = {name: number for name, number in ORDINALS.items() if number <= 3}
_DAYS: Mapping[str, int] = {name: day for day in range(1, 32) for name in (str(day), f"{day:02}")}
_PERIODS: Mapping[str, Span] = {"hours": HOUR, "hour": HOUR, "minutes": MINUTE, "mins": MINUTE}

_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_NUMBER = re.compile(r"[0-9]{1,5}")
_WORD = re.compile(r"[^\s,]+|,")

_EVERY_MONTH = frozenset(range(1, 13))
_EVERY_DAY = frozenset(range(7))
_WHOLE_DAY = (time(0, 0), time(23, 59))
_MOST_WEEKS = 5
_LEAP_YEAR = 2028


@dataclass(frozen=True, slots=True)
class Interval:
    """`every N hours`: each run begins this long after the end of the one before."""

    span: Span


@dataclass(frozen=True, slots=True)
class Window:
    """`every N minutes from A to B`: on each of its days at A, then every `span` until B, maybe of the next day."""

    span: Span
    start: time
    end: time
    weekdays: frozenset[int] = _EVERY_DAY

    def is_open_on(self, day: date) -> bool:
        """Whether a window starts on that day."""
        return day.weekday() in self.weekdays


@dataclass(frozen=True, slots=True)
class Specific:
    """One time of day on certain days, as a calendar of labels."""

    months: frozenset[int]
    time: time
    days: frozenset[int] = frozenset()
    """Days of the month; without them, the weekdays count."""
    weekdays: frozenset[int] = frozenset()
    ordinals: frozenset[int] = frozenset(range(1, 6))
    """Which of a month's mondays, tuesdays..."""

    def label_from(self, label: datetime) -> datetime:
        """The first matching label at or after the given one; OverflowError after the year 9999."""
        year, month = label.year, label.month
        while year <= MAXYEAR:
            if month in self.months:
                for day in self._days(year, month):
                    found = datetime.combine(date(year, month, day), self.time)
                    if found >= label:
                        return found
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        raise OverflowError("no such day before the end of the year 9999")

    def _days(self, year: int, month: int) -> list[int]:
        """The month's matching days, in order."""
        weekday, length = monthrange(year, month)
        if self.days:
            return sorted(day for day in self.days if day <= length)
        return [
            day
            for day in range(1, length + 1)
            if (weekday + day - 1) % 7 in self.weekdays and (day + 6) // 7 in self.ordinals
        ]


def parse_groc(text: str) -> Interval | Window | Specific:
    """What the words mean; the first word that cannot stand where it does is refused by name."""
    words = _Words(text)
    if words.take("every"):
        parsed = _parse_every(words)
    elif words.peek() in ORDINALS:
        parsed = _parse_ordinals(words)
    elif _NUMBER.fullmatch(words.peek()):
        parsed = _parse_days(words)
    else:
        words.refuse('"every", an ordinal such as 1st, or days of the month such as 1,15')
    words.end()
    return parsed


class _Words:
    """The words of a schedule, read once from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = _WORD.findall(text)
        self._position = 0

    def peek(self) -> str:
        """The next word, empty at the end."""
        return self._words[self._position] if self._position < len(self._words) else ""

    def next(self) -> str:
        """The next word, which is then done with."""
        word = self.peek()
        self._position += 1
        return word

    def take(self, word: str) -> bool:
        """Whether the next word is this one, which is then done with."""
        if self.peek() != word:
            return False
        self._position += 1
        return True

    def need(self, word: str) -> None:
        """The next word is this one."""
        if not self.take(word):
            self.refuse(quoted(word))

    def listed(self, names: Mapping[str, int], expected: str) -> frozenset[int]:
        """Words with commas between them."""
        found = set()
        while True:
            if self.peek() not in names:
                self.refuse(expected)
            found.add(names[self.next()])
            if not self.take(","):
                return frozenset(found)

    def time_of_day(self) -> time:
        """A time of day."""
        found = _TIME.fullmatch(self.peek())
        if not found or int(found[1]) > 23 or int(found[2]) > 59:
            self.refuse("a time from 00:00 to 23:59")
        self.next()
        return time(int(found[1]), int(found[2]))

    def time_or_midnight(self) -> time:
        """A time of day, which may be left out."""
        return self.time_of_day() if self.peek() else time(0, 0)

    def end(self) -> None:
        """No word is left."""
        if self.peek():
            self.refuse("the end of the schedule")

    def refuse(self, expected: str) -> NoReturn:
        """The next word, or its absence, is the fault."""
        word = self.peek()
        before = f" after {quoted(self._words[self._position - 1])}" if self._position else ""
        found = f"has {quoted(word)}" if word else "ends"
        case = " in lower case" if word != word.lower() else ""
        raise refused(f"The schedule {found}{before}: expected {expected}{case}.")


def _parse_every(words: _Words) -> Interval | Window | Specific:
    """What follows `every`: an interval, or weekdays and a time."""
    if words.take("minute"):
        return Interval(MINUTE)
    if _NUMBER.fullmatch(words.peek()):
        return _parse_interval(words)
    expected = 'a number, weekdays such as mon,fri, or "day"'
    weekdays = _EVERY_DAY if words.take("day") else words.listed(WEEKDAYS, expected)
    return Specific(months=_parse_months(words) or _EVERY_MONTH, time=words.time_of_day(), weekdays=weekdays)


def _parse_interval(words: _Words) -> Interval | Window:
    """N and a period, and the window they count in."""
    number = int(words.peek())
    if not number:
        words.refuse("a number from 1 to 99999")
    words.next()
    if words.peek() not in _PERIODS:
        words.refuse("hours, minutes or mins")
    span = number * _PERIODS[words.next()]
    if words.take("from"):
        start = words.time_of_day()
        words.need("to")
        return Window(span, start, words.time_of_day())
    if words.take("on"):
        return Window(span, *_WHOLE_DAY, words.listed(WEEKDAYS, "weekdays such as mon,fri"))
    if words.peek() == "synchronized":
        if DAY % span:
            words.refuse("it only after an interval that divides 24 hours evenly")
        words.next()
        return Window(span, *_WHOLE_DAY)
    return Interval(span)


def _parse_ordinals(words: _Words) -> Specific:
    """Ordinals: of weekdays, or of days of the month."""
    ordinals = words.listed(ORDINALS, "an ordinal such as 1st or first")
    if words.take("day"):
        return _on_days(ordinals, _parse_months(words) or _EVERY_MONTH, words)
    if max(ordinals) > _MOST_WEEKS:
        words.refuse('"day", as only 1st to 5th can stand before weekdays')
    weekdays = words.listed(WEEKDAYS, 'weekdays such as mon,fri, or "day"')
    months = _parse_months(words) or _EVERY_MONTH
    return Specific(months, words.time_or_midnight(), weekdays=weekdays, ordinals=ordinals)


def _parse_days(words: _Words) -> Specific:
    """Days of the month by number."""
    days = words.listed(_DAYS, "days of the month from 1 to 31")
    months = _parse_months(words)
    if not months:
        words.refuse('"of" and months')
    return _on_days(days, months, words)


def _on_days(days: frozenset[int], months: frozenset[int], words: _Words) -> Specific:
    """Days of the month, at least one of which some year has."""
    if not any(min(days) <= monthrange(_LEAP_YEAR, month)[1] for month in months):
        raise refused(
            f"The schedule {quoted(words.text)} asks for days that its months never have: it would never run."
        )
    return Specific(months, words.time_or_midnight(), days=days)


def _parse_months(words: _Words) -> frozenset[int]:
    """What follows `of`; nothing when there is no `of`."""
    if not words.take("of"):
        return frozenset()
    if words.take("month"):
        return _EVERY_MONTH
    if words.take("quarter"):
        return frozenset({1, 4, 7, 10})
    if words.peek() not in ORDINALS:
        return words.listed(MONTHS, 'months such as jan,jul, "month", "quarter", or as in 1st month of quarter')
    ordinals = words.listed(_OF_QUARTER, "1st, 2nd or 3rd")
    for word in ("month", "of", "quarter"):
        words.need(word)
    return frozenset(month for month in _EVERY_MONTH if (month - 1) % 3 + 1 in ordinals)

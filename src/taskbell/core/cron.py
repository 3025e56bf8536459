"""unix-cron: five fields, checked by our own strict grammar, searched by cronsim.

Only wall-clock labels (naive datetimes) are handled here; `schedule.py` turns them into instants. cronsim's own
handling of clock changes is left aside, since it fires in gaps at midnight and loses minutes where a shift is not a
whole hour.

What the grammar refuses, cronsim would take and mean something that Google does not: a sixth field for seconds, `L`,
`#`, and `5/15`, which other crons read as `5`. What it translates: day of month and day of week are joined by OR unless
one of them is a bare `*` (Google's text), where cronsim has AND as soon as one *begins* with `*` (Debian's rule). So
cronsim gets the values that each field stands for, and a `*` only where the field was a bare one.
"""

from __future__ import annotations

import re
from calendar import monthrange
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from cronsim import CronSim

from taskbell.core.reason import quoted, refused

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SUNDAY = 7

_ITEM = re.compile(r"(?:(?P<star>\*)|(?P<first>[0-9A-Za-z]+)(?:-(?P<last>[0-9A-Za-z]+))?)(?:/(?P<step>[0-9]{1,2}))?")
_NUMBER = re.compile(r"[0-9]{1,2}")
_LEAP_YEAR = 2028


class _Field(NamedTuple):
    """What one of the five fields may say."""

    name: str
    least: int
    most: int
    largest_step: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59, 59),
    _Field("hour", 0, 23, 23),
    # One more than the largest day: people write */32 for "the 1st", and it can mean nothing else.
    _Field("day-of-month", 1, 31, 32),
    _Field("month", 1, 12, 12, _MONTHS),
    _Field("day-of-week", 0, 7, 7, _DAYS),
)

_HINTS = (
    (re.compile(r"@.*"), "Macros such as @daily are no part of unix-cron here: write five fields, as in 0 0 * * *"),
    (re.compile(r".*#.*"), 'No "#" here: for the nth weekday of a month write groc, as in 2nd monday of month 09:00'),
    (re.compile(r".*\?.*"), 'No "?" here: write * for any value'),
    (re.compile(r"[Hh](?:[(/].*)?"), 'No "H" here: write the value itself'),
    (re.compile(r"[0-9]*(?:[Ll]?[Ww]|[Ll])(?:-[0-9]+)?"), 'No "L" or "W" here: write the days themselves'),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """One unix-cron expression, as a calendar of labels."""

    expression: str
    """As cronsim reads it."""
    follows_clock: bool
    """Whether the minute or the hour field begins with `*`: then each matching label fires as often as it comes."""
    _search: CronSim = field(repr=False, compare=False)

    def label_from(self, label: datetime) -> datetime:
        """The first matching label at or after the given one; OverflowError after the year 9999."""
        search = copy(self._search)
        # cronsim answers the first whole second after the one it is given.
        search.dt = (label - timedelta(microseconds=1)).replace(microsecond=0)
        found: datetime = next(search)
        return found


def parse_cron(text: str) -> Cron:
    """The calendar of an expression; what is wrong with it is refused by the field's name."""
    words = text.split()
    _refuse_other_dialects(words)
    minutes, hours, days, months, weekdays = (_values(each, word) for each, word in zip(_FIELDS, words, strict=True))
    weekdays = frozenset(value % _SUNDAY for value in weekdays)
    any_day, any_weekday = words[2] == "*", words[4] == "*"
    if any_weekday and not any(min(days) <= monthrange(_LEAP_YEAR, month)[1] for month in months):
        raise refused(f"No month of field month {quoted(words[3])} has a day {quoted(words[2])}: it would never run.")
    expression = " ".join(
        (
            # For cronsim a star is quicker to read than sixty numbers.
            "*" if len(minutes) == 60 else _listed(minutes),
            "*" if len(hours) == 24 else _listed(hours),
            "*" if any_day else _listed(days),
            "*" if len(months) == 12 else _listed(months),
            "*" if any_weekday else _listed(weekdays),
        )
    )
    return Cron(
        expression=expression,
        follows_clock=words[0].startswith("*") or words[1].startswith("*"),
        _search=CronSim(expression, datetime(_LEAP_YEAR, 1, 1)),  # noqa: DTZ001 - labels are naive; searches set their own
    )


def _refuse_other_dialects(words: list[str]) -> None:
    """Five fields, and none of the letters that other crons give a meaning to."""
    for word in words:
        for pattern, hint in _HINTS:
            if pattern.fullmatch(word):
                raise refused(f"{hint} (found {quoted(word)}).")
    if len(words) != len(_FIELDS):
        seconds = " (there is no field for seconds)" if len(words) == len(_FIELDS) + 1 else ""
        raise refused(
            f"Expected the five fields minute, hour, day-of-month, month and day-of-week, "
            f"but found {len(words)}{seconds}: {quoted(' '.join(words))}."
        )


def _values(each: _Field, word: str) -> frozenset[int]:
    """The values that a field stands for."""
    return frozenset(value for item in word.split(",") for value in _item(each, item, word))


def _item(each: _Field, item: str, word: str) -> range:
    """One part of a list: `*`, a value or a range, and a step after `*` or a range."""
    found = _ITEM.fullmatch(item)
    if not found:
        raise refused(f"Field {each.name} says {quoted(word)}: expected {_expected(each)}.")
    step = int(found["step"] or 1)
    if not 1 <= step <= each.largest_step:
        raise refused(
            f"Field {each.name} has the step {quoted(item)}: expected 1 to {each.largest_step} after the slash."
        )
    if found["star"]:
        # A week has seven days, though the field knows eight numbers for them.
        return range(each.least, min(each.most, 6) + 1 if each.names is _DAYS else each.most + 1, step)
    first = _value(each, found["first"], word)
    if found["last"] is None:
        if found["step"]:
            raise refused(
                f"Field {each.name} has the step {quoted(item)} after a single value: "
                f"expected a range, as in {first}-{each.most}/{step}."
            )
        return range(first, first + 1)
    last = _value(each, found["last"], word)
    if found["last"].upper() == "SUN" and first:
        last = _SUNDAY
    if first >= last:
        raise refused(f"Field {each.name} has the range {quoted(item)}: expected the smaller value first.")
    return range(first, last + 1, step)


def _value(each: _Field, text: str, word: str) -> int:
    """A number or a name."""
    if text.upper() in each.names:
        return each.names.index(text.upper()) + each.least
    if not _NUMBER.fullmatch(text) or not each.least <= int(text) <= each.most:
        raise refused(f"Field {each.name} says {quoted(word)}: expected {_expected(each)}.")
    return int(text)


def _expected(each: _Field) -> str:
    """The values of a field, for a sentence."""
    names = f" or {each.names[0]} to {each.names[-1]}" if each.names else ""
    return f"values of {each.least} to {each.most}{names}, in lists, ranges and steps such as */2"


def _listed(values: frozenset[int]) -> str:
    """The values as cronsim reads them."""
    return ",".join(map(str, sorted(values)))

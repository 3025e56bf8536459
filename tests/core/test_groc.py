"""groc's grammar: every form, what it stands for, and how everything else is refused."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import pytest

from taskbell.core.errors import InvalidArgument
from taskbell.core.groc import ORDINALS, Interval, Specific, Window, parse_groc
from taskbell.core.instant import HOUR, MINUTE, Span

INTERVALS = [
    ("every minute", MINUTE),
    ("every 1 mins", MINUTE),
    ("every 1 minutes", MINUTE),
    ("every 5 minutes", 5 * MINUTE),
    ("every 05 mins", 5 * MINUTE),
    ("every 1 hours", HOUR),
    ("every 1 hour", HOUR),
    ("every 24 hours", 24 * HOUR),
    ("every 48 hours", 48 * HOUR),
    ("every 99999 hours", 99_999 * HOUR),
    ("  every\t12   hours\n", 12 * HOUR),
]


@pytest.mark.parametrize(("text", "span"), INTERVALS)
def test_end_time_intervals(text: str, span: Span) -> None:
    """A number and a period, and nothing behind."""
    assert parse_groc(text) == Interval(span)


WINDOWS = [
    ("every 10 minutes from 10:00 to 14:00", Window(10 * MINUTE, time(10, 0), time(14, 0))),
    ("every 2 hours from 22:30 to 4:05", Window(2 * HOUR, time(22, 30), time(4, 5))),
    ("every 48 hours from 10:00 to 10:00", Window(48 * HOUR, time(10, 0), time(10, 0))),
    ("every 2 hours synchronized", Window(2 * HOUR, time(0, 0), time(23, 59))),
    ("every 24 hours synchronized", Window(24 * HOUR, time(0, 0), time(23, 59))),
    ("every 1440 mins synchronized", Window(24 * HOUR, time(0, 0), time(23, 59))),
    ("every 45 minutes synchronized", Window(45 * MINUTE, time(0, 0), time(23, 59))),
    ("every 60 minutes on mon,wed", Window(HOUR, time(0, 0), time(23, 59), frozenset({0, 2}))),
    ("every 7 hours on sunday", Window(7 * HOUR, time(0, 0), time(23, 59), frozenset({6}))),
]


@pytest.mark.parametrize(("text", "window"), WINDOWS)
def test_windows(text: str, window: Window) -> None:
    """From and to; the whole day; the whole of some days."""
    assert parse_groc(text) == window


def labels(text: str, first: str, count: int) -> list[str]:
    """The first labels of a specific time at or after one."""
    specific, label = parse_groc(text), datetime.fromisoformat(first)
    assert isinstance(specific, Specific)
    found = []
    for _ in range(count):
        label = specific.label_from(label)
        found.append(label.isoformat(timespec="minutes"))
        label += timedelta(minutes=1)
    return found


SPECIFIC = [
    ("every day 00:07", ["2026-01-01T00:07", "2026-01-02T00:07"]),
    ("every day 9:05", ["2026-01-01T09:05", "2026-01-02T09:05"]),
    ("every day of feb 10:00", ["2026-02-01T10:00", "2026-02-02T10:00"]),
    ("every monday 09:00", ["2026-01-05T09:00", "2026-01-12T09:00"]),
    ("every mon,wednesday , fri 09:00", ["2026-01-02T09:00", "2026-01-05T09:00", "2026-01-07T09:00"]),
    ("every sunday of month 23:59", ["2026-01-04T23:59", "2026-01-11T23:59"]),
    ("every tue of 2nd month of quarter 1:00", ["2026-02-03T01:00", "2026-02-10T01:00"]),
    ("1st,third mon,wed of march 17:00", ["2026-03-02T17:00", "2026-03-04T17:00", "2026-03-16T17:00"]),
    ("first sunday of month 12:00", ["2026-01-04T12:00", "2026-02-01T12:00", "2026-03-01T12:00"]),
    ("1st friday of quarter 9:00", ["2026-01-02T09:00", "2026-04-03T09:00", "2026-07-03T09:00"]),
    ("1st mon of first,third month of quarter 1:00", ["2026-01-05T01:00", "2026-03-02T01:00", "2026-04-06T01:00"]),
    ("2nd,third mon,wed,thu of march 17:00", ["2026-03-09T17:00", "2026-03-11T17:00", "2026-03-12T17:00"]),
    ("1st monday of sep,oct,nov 17:00", ["2026-09-07T17:00", "2026-10-05T17:00", "2026-11-02T17:00"]),
    ("1st,2nd monday 9:00", ["2026-01-05T09:00", "2026-01-12T09:00", "2026-02-02T09:00"]),
    ("5th monday of month 00:00", ["2026-03-30T00:00", "2026-06-29T00:00"]),
    ("5th monday of feb 00:00", ["2044-02-29T00:00", "2072-02-29T00:00", "2112-02-29T00:00"]),
    # Without a time: at midnight.
    ("1st,3rd tuesday", ["2026-01-06T00:00", "2026-01-20T00:00"]),
    ("2nd monday,thu", ["2026-01-08T00:00", "2026-01-12T00:00"]),
    ("1 of month", ["2026-01-01T00:00", "2026-02-01T00:00"]),
    # Days of the month.
    ("1 of jan,april,july,oct 00:00", ["2026-01-01T00:00", "2026-04-01T00:00", "2026-07-01T00:00"]),
    ("03 of month 12:34", ["2026-01-03T12:34", "2026-02-03T12:34"]),
    ("1,8,15,22 of month 09:00", ["2026-01-01T09:00", "2026-01-08T09:00", "2026-01-15T09:00"]),
    ("1,3,4,7,11,18,29 of jan,jul 12:34", ["2026-01-01T12:34", "2026-01-03T12:34", "2026-01-04T12:34"]),
    ("31 of quarter 1:00", ["2026-01-31T01:00", "2026-07-31T01:00", "2026-10-31T01:00"]),
    ("29 of feb 10:00", ["2028-02-29T10:00", "2032-02-29T10:00"]),
    ("30 of feb,mar 10:00", ["2026-03-30T10:00", "2027-03-30T10:00"]),
    ("1st,2nd day of month 09:00", ["2026-01-01T09:00", "2026-01-02T09:00", "2026-02-01T09:00"]),
    ("31st day 09:00", ["2026-01-31T09:00", "2026-03-31T09:00"]),
    ("twentyfirst,thirtyfirst day of may", ["2026-05-21T00:00", "2026-05-31T00:00"]),
]


@pytest.mark.parametrize(("text", "expected"), SPECIFIC)
def test_specific_times(text: str, expected: list[str]) -> None:
    """Days, and one time on each of them."""
    assert labels(text, "2026-01-01T00:00", len(expected)) == expected


def test_ordinals_come_in_two_spellings() -> None:
    """From 1st, first to 31st, thirtyfirst."""
    assert len(ORDINALS) == 62
    assert [name for name, number in ORDINALS.items() if number in {2, 3, 12, 20, 22}] == [
        *("second", "2nd", "third", "3rd", "twelfth", "12th", "twentieth", "20th", "twentysecond", "22nd"),
    ]


REFUSED = [
    # The list of cases, and its kind.
    ("every 1 minute", 'has "minute" after "1"'),
    ("every 5 minute", 'has "minute" after "5"'),
    ("every 1 min", 'has "min" after "1": expected hours, minutes or mins'),
    ("every 1h", 'has "1h" after "every"'),
    ("every 7 days", 'has "days" after "7"'),
    ("every 0 minutes", 'has "0" after "every": expected a number from 1 to 99999'),
    ("every 100000 minutes", 'has "100000"'),
    ("every -5 minutes", 'has "-5"'),
    ("every 1.5 hours", 'has "1.5"'),
    ("every weekday 09:00", 'has "weekday" after "every"'),
    ("last friday of month 10:00", 'has "last"'),
    ("every day", 'ends after "day": expected a time from 00:00 to 23:59'),
    ("every monday", 'ends after "monday"'),
    ("every day 9", 'has "9" after "day"'),
    ("every day 9am", 'has "9am"'),
    ("every day at 9:00", 'has "at"'),
    ("every day 24:00", 'has "24:00" after "day"'),
    ("every day 9:60", 'has "9:60"'),
    ("every day 9:5", 'has "9:5"'),
    ("every day 009:00", 'has "009:00"'),
    ("every day,mon 09:00", 'has "," after "day"'),
    ("every 5 minutes from 10:00", 'ends after "10:00": expected "to"'),
    ("every 5 minutes from 10:00 to", "ends after"),
    ("every 5 minutes from 10:00 until 12:00", 'has "until" after "10:00": expected "to"'),
    ("every 5 minutes to 10:00", 'has "to" after "minutes": expected the end'),
    ("every 5 minutes from 10:00 to 12:00 on mon", 'has "on" after "12:00"'),
    ("every 7 hours synchronized", 'has "synchronized" after "hours"'),
    ("every 48 hours synchronized", 'has "synchronized" after "hours": expected it only after an interval that'),
    ("every 7 minutes synchronized", 'has "synchronized"'),
    ("every 2 hours synchronized from 10:00 to 14:00", 'has "from" after "synchronized"'),
    ("every 2 hours from 10:00 to 14:00 synchronized", 'has "synchronized" after "14:00"'),
    ("every 6 hours mon,wed,fri", 'has "mon" after "hours"'),
    ("every 60 minutes on day", 'has "day" after "on"'),
    ("every 60 minutes on", 'ends after "on"'),
    ("every minute on mon", 'has "on" after "minute"'),
    ("every hour", 'has "hour" after "every"'),
    ("every", 'ends after "every"'),
    ("every 5", 'ends after "5"'),
    ("30 of feb 10:00", '"30 of feb 10:00" asks for days that its months never have'),
    ("31 of apr,jun", "never run"),
    ("30th day of feb", "never run"),
    ("32 of month 10:00", 'has "32": expected days of the month from 1 to 31'),
    ("0 of month 10:00", 'has "0"'),
    ("001 of month 10:00", 'has "001"'),
    ("1 10:00", 'has "10:00" after "1": expected "of" and months'),
    ("1, of month", 'has "of" after ","'),
    ("1 of", 'ends after "of"'),
    ("1 of foo", 'has "foo" after "of"'),
    ("1 of sept", 'has "sept"'),
    ("1 of month of quarter", 'has "of" after "month"'),
    ("1 of 4th month of quarter", 'has "4th" after "of": expected 1st, 2nd or 3rd'),
    ("1 of 1st quarter", 'has "quarter" after "1st": expected "month"'),
    ("1 of 1st month", 'ends after "month": expected "of"'),
    ("1 of 1st month of year", 'has "year" after "of": expected "quarter"'),
    ("6th monday 10:00", 'has "monday" after "6th": expected "day"'),
    ("1th monday 10:00", 'has "1th"'),
    ("1st 10:00", 'has "10:00" after "1st"'),
    ("1st,1 monday 10:00", 'has "1" after ","'),
    ("every 1st monday 10:00", 'has "1st" after "every"'),
    ("1st of month 10:00", 'has "of" after "1st"'),
    ("monday 10:00", 'has "monday"'),
    ("every tues 10:00", 'has "tues"'),
    ("every day 10:00 11:00", 'has "11:00" after "10:00": expected the end'),
    ("every day 10:00,11:00", 'has "," after "10:00"'),
    ("every day 10:00 UTC", 'has "UTC" after "10:00"'),
    ("EVERY DAY 09:00", 'has "EVERY": expected "every", an ordinal such as 1st, or days of the month'),
    ("every DAY 09:00", 'has "DAY" after "every"'),
    ("every Monday 09:00", "in lower case"),
    ("1st mon of JAN 09:00", 'has "JAN" after "of"'),
    (",", 'has ","'),
]


@pytest.mark.parametrize(("text", "part"), REFUSED)
def test_anything_else_is_refused_by_name(text: str, part: str) -> None:
    """Google's sentence, then the word at fault, where it stands and what was expected."""
    with pytest.raises(InvalidArgument) as refusal:
        parse_groc(text)

    assert refusal.value.message.startswith("Schedule or time zone is invalid. The schedule ")
    assert part in refusal.value.message


def test_words_of_strangers_are_shown_short_and_printable() -> None:
    """A message goes into a header and into logs."""
    with pytest.raises(InvalidArgument) as refusal:
        parse_groc("every " + "\x1b[31m" * 50)

    assert refusal.value.message.isprintable()
    assert len(refusal.value.message) < 300


def test_the_calendar_ends_with_the_year_9999() -> None:
    """As datetime's does."""
    calendar = parse_groc("1 of jan")
    assert isinstance(calendar, Specific)

    with pytest.raises(OverflowError):
        calendar.label_from(datetime.fromisoformat("9999-01-01T00:01"))

"""unix-cron's grammar: what each field may say, what it stands for, and how everything else is refused."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from taskbell.core.cron import parse_cron
from taskbell.core.errors import InvalidArgument


def labels(text: str, first: str, count: int) -> list[str]:
    """The first labels of an expression at or after one."""
    cron, label = parse_cron(text), datetime.fromisoformat(first)
    found = []
    for _ in range(count):
        label = cron.label_from(label)
        found.append(label.isoformat(timespec="minutes"))
        label += timedelta(minutes=1)
    return found


MINUTES = [
    ("*", list(range(60))),
    ("*/1", list(range(60))),
    ("0", [0]),
    ("00", [0]),
    ("07", [7]),
    ("59", [59]),
    ("0-59", list(range(60))),
    ("10-12", [10, 11, 12]),
    ("10-30/7", [10, 17, 24]),
    ("*/7", [0, 7, 14, 21, 28, 35, 42, 49, 56]),
    ("*/30", [0, 30]),
    ("*/59", [0, 59]),
    ("15,45", [15, 45]),
    ("45,15", [15, 45]),
    ("5,5,5", [5]),
    ("58-59,1,*/20", [0, 1, 20, 40, 58, 59]),
    ("5-59/15", [5, 20, 35, 50]),
    ("*,5", list(range(60))),
]


@pytest.mark.parametrize(("field", "minutes"), MINUTES)
def test_the_minute_field(field: str, minutes: list[int]) -> None:
    """Values, ranges, steps and lists."""
    found = labels(f"{field} 0 1 1 *", "2027-01-01T00:00", len(minutes) + 1)

    assert found[:-1] == [f"2027-01-01T00:{minute:02}" for minute in minutes]
    assert found[-1].startswith("2028-01-01T00:")


HOURS = [
    ("*", list(range(24))),
    ("*/23", [0, 23]),
    ("0-23/6", [0, 6, 12, 18]),
    ("9-17", list(range(9, 18))),
    ("0,12", [0, 12]),
]


@pytest.mark.parametrize(("field", "hours"), HOURS)
def test_the_hour_field(field: str, hours: list[int]) -> None:
    """Counted from midnight."""
    assert labels(f"30 {field} 1 1 *", "2027-01-01T00:00", len(hours)) == [f"2027-01-01T{h:02}:30" for h in hours]


DAYS = [
    ("*", "*", list(range(1, 32))),
    ("*/10", "*", [1, 11, 21, 31]),
    ("*/32", "*", [1]),
    ("28-31", "*", [28, 29, 30, 31]),
    ("*", "MON", [4, 11, 18, 25]),
    # Both restricted: either will do. A star with a step restricts as well.
    ("13", "FRI", [1, 8, 13, 15, 22, 29]),
    ("*/15", "fri", [1, 8, 15, 16, 22, 29, 31]),
    ("31", "*/6", [2, 3, 9, 10, 16, 17, 23, 24, 30, 31]),
    ("*/1", "FRI", list(range(1, 32))),
    ("13", "0-6", list(range(1, 32))),
    ("13", "*/1", list(range(1, 32))),
]


@pytest.mark.parametrize(("days", "weekdays", "expected"), DAYS)
def test_the_two_day_fields(days: str, weekdays: str, expected: list[int]) -> None:
    """In January 2027, which begins with a Friday: OR unless one of the two is a bare star."""
    found = labels(f"0 0 {days} 1 {weekdays}", "2027-01-01T00:00", len(expected) + 1)

    assert found[:-1] == [f"2027-01-{day:02}T00:00" for day in expected]
    assert found[-1].startswith("2028-01-")


MONTHS = [
    ("*", list(range(1, 13))),
    ("*/5", [1, 6, 11]),
    ("*/12", [1]),
    ("JAN", [1]),
    ("jan,Dec,7", [1, 7, 12]),
    ("MAR-may", [3, 4, 5]),
    ("feb-12/4", [2, 6, 10]),
]


@pytest.mark.parametrize(("field", "months"), MONTHS)
def test_the_month_field(field: str, months: list[int]) -> None:
    """Numbers, and names in any case."""
    assert labels(f"0 0 1 {field} *", "2027-01-01T00:00", len(months)) == [f"2027-{m:02}-01T00:00" for m in months]


WEEKDAYS = [
    # Sunday is 0; 2027-01-03 is one.
    ("0", [0]),
    ("7", [0]),
    ("SUN", [0]),
    ("sun,7,0", [0]),
    ("*/2", [0, 2, 4, 6]),
    ("*/7", [0]),
    ("MON-FRI", [1, 2, 3, 4, 5]),
    ("mon-fri", [1, 2, 3, 4, 5]),
    ("1-5", [1, 2, 3, 4, 5]),
    ("sat,sun", [0, 6]),
    ("5-7", [0, 5, 6]),
    ("FRI-SUN", [0, 5, 6]),
    ("MON-SUN/3", [0, 1, 4]),
    ("SUN-SAT", [0, 1, 2, 3, 4, 5, 6]),
    ("0-7", [0, 1, 2, 3, 4, 5, 6]),
    ("6-7", [0, 6]),
]


@pytest.mark.parametrize(("field", "weekdays"), WEEKDAYS)
def test_the_day_of_week_field(field: str, weekdays: list[int]) -> None:
    """0 and 7 are Sunday, which ends a range as 7."""
    found = labels(f"0 0 * * {field}", "2027-01-03T00:00", len(weekdays))

    assert found == [f"2027-01-{3 + weekday:02}T00:00" for weekday in weekdays]


FOLLOWS = [
    ("* * * * *", True),
    ("*/15 1 * * *", True),
    ("30 */2 * * *", True),
    ("0 * * * *", True),
    ("0 0-23 * * *", False),
    ("30 2 * * *", False),
    ("0-59 2 */2 * */2", False),
]


@pytest.mark.parametrize(("text", "follows"), FOLLOWS)
def test_a_star_in_front_of_minute_or_hour_follows_the_clock(text: str, follows: bool) -> None:  # noqa: FBT001 - a table column.
    """Debian cron's test for what happens at clock changes."""
    assert parse_cron(text).follows_clock is follows


REFUSED = [
    # text, what the message names
    *(
        (f"{minute} * * * *", f'Field minute says "{minute}"')
        for minute in ("60", "-1", "1-", "a", "1.5", "1,,2", ",1")
    ),
    *((f"{minute} * * * *", f'Field minute says "{minute}"') for minute in ("1,", "**", "1/", "005", "1-2-3")),
    *(
        (f"{minute} * * * *", f'Field minute says "{minute}"')
        for minute in ("*5", "*/", "*/x", "*/-1", "1-60", "MON", "*/100")
    ),
    ("*/0 * * * *", 'Field minute has the step "*/0": expected 1 to 59'),
    ("*/60 * * * *", 'Field minute has the step "*/60": expected 1 to 59'),
    ("1-5/60 * * * *", 'Field minute has the step "1-5/60"'),
    ("5/15 * * * *", "as in 5-59/15"),
    ("6-0 * * * *", 'Field minute has the range "6-0"'),
    ("5-5 * * * *", 'Field minute has the range "5-5"'),
    ("0 24 * * *", 'Field hour says "24": expected values of 0 to 23'),
    ("0 */24 * * *", "Field hour has the step"),
    ("0 0 0 * *", 'Field day-of-month says "0": expected values of 1 to 31'),
    ("0 0 32 * *", "Field day-of-month"),
    ("0 0 */33 * *", "Field day-of-month has the step"),
    ("0 0 1 0 *", "Field month"),
    ("0 0 1 13 *", 'Field month says "13": expected values of 1 to 12 or JAN to DEC'),
    ("0 0 1 */13 *", "Field month has the step"),
    ("0 0 1 January *", 'Field month says "January"'),
    ("0 0 1 MON *", 'Field month says "MON"'),
    ("0 0 1 DEC-JAN *", 'Field month has the range "DEC-JAN"'),
    ("0 0 * * 8", "Field day-of-week"),
    ("0 0 * * */8", "Field day-of-week has the step"),
    ("0 0 * * MONDAY", 'Field day-of-week says "MONDAY"'),
    ("0 0 * * SAT-MON", 'Field day-of-week has the range "SAT-MON"'),
    ("0 0 * * 6-0", 'Field day-of-week has the range "6-0"'),
    ("0 0 * * SUN-SUN", 'Field day-of-week has the range "SUN-SUN"'),
    ("0 0 * * 7-7", 'Field day-of-week has the range "7-7"'),
    # Dates on no calendar.
    ("0 0 31 2 *", 'has a day "31": it would never run'),
    ("0 0 30,31 FEB *", 'No month of field month "FEB"'),
    ("0 0 31 2,4,6,9,11 *", "it would never run"),
    ("0 0 31 */20 *", "Field month has the step"),
    # What other crons have.
    ("* * * *", "found 4: "),
    ("0 30 14 * * *", "found 6 (there is no field for seconds): "),
    ("0 0 0 1 1 ? 2027", 'No "?" here'),
    ("@daily", "Macros"),
    ("@every 1h", '(found "@every")'),
    ("@reboot", "Macros"),
    ("H * * * *", '"H"'),
    ("H/15 * * * *", '(found "H/15")'),
    ("h(0-29) * * * *", '"H"'),
    ("0 0 L * *", '"L" or "W"'),
    ("0 0 L-3 * *", '"L" or "W"'),
    ("0 0 LW * *", '"L" or "W"'),
    ("0 0 15W * *", '(found "15W")'),
    ("0 0 * * 5L", '"L" or "W"'),
    ("0 0 * * 1#1", "write groc"),
    ("0 0 ? * 1", '"?"'),
    ("TZ=UTC 0 0 * * *", "found 6"),
]


@pytest.mark.parametrize(("text", "part"), REFUSED)
def test_anything_else_is_refused_by_name(text: str, part: str) -> None:
    """Google's sentence, then the field or the word at fault and what was expected."""
    with pytest.raises(InvalidArgument) as refusal:
        parse_cron(text)

    assert refusal.value.message.startswith("Schedule or time zone is invalid. ")
    assert part in refusal.value.message


POSSIBLE = ["0 0 29 2 *", "0 0 31 2 MON", "0 0 30,1 2 *", "0 0 31 1-3 *", "0 0 31 2 */7"]


@pytest.mark.parametrize("text", POSSIBLE)
def test_a_date_that_some_year_has_is_not_refused(text: str) -> None:
    """And found."""
    assert labels(text, "2096-03-01T00:00", 1)


def test_a_label_is_found_at_itself() -> None:
    """At or after, to the microsecond."""
    cron = parse_cron("30 2 * * *")

    assert cron.label_from(datetime(2027, 1, 1, 2, 30)) == datetime(2027, 1, 1, 2, 30)  # noqa: DTZ001 - labels are naive
    assert cron.label_from(datetime(2027, 1, 1, 2, 30, 0, 1)) == datetime(2027, 1, 2, 2, 30)  # noqa: DTZ001


def test_searches_do_not_disturb_each_other() -> None:
    """One expression serves any number of callers, and is what it stands for."""
    cron, first = parse_cron("*/20 * * * *"), datetime(2027, 1, 1)  # noqa: DTZ001 - labels are naive

    assert [cron.label_from(first) for _ in range(3)] == [first] * 3
    assert cron == parse_cron("*/20 *  *  *  *") != parse_cron("0 * * 1 1-5/2,7")
    assert parse_cron("0 0 * jan sun") == parse_cron("0 0 * 1 7")

"""Random schedules, zones and instants against a scan of every minute, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from taskbell.core.instant import MINUTE, Instant, from_datetime, to_datetime
from taskbell.core.schedule import Schedule, fires, parse_schedule
from tests.core.minute_scan import DAY, Matches, MinuteScan, utc

# Where clocks did something, and what.
SHIFTS = [
    ("America/New_York", utc("2027-03-14T07:00")),
    ("America/New_York", utc("2027-11-07T06:00")),
    ("Europe/Dublin", utc("2027-10-31T01:00")),  # Winter is the exception there.
    ("Australia/Lord_Howe", utc("2027-04-03T15:00")),  # Half an hour.
    ("Australia/Lord_Howe", utc("2027-10-02T15:30")),
    ("America/St_Johns", utc("2010-03-14T03:31")),  # At one minute past midnight.
    ("America/St_Johns", utc("2010-11-07T02:31")),
    ("America/Sao_Paulo", utc("2018-02-18T02:00")),  # At midnight.
    ("America/Sao_Paulo", utc("2018-11-04T03:00")),
    ("America/Havana", utc("2027-11-07T05:00")),
    ("Africa/Casablanca", utc("2026-02-15T02:00")),  # For Ramadan.
    ("Antarctica/Troll", utc("2025-03-30T01:00")),  # Two hours.
    ("Antarctica/Troll", utc("2025-10-26T01:00")),
    ("Pacific/Apia", utc("2011-12-30T10:00")),  # A day was left out.
    ("Pacific/Kwajalein", utc("1993-08-20T12:00")),  # So was one here,
    ("Pacific/Kwajalein", utc("1969-09-30T13:00")),  # where one had come twice.
    ("Asia/Kolkata", utc("2027-03-28T01:00")),  # Nothing.
    ("Etc/UTC", utc("2028-02-29T00:00")),
]
ZONES = sorted({zone for zone, _ in SHIFTS})


@lru_cache(maxsize=64)
def scan(zone: str, around: datetime) -> MinuteScan:
    """A day and a half around a moment."""
    return MinuteScan(zone, around - 0.6 * DAY, around + 0.9 * DAY)


@dataclass(frozen=True)
class Known:
    """A schedule's text, and which minutes it must fire at by what it was made of."""

    text: str
    fires_in: Callable[[MinuteScan], list[datetime]]


@st.composite
def fields(draw: st.DrawFn, least: int, most: int, largest_step: int) -> tuple[str, frozenset[int]]:
    """A field of unix-cron and its values."""
    value = st.integers(least, most)
    if draw(st.booleans()):
        step = draw(st.integers(1, largest_step))
        star = [("*", range(least, most + 1)), (f"*/{step}", range(least, most + 1, step))]
        text, values = draw(st.sampled_from(star))
        return text, frozenset(values)
    texts, found = [], set()
    for _ in range(draw(st.integers(1, 3))):
        first, last = sorted((draw(value), draw(value)))
        step = draw(st.integers(1, largest_step))
        kinds = [(f"{first}", range(first, first + 1))]
        if first < last:
            kinds += [
                (f"{first}-{last}", range(first, last + 1)),
                (f"{first}-{last}/{step}", range(first, last + 1, step)),
            ]
        text, values = draw(st.sampled_from(kinds))
        texts.append(text)
        found |= set(values)
    return ",".join(texts), frozenset(found)


ANY_MONTH = st.just(("*", frozenset(range(1, 13))))
ANY_DAY = st.just(("*", frozenset(range(1, 32))))
ANY_WEEKDAY = st.just(("*", frozenset(range(7))))


@st.composite
def unix_cron(draw: st.DrawFn) -> Known:
    """Mostly such as fire within a day."""
    minute, minutes = draw(fields(0, 59, 59))
    hour, hours = draw(fields(0, 23, 23))
    day, days = draw(ANY_DAY | fields(1, 31, 32))
    month, months = draw(ANY_MONTH | fields(1, 12, 12))
    weekday, weekdays = draw(ANY_WEEKDAY | fields(0, 6, 7))
    assume(
        weekday != "*"
        or any(min(days) <= most for most in (31 - (each in {4, 6, 9, 11}) - 2 * (each == 2) for each in months))
    )

    def matches(label: datetime) -> bool:
        on_day, on_weekday = label.day in days, label.isoweekday() % 7 in weekdays
        on = on_day and on_weekday if day == "*" or weekday == "*" else on_day or on_weekday
        return on and label.month in months and label.hour in hours and label.minute in minutes

    def fires_in(minutes: MinuteScan) -> list[datetime]:
        follows = minute.startswith("*") or hour.startswith("*")
        return minutes.on_the_wall(matches) if follows else minutes.once(matches)

    return Known(f"{minute} {hour} {day} {month} {weekday}", fires_in)


WEEKDAYS = ["mon", "tuesday", "wed", "thursday", "fri", "saturday", "sun"]
MONTHS = ["jan", "february", "mar", "april", "may", "june", "jul", "august", "sep", "october", "nov", "december"]
ORDINALS = ["1st", "second", "3rd", "fourth", "5th"]
clock_times = st.builds(time, st.integers(0, 23), st.integers(0, 59)) | st.sampled_from(
    [time(2, 30), time(0, 15), time(1, 30)]
)


def listed(draw: st.DrawFn, names: list[str]) -> tuple[str, set[int]]:
    """Some of the names, and their positions."""
    chosen = draw(st.lists(st.integers(0, len(names) - 1), min_size=1, unique=True))
    return ",".join(names[each] for each in chosen), set(chosen)


def once(text: str, matches: Matches) -> Known:
    """A calendar of fixed times."""
    return Known(text, lambda minutes: minutes.once(matches))


@st.composite
def groc_specific(draw: st.DrawFn) -> Known:
    """Weekdays, nth weekdays and days of the month, in any or some months, at one time."""
    at = draw(clock_times)
    months, in_months = (
        draw(st.just(("month", set(range(12)))) | st.just(("quarter", {0, 3, 6, 9})))
        if draw(st.booleans())
        else listed(draw, MONTHS)
    )
    weekdays, on_weekdays = listed(draw, WEEKDAYS)
    ordinals, nth = listed(draw, ORDINALS)
    days = draw(st.lists(st.integers(1, 28), min_size=1, max_size=10))

    def every(label: datetime) -> bool:
        return label.time() == at and label.month - 1 in in_months

    when = f"{at:%H:%M}"
    return draw(
        st.sampled_from(
            [
                once(f"every day {when}", lambda label: label.time() == at),
                once(
                    f"every {weekdays} of {months} {when}",
                    lambda label: every(label) and label.weekday() in on_weekdays,
                ),
                once(
                    f"{ordinals} {weekdays} of {months} {when}",
                    lambda label: every(label) and label.weekday() in on_weekdays and (label.day - 1) // 7 in nth,
                ),
                once(
                    f"{','.join(map(str, days))} of {months} {when}", lambda label: every(label) and label.day in days
                ),
            ]
        )
    )


@st.composite
def groc_window(draw: st.DrawFn) -> Known:
    """From and to, synchronized, on weekdays."""
    start, end = draw(clock_times), draw(clock_times)
    minutes = draw(st.integers(1, 2000))
    even = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24]))
    weekdays, on_weekdays = listed(draw, WEEKDAYS)
    last = time(23, 59)
    span = timedelta(minutes=minutes)
    return draw(
        st.sampled_from(
            [
                Known(
                    f"every {minutes} minutes from {start:%H:%M} to {end:%H:%M}",
                    lambda scanned: scanned.windows(span, start, end, set(range(7))),
                ),
                Known(
                    f"every {even} hours synchronized",
                    lambda scanned: scanned.windows(timedelta(hours=even), time(), last, set(range(7))),
                ),
                Known(
                    f"every {minutes} mins on {weekdays}",
                    lambda scanned: scanned.windows(span, time(), last, on_weekdays),
                ),
            ]
        )
    )


def known() -> st.SearchStrategy[Known]:
    """A schedule of any aligned kind."""
    return unix_cron() | groc_specific() | groc_window()


def walk(schedule: Schedule, first: Instant, last: Instant) -> list[Instant]:
    """Fire after fire within a span."""
    found = []
    instant = schedule.next_after(first)
    while instant is not None and instant <= last:
        found.append(instant)
        instant = schedule.next_after(instant)
    return found


@given(made=known(), shift=st.sampled_from(SHIFTS), hours=st.integers(-12, 12), into=st.integers(0, 2160 * MINUTE))
@settings(max_examples=150, deadline=None)
def test_the_fires_around_a_shift_are_those_of_a_scan(
    made: Known, shift: tuple[str, datetime], hours: int, into: int
) -> None:
    """Whatever the clocks do, each minute that must fire does, once, and no other; from wherever one asks."""
    zone, moment = shift
    scanned = scan(zone, moment + timedelta(hours=12 * (hours // 12)))
    first, last = from_datetime(scanned.first), from_datetime(scanned.last)
    schedule = parse_schedule(made.text, zone)

    expected = [from_datetime(each) for each in made.fires_in(scanned)]

    assert walk(schedule, first, last) == expected
    assert walk(schedule, first + into, last) == [each for each in expected if each > first + into]


moments = st.datetimes(datetime(1975, 1, 1), datetime(2090, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001 - given a zone at once


@given(made=known(), zone=st.sampled_from(ZONES), moment=moments)
@settings(max_examples=30, deadline=None)
def test_the_fires_at_any_time_are_those_of_a_scan(made: Known, zone: str, moment: datetime) -> None:
    """Of three days from an instant that is not a whole minute."""
    scanned = MinuteScan(zone, moment.replace(second=0, microsecond=0), moment + 3 * DAY)
    schedule = parse_schedule(made.text, zone)

    expected = [from_datetime(each) for each in made.fires_in(scanned)]

    start = from_datetime(moment)
    assert walk(schedule, start, start + 3 * 1440 * MINUTE) == [each for each in expected if each > start]


@given(made=known(), zone=st.sampled_from(ZONES), moment=moments, later=st.integers(0, 10**6).map(lambda n: n**2))
@example(Known("0 0 29 2 *", lambda _: []), "Etc/UTC", datetime(2096, 3, 1, tzinfo=UTC), 10**12)
@settings(max_examples=300, deadline=None)
def test_what_holds_for_every_schedule(made: Known, zone: str, moment: datetime, later: int) -> None:
    """The next fire is later, a whole minute, never goes back, and stays the next until it is there."""
    schedule = parse_schedule(made.text, zone)
    start = from_datetime(moment)

    fire = schedule.next_after(start)

    assert fire is not None
    assert fire > start
    assert fire % MINUTE == 0
    after = schedule.next_after(start + later)
    assert after is not None
    if start + later < fire:
        assert after == fire
    else:
        assert after > fire
    assert schedule.next_after(fire - 1) == fire
    preview = fires(schedule, start, 3)
    assert preview[0] == fire
    assert preview == sorted(set(preview))


@given(made=known(), zone=st.sampled_from(ZONES))
@settings(max_examples=50, deadline=None)
def test_the_same_text_is_the_same_schedule(made: Known, zone: str) -> None:
    """More blanks change nothing."""
    start = from_datetime(datetime(2027, 3, 14, 6, 59, tzinfo=UTC))

    assert fires(parse_schedule(made.text, zone), start, 2) == fires(
        parse_schedule(f"  {made.text.replace(' ', '   ')} ", zone), start, 2
    )


def test_the_scan_itself_knows_the_shifts() -> None:
    """An oracle that shared a fault with the product would find nothing."""
    scanned = scan("America/New_York", utc("2027-03-14T07:00"))
    half_past_two: Matches = lambda label: (label.hour, label.minute) == (2, 30)  # noqa: E731 - a row of a table

    assert scanned.on_the_wall(half_past_two) == []
    assert scanned.once(half_past_two) == [utc("2027-03-14T07:00")]

    scanned = scan("America/New_York", utc("2027-11-07T06:00"))
    half_past_one: Matches = lambda label: (label.hour, label.minute) == (1, 30)  # noqa: E731 - a row of a table

    assert scanned.on_the_wall(half_past_one) == [utc("2027-11-07T05:30"), utc("2027-11-07T06:30")]
    assert scanned.once(half_past_one) == [utc("2027-11-07T05:30")]
    assert scanned.windows(timedelta(hours=1), time(0, 30), time(2, 0), {date(2027, 11, 7).weekday()}) == [
        *(utc("2027-11-07T04:30"), utc("2027-11-07T05:30"), utc("2027-11-07T06:30")),
    ]
    assert to_datetime(from_datetime(scanned.first)) == scanned.first

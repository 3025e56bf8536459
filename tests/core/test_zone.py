"""Time zones: every shift of a gap, a repeated hour or a lost day, and names that come from strangers."""

from __future__ import annotations

import sys
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tzdata  # type: ignore[import-untyped]

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND, Instant, from_datetime
from taskbell.core.zone import parse_zone


def at(text: str) -> Instant:
    """An instant by its time in UTC."""
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=UTC))


def label(text: str) -> datetime:
    """What a wall shows."""
    return datetime.fromisoformat(text)


FIRST = [
    ("UTC", "2027-03-14T02:30", "2027-03-14T02:30"),
    ("America/New_York", "2027-03-14T01:59", "2027-03-14T06:59"),
    ("America/New_York", "2027-03-14T02:00", "2027-03-14T07:00"),
    ("America/New_York", "2027-03-14T02:59", "2027-03-14T07:00"),
    ("America/New_York", "2027-03-14T03:00", "2027-03-14T07:00"),
    ("America/New_York", "2027-11-07T01:00", "2027-11-07T05:00"),
    ("America/New_York", "2027-11-07T01:59", "2027-11-07T05:59"),
    ("America/New_York", "2027-11-07T02:00", "2027-11-07T07:00"),
    ("Australia/Lord_Howe", "2027-10-03T02:15", "2027-10-02T15:30"),  # Half an hour.
    ("Antarctica/Troll", "2027-03-28T02:30", "2027-03-28T01:00"),  # Two hours, until 2026 only in name.
    ("America/St_Johns", "2010-03-14T00:30", "2010-03-14T03:31"),  # At one minute past midnight.
    ("America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T03:00"),  # At midnight.
    ("Pacific/Apia", "2011-12-30T10:00", "2011-12-30T10:00"),  # A day that never was.
    ("Africa/Monrovia", "1972-01-07T00:10", "1972-01-07T00:45"),  # By 44 minutes and 30 seconds: the next whole minute.
]


@pytest.mark.parametrize(("zone", "shown", "moment"), FIRST)
def test_a_label_has_a_first_instant(zone: str, shown: str, moment: str) -> None:
    """The first of two, and in a gap the first whole minute after it."""
    assert parse_zone(zone).first(label(shown)) == at(moment)


def shifts(zone: str, first: str, last: str) -> Iterator[Instant]:
    """Every shift of a zone, found hour by hour."""
    rules = zoneinfo.ZoneInfo(zone)
    moment, end = label(first).replace(tzinfo=UTC), label(last).replace(tzinfo=UTC)
    while moment < end:
        later = moment + timedelta(hours=1)
        if moment.astimezone(rules).utcoffset() != later.astimezone(rules).utcoffset():
            minute = moment
            while minute.astimezone(rules).utcoffset() == moment.astimezone(rules).utcoffset():
                minute += timedelta(minutes=1)
            yield from_datetime(minute)
        moment = later


@pytest.mark.parametrize(
    "zone",
    ["America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Africa/Casablanca", "Africa/Cairo", "Asia/Gaza"],
)
def test_every_shift_is_found_and_only_shifts(zone: str) -> None:
    """A step of one day misses none, and finds it to the second from whichever side one starts."""
    rules = parse_zone(zone)
    found = []
    start = at("2022-01-01T00:00:17.5")
    while shift := rules.next_shift(start, at("2026-01-01T00:00")):
        found.append(shift)
        assert rules.offset(shift - 1) != rules.offset(shift)
        start = shift

    assert found == list(shifts(zone, "2022-01-01T00:00", "2026-01-01T00:00"))


def test_no_zone_shifts_twice_within_two_days() -> None:
    """What the step of one day rests on; the closest that the database has ever known are looked up here."""
    rules = parse_zone("Africa/Freetown")

    first = rules.next_shift(at("1939-08-01T00:00"), at("1939-12-31T00:00"))
    assert first is not None
    second = rules.next_shift(first, first + 30 * DAY)

    assert second is not None
    assert second - first > 2 * DAY
    assert rules.next_shift(first, first + 2 * DAY) is None


def test_the_bounds_of_the_search_for_a_shift() -> None:
    """It looks after the start, and up to the end, which counts."""
    rules, shift = parse_zone("America/New_York"), at("2027-03-14T07:00")

    assert rules.next_shift(shift, shift + 30 * DAY) is None
    assert rules.next_shift(shift - 1, shift) == shift
    assert rules.next_shift(shift - HOUR, shift - 1) is None
    assert rules.next_shift(shift, shift - HOUR) is None
    assert rules.next_shift(shift - 100 * DAY, shift + 100 * DAY) == shift


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Apia", "Asia/Kolkata", "utc"])
def test_an_instant_and_its_label_are_an_offset_apart(zone: str) -> None:
    """The offset is what was added."""
    rules, instant = parse_zone(zone), at("2027-07-01T12:00:01.000001")

    assert from_datetime(rules.label(instant).replace(tzinfo=UTC)) == instant + rules.offset(instant)
    assert rules.offset(instant) % (15 * MINUTE) == 0


@pytest.mark.parametrize("name", ["", "UTC", "utc", "Utc", "uTC"])
def test_utc_in_any_case_and_by_default(name: str) -> None:
    """A job without a zone is in UTC."""
    assert parse_zone(name).rules is UTC


NAMES = [
    *("Etc/UTC", "Etc/GMT+12", "GMT-0", "EST5EDT", "America/Argentina/Buenos_Aires", "America/Port-au-Prince"),
    *("NZ-CHAT", "Asia/Kolkata", "US/Pacific"),
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_tz_database(name: str) -> None:
    """As the database spells them."""
    assert parse_zone(name).offset(at("2027-01-01T00:00")) % (15 * MINUTE) == 0


HOSTILE = [
    *("Mars/Olympus", "utc+8", "UTC+8", "+02:00", "Z", "America", "America/", "/UTC", "UTC/", "America//New_York"),
    *("../UTC", "America/../UTC", "..", ".", "/etc/localtime", "/etc/passwd", "../../../etc/passwd", "file:UTC"),
    *("localtime", "Localtime", "localtime/x", "posixrules", "posix/UTC", "right/UTC", "zone.tab", "tzdata.zi"),
    *("leapseconds", "__init__", "__pycache__", " UTC", "UTC ", "UTC\n", "UTC\0", "America\\New_York", "Zürich"),
    *("America/New York", "a" * 65, "a/" * 32 + "a", "a" * 100_000, "%2e%2e/UTC", "CON", "~", "*", "-", "+", "_"),
]


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """Every path that is opened meanwhile."""
    paths: list[str] = []
    listening = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and listening and isinstance(arguments[0], str):
            paths.append(arguments[0])

    sys.addaudithook(hook)  # It cannot be removed, so it goes deaf.
    try:
        yield paths
    finally:
        listening = False


def test_hostile_names_are_refused_and_open_no_file_outside_the_database() -> None:
    """The message names the zone, printable and short, and says what was expected."""
    database = [Path(tzdata.__file__).parent, *map(Path, zoneinfo.TZPATH)]
    with pytest.raises(InvalidArgument):  # Makes Python import what it looks zones up with.
        parse_zone("Mars")
    with opened_files() as paths:
        for name in HOSTILE:
            with pytest.raises(InvalidArgument) as refusal:
                parse_zone(name)
            message = refusal.value.message
            assert message.startswith("Schedule or time zone is invalid. Time zone ")
            assert name[:40] in message or not name.isprintable()
            assert message.isprintable()
            assert len(message) < 200

    inside = [any(Path(path).is_relative_to(folder) for folder in database) for path in paths]
    assert all(inside), paths


def test_the_listener_of_the_test_above_hears() -> None:
    """A hook that heard nothing would pass everything."""
    with opened_files() as paths:
        Path(__file__).read_bytes()

    assert paths == [__file__]


def test_seconds_matter_where_offsets_had_them() -> None:
    """Liberia was 44 minutes and 30 seconds behind until 1972."""
    assert parse_zone("Africa/Monrovia").offset(at("1971-01-01T00:00")) == -(44 * MINUTE + 30 * SECOND)

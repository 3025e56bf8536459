"""Schedules: tables of next fires, at clock changes above all; what never happens; which language a text is in."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import DAY, EARLIEST, HOUR, LATEST, MINUTE, SECOND, Instant, Span, from_datetime, rfc3339
from taskbell.core.schedule import LONGEST_SCHEDULE, Kind, fires, parse_schedule

NEW_YORK, BERLIN, PARIS = "America/New_York", "Europe/Berlin", "Europe/Paris"


def at(text: str) -> Instant:
    """An instant by its time in UTC."""
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=UTC))


def told(instants: list[Instant]) -> list[str]:
    """Instants as people read them, to the minute where that is exact."""
    return [rfc3339(instant).removesuffix("Z").removesuffix(":00") for instant in instants]


def check(text: str, zone: str, after: str, expected: str) -> None:
    """The next fires are these; each may leave out what it shares with the one before: the year, or the day."""
    full: list[str] = []
    for each in expected.split():
        before = full[-1] if full else after
        full.append(before[: 16 - len(each)] + each)
    assert told(fires(parse_schedule(text, zone), at(after), len(full))) == full


CLOCK_CHANGES = [
    # Fixed times: once each. In a gap at the first instant after it, in a repeated hour at the first of the two.
    ("30 2 * * *", NEW_YORK, "2027-03-13T05:00", "2027-03-13T07:30 14T07:00 15T06:30"),
    ("0 2 * * 0", NEW_YORK, "2027-03-06T00:00", "2027-03-07T07:00 14T07:00 21T06:00"),
    ("30 2 14 3 *", NEW_YORK, "2027-03-01T00:00", "2027-03-14T07:00 2028-03-14T06:30"),
    ("30 1 * * *", NEW_YORK, "2027-11-06T04:00", "2027-11-06T05:30 07T05:30 08T06:30"),
    ("0 20 * * *", PARIS, "2022-10-29T22:00", "2022-10-30T19:00 31T19:00 11-01T19:00"),
    ("0 8 * * 1-5", NEW_YORK, "2018-11-01T00:00", "2018-11-01T12:00 02T12:00 05T13:00 06T13:00"),
    ("0 8 * * 1", "Europe/Amsterdam", "2017-10-20T00:00", "2017-10-23T06:00 30T07:00 11-06T07:00"),
    ("5 0 * * *", PARIS, "2019-10-26T23:05", "2019-10-27T23:05 28T23:05"),
    ("0 0 * * *", "Europe/Warsaw", "2017-03-26T00:00", "2017-03-26T22:00 27T22:00"),
    ("0 0-23/2 * * *", BERLIN, "2027-03-27T22:30", "2027-03-27T23:00 28T01:00 02:00 04:00"),
    ("0 0-23/2 * * *", BERLIN, "2027-10-30T21:00", "2027-10-30T22:00 31T00:00 03:00"),
    ("30 14 * * *", "Europe/Vilnius", "2020-03-28T12:30", "2020-03-29T11:30"),
    ("30 2 * * *", NEW_YORK, "2026-03-07T12:00", "2026-03-08T07:00 09T06:30"),
    ("30 1 * * *", NEW_YORK, "2026-10-31T12:00", "2026-11-01T05:30 02T06:30"),
    # Several labels in one gap: one fire. And none twice because the next one asks from within the repeated hour.
    ("0,15,30,45 2,3 * * *", NEW_YORK, "2027-03-14T05:00", "2027-03-14T07:00 07:15 07:30 07:45 15T06:00"),
    ("0-59/30 1 * * *", NEW_YORK, "2027-11-07T05:10", "2027-11-07T05:30 08T06:00"),
    ("0-59/30 0-23 * * *", NEW_YORK, "2027-11-07T06:10", "2027-11-07T07:00"),
    # A star in front: as often as the wall shows it.
    (
        "*/15 1 * * *",
        NEW_YORK,
        "2027-11-07T04:30",
        "2027-11-07T05:00 05:15 05:30 05:45 06:00 06:15 06:30 06:45 08T06:00",
    ),
    ("*/15 2 * * *", NEW_YORK, "2027-03-13T07:40", "2027-03-13T07:45 15T06:00"),
    ("0 * * * *", NEW_YORK, "2027-11-07T03:30", "2027-11-07T04:00 05:00 06:00 07:00 08:00"),
    ("0 * * * *", NEW_YORK, "2027-03-14T04:30", "2027-03-14T05:00 06:00 07:00 08:00"),
    ("0 */2 * * *", BERLIN, "2027-10-30T21:00", "2027-10-30T22:00 31T00:00 01:00 03:00"),
    ("* * * */3 *", NEW_YORK, "2015-02-15T05:00", "2015-04-01T04:00 04:01"),
    ("0 * * * *", "UTC", "2025-10-05T02:00", "2025-10-05T03:00"),
    # A shift long after the instant asked for, and before the fire.
    ("*/30 3 14 3 *", NEW_YORK, "2027-03-11T22:00", "2027-03-14T07:00 07:30"),
    ("*/30 3 31 3 *", "Antarctica/Troll", "2025-03-01T00:00", "2025-03-31T01:00 01:30 2026-03-31T01:00"),
    # Half an hour, at midnight, two hours and a whole day.
    ("15 2 * * *", "Australia/Lord_Howe", "2027-10-02T00:00", "2027-10-02T15:30 03T15:15"),
    ("45 1 * * *", "Australia/Lord_Howe", "2027-04-03T00:00", "2027-04-03T14:45 04T15:15"),
    ("*/15 1 * * *", "Australia/Lord_Howe", "2027-04-03T14:40", "2027-04-03T14:45 15:00 15:15 04T14:30"),
    ("* 2 * * *", "Australia/Lord_Howe", "2027-04-03T14:50", "2027-04-03T15:30 15:31"),
    ("*/30 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-05T02:00 02:30 06T02:00"),
    ("30 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-04T03:00 05T02:30"),
    ("0 0 1,30 12 *", "Pacific/Apia", "2011-11-30T00:00", "2011-12-01T10:00 30T10:00 2012-11-30T10:00"),
    ("*/20 10 30 12 *", "Pacific/Apia", "2011-11-30T00:00", "2012-12-29T20:00 20:20 20:40 2013-12-29T20:00"),
    # groc's specific times: as fixed times.
    ("every day 02:30", NEW_YORK, "2027-03-13T05:00", "2027-03-13T07:30 14T07:00 15T06:30"),
    ("every day 01:30", NEW_YORK, "2027-11-06T04:00", "2027-11-06T05:30 07T05:30 08T06:30"),
    ("2nd sunday of march 02:00", NEW_YORK, "2027-03-01T00:00", "2027-03-14T07:00 2028-03-12T07:00"),
    # Windows: real time from the start, which leaves a gap for the first minute after it.
    ("every 30 minutes from 02:15 to 04:00", NEW_YORK, "2027-03-14T05:00", "2027-03-14T07:00 07:30 08:00 15T06:15"),
    ("every 1 hours from 00:30 to 02:00", NEW_YORK, "2027-11-07T03:00", "2027-11-07T04:30 05:30 06:30 08T05:30"),
    ("every 1 hours from 00:30 to 02:30", NEW_YORK, "2027-03-14T04:00", "2027-03-14T05:30 06:30 15T04:30"),
    ("every 1 hours from 00:00 to 01:30", NEW_YORK, "2027-11-07T03:00", "2027-11-07T04:00 05:00 08T05:00"),
    ("every 20 minutes from 02:00 to 02:40", NEW_YORK, "2027-03-14T04:00", "2027-03-14T07:00 15T06:00 06:20 06:40"),
    ("every 6 hours synchronized", NEW_YORK, "2027-03-14T03:30", "2027-03-14T05:00 11:00 17:00 23:00 15T04:00"),
    ("every 6 hours synchronized", NEW_YORK, "2027-11-07T03:30", "2027-11-07T04:00 10:00 16:00 22:00 08T04:00 05:00"),
    ("every 24 hours synchronized", NEW_YORK, "2027-11-07T03:30", "2027-11-07T04:00 08T04:00 05:00 09T05:00"),
]


@pytest.mark.parametrize(("text", "zone", "after", "expected"), CLOCK_CHANGES)
def test_next_fires_at_clock_changes(text: str, zone: str, after: str, expected: str) -> None:
    """Our rule, row by row; docs/reference/schedules.md says it in words."""
    check(text, zone, after, expected)


UNIX_CRON = [
    ("*/7 * * * *", "2026-01-01T00:40", "2026-01-01T00:42 00:49 00:56 01:00 01:07"),
    ("0 9 13 * FRI", "2026-02-01T00:00", "2026-02-06T09:00 13T09:00 20T09:00 27T09:00 03-06T09:00 13T09:00 20T09:00"),
    ("0 9 13 * FRI", "2026-04-10T10:00", "2026-04-13T09:00 17T09:00"),
    ("0 0 */10 * *", "2026-01-25T00:00", "2026-01-31T00:00 02-01T00:00 11T00:00 21T00:00 03-01T00:00 11T00:00"),
    ("0 0 * * */2", "2026-01-01T00:00", "2026-01-03T00:00 04T00:00 06T00:00 08T00:00 10T00:00"),
    ("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00 2032-02-29T00:00"),
    ("0 0 29 2 *", "2096-02-29T00:00", "2104-02-29T00:00"),
    ("* 0 1 1 1", "2025-12-31T23:58", "2026-01-01T00:00 00:01 00:02"),
    ("* 0 1 1 1", "2026-01-01T00:58", "2026-01-01T00:59 05T00:00 00:01"),
    ("7 */8 * * *", "2026-12-01T00:00", "2026-12-01T00:07 08:07 16:07"),
    ("15 */12 * * *", "2026-12-01T00:00", "2026-12-01T00:15 12:15"),
    ("0 0,12 * * *", "2026-12-01T00:00", "2026-12-01T12:00 02T00:00"),
    ("50 9,21 * * *", "2026-12-01T00:00", "2026-12-01T09:50 21:50"),
    ("23 8,20 * * *", "2026-12-01T00:00", "2026-12-01T08:23 20:23"),
    ("*/1 * * * *", "2026-12-01T00:00", "2026-12-01T00:01 00:02 00:03"),
    ("0 */1 * * *", "2026-12-01T00:00", "2026-12-01T01:00 02:00"),
    ("15,45 * * * *", "2026-12-01T00:00", "2026-12-01T00:15 00:45 01:15"),
    ("0 19 1 * *", "2026-12-01T00:00", "2026-12-01T19:00 2027-01-01T19:00"),
    ("34 2 * * *", "2026-12-01T00:00", "2026-12-01T02:34 02T02:34"),
    ("0 16 */2 * SAT", "2026-12-01T00:00", "2026-12-01T16:00 03T16:00 05T16:00 07T16:00"),
    ("1 1 */32,1-7 * 2", "2026-12-01T00:00", "2026-12-01T01:01 02T01:01 03T01:01 04T01:01"),
    ("0 16 1,2,3 * FRI", "2026-12-01T00:00", "2026-12-01T16:00 02T16:00 03T16:00 04T16:00 11T16:00"),
    ("30 4 1,15 * 5", "2026-12-01T00:00", "2026-12-01T04:30 04T04:30 11T04:30 15T04:30"),
    ("0 13 1-7 * 2", "2026-12-01T00:00", "2026-12-01T13:00 02T13:00 03T13:00 04T13:00"),
    ("0 9 1,15 * 1-5", "2026-12-01T00:00", "2026-12-01T09:00 02T09:00 03T09:00 04T09:00"),
    ("0 0 * * 5-7", "2026-12-01T00:00", "2026-12-04T00:00 05T00:00 06T00:00 11T00:00"),
    # Asked on a leap day.
    ("0 0 * * *", "2028-02-29T12:00", "2028-03-01T00:00"),
    ("0 0 1 * *", "2028-02-29T12:00", "2028-03-01T00:00"),
    ("0 0 30 * *", "2028-02-29T12:00", "2028-03-30T00:00"),
    # Asked on a fire, and just before and after it.
    ("0 9 * * *", "2026-12-01T09:00", "2026-12-02T09:00"),
    ("0 9 * * *", "2026-12-01T08:59:59.999999", "2026-12-01T09:00"),
    ("0 9 * * *", "2026-12-01T09:00:00.000001", "2026-12-02T09:00"),
    ("* * * * *", "2026-12-01T23:59:59.999999", "2026-12-02T00:00 00:01"),
]


@pytest.mark.parametrize(("text", "after", "expected"), UNIX_CRON)
def test_next_fires_of_unix_cron(text: str, after: str, expected: str) -> None:
    """In UTC."""
    check(text, "UTC", after, expected)


GROC = [
    ("every monday 09:00", "", "2026-07-01T00:00", "2026-07-06T09:00 13T09:00"),
    (
        *("1st,third mon,wed of march 17:00", "", "2026-01-01T00:00"),
        "2026-03-02T17:00 04T17:00 16T17:00 18T17:00 2027-03-01T17:00 03T17:00 15T17:00 17T17:00",
    ),
    ("first sunday of month 12:00", "", "2026-01-01T00:00", "2026-01-04T12:00 02-01T12:00 03-01T12:00"),
    (
        *("2nd,3rd tue,wed,thu of feb,aug 13:50", "", "2026-01-01T00:00"),
        (
            "2026-02-10T13:50 11T13:50 12T13:50 17T13:50 18T13:50 19T13:50 "
            "08-11T13:50 12T13:50 13T13:50 18T13:50 19T13:50 20T13:50"
        ),
    ),
    ("1st friday of quarter 9:00", "", "2026-01-01T00:00", "2026-01-02T09:00 04-03T09:00 07-03T09:00 10-02T09:00"),
    (
        *("second,4th tue,thursday of 3rd month of quarter 18:30", "", "2026-01-01T00:00"),
        (
            "2026-03-10T18:30 12T18:30 24T18:30 26T18:30 06-09T18:30 11T18:30 23T18:30 25T18:30 "
            "09-08T18:30 10T18:30 22T18:30 24T18:30 12-08T18:30 10T18:30 22T18:30 24T18:30"
        ),
    ),
    ("5th monday of month 00:00", "", "2026-01-01T00:00", "2026-03-30T00:00 06-29T00:00 08-31T00:00 11-30T00:00"),
    ("1,8,15,22 of month 09:00", "", "2026-01-01T10:00", "2026-01-08T09:00 15T09:00 22T09:00 02-01T09:00"),
    ("every 10 minutes from 10:00 to 14:00", "", "2026-01-01T09:00", "2026-01-01T10:00 10:10 10:20"),
    ("every 10 minutes from 10:00 to 14:00", "", "2026-01-01T13:45", "2026-01-01T13:50 14:00 02T10:00"),
    ("every 7 minutes from 10:00 to 10:20", "", "2026-01-01T10:07", "2026-01-01T10:14 02T10:00"),
    ("every 2 hours from 22:00 to 03:00", "", "2026-01-01T20:00", "2026-01-01T22:00 02T00:00 02:00 22:00"),
    ("every 2 hours from 22:00 to 03:00", "", "2026-01-01T00:30", "2026-01-01T02:00 22:00"),
    ("every 2 hours from 10:00 to 10:00", "", "2026-01-01T00:30", "2026-01-01T10:00 02T10:00"),
    ("every 48 hours from 10:00 to 12:00", "", "2026-01-01T00:30", "2026-01-01T10:00 02T10:00"),
    ("every 2 hours synchronized", "", "2026-01-01T01:30", "2026-01-01T02:00 04:00 06:00"),
    ("every 2 hours synchronized", "", "2026-01-01T20:30", "2026-01-01T22:00 02T00:00"),
    ("every 8 hours on mon,wed", "", "2026-01-01T00:00", "2026-01-05T00:00 08:00 16:00 07T00:00 08:00 16:00 12T00:00"),
    # Seen in public files.
    ("every 1 hours synchronized", "", "2026-12-01T00:00", "2026-12-01T01:00 02:00"),
    ("every 10 minutes synchronized", "", "2026-12-01T00:00", "2026-12-01T00:10 00:20"),
    ("every 5 minutes synchronized", "Asia/Tokyo", "2026-12-01T00:00", "2026-12-01T00:05 00:10"),
    ("every 6 hours synchronized", "", "2026-12-01T00:00", "2026-12-01T06:00 12:00 18:00"),
    ("every day 02:30", NEW_YORK, "2026-12-01T00:00", "2026-12-01T07:30"),
    ("every day 01:30", NEW_YORK, "2026-12-01T00:00", "2026-12-01T06:30"),
    ("every day 02:00", NEW_YORK, "2026-12-01T00:00", "2026-12-01T07:00"),
    ("every day 02:45", NEW_YORK, "2026-12-01T00:00", "2026-12-01T07:45"),
    ("every day 00:07", "", "2026-12-01T00:00", "2026-12-01T00:07"),
    ("every tuesday 9:00", "", "2026-12-01T00:00", "2026-12-01T09:00"),
    ("every tuesday 1:00", "America/Los_Angeles", "2026-12-01T00:00", "2026-12-01T09:00"),
    ("every sunday 23:59", "Asia/Singapore", "2026-12-01T00:00", "2026-12-06T15:59"),
    ("29 of feb 10:00", "", "2026-12-01T00:00", "2028-02-29T10:00"),
    ("1 of month 05:00", "", "2028-02-29T12:00", "2028-03-01T05:00"),
    ("1st,2nd monday 9:00", "", "2026-12-01T00:00", "2026-12-07T09:00 14T09:00"),
]


@pytest.mark.parametrize(("text", "zone", "after", "expected"), GROC)
def test_next_fires_of_groc(text: str, zone: str, after: str, expected: str) -> None:
    """Specific times and windows, in the job's zone."""
    check(text, zone, after, expected)


INTERVALS = [
    ("every 24 hours", 24 * HOUR),
    ("every 48 hours", 48 * HOUR),
    ("every 12 hours", 12 * HOUR),
    ("every 1 mins", MINUTE),
    ("every 1 minutes", MINUTE),
    ("every minute", MINUTE),
    ("every 3 minutes", 3 * MINUTE),
    ("every 45 minutes", 45 * MINUTE),
    ("every 60 minutes", HOUR),
    ("every 11 minutes", 11 * MINUTE),
]


@pytest.mark.parametrize(("text", "span"), INTERVALS)
def test_end_time_intervals_count_from_the_end_of_a_run(text: str, span: Span) -> None:
    """So they have no next fire of their own; the preview takes every run for instant, and no clock change matters."""
    schedule, after = parse_schedule(text, NEW_YORK), at("2027-03-14T06:59:30")

    assert schedule.kind == "groc-interval"
    assert not schedule.is_aligned
    assert schedule.interval == span
    assert schedule.next_after(after) is None
    assert fires(schedule, after, 3) == [after + span, after + 2 * span, after + 3 * span]


KINDS: list[tuple[str, Kind]] = [
    ("0 9 * * 1-5", "unix-cron"),
    (" 0  9\t* * 1-5\n", "unix-cron"),
    ("every day 09:00", "groc-specific"),
    ("1st monday of month 09:00", "groc-specific"),  # Five words, as unix-cron has.
    ("every mon of jan 9:00", "groc-specific"),
    ("1st , 3rd monday 9:00", "groc-specific"),
    ("first monday", "groc-specific"),
    ("1 of month", "groc-specific"),
    ("every 5 minutes from 9:00 to 17:00", "groc-window"),
    ("every 60 minutes on mon", "groc-window"),
    ("every 2 hours synchronized", "groc-window"),
]


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_the_language_is_told_by_the_words(text: str, kind: Kind) -> None:
    """Five words alone do not make unix-cron."""
    schedule = parse_schedule(text, "Europe/Paris")

    assert schedule.kind == kind
    assert schedule.is_aligned
    assert schedule.interval is None
    assert (schedule.text, schedule.time_zone) == (text, "Europe/Paris")


REFUSED = [
    # text, zone, what the message says
    ("", "", "The field schedule is empty"),
    (" \t\n", "", "The field schedule is empty"),
    ("* * * * *", "utc+8", 'Time zone "utc+8"'),
    ("every 5 minutes", "Mars/Olympus", 'Time zone "Mars/Olympus"'),
    ("0 30 14 * * *", "", "no field for seconds"),
    ("@daily", "", "@daily"),
    ("hourly", "", 'found 1: "hourly"'),
    ("EVERY DAY 09:00", "", '"EVERY"'),
    ("friday 10:00", "", '"friday"'),
    ("First monday", "", '"First"'),
    ("30 of feb 10:00", "", "30 of feb"),
    ("0 0 31 2 *", "", '"31"'),
    ("0 0 * * \u0661", "", r"the character '\u0661'"),
    ("0 0 * * 1\u00a0", "", r"the character '\xa0'"),
    ("0 0 * *\0 1", "", r"the character '\x00'"),
    ("0," * LONGEST_SCHEDULE + "0 0 * * *", "", "characters: expected at most 1000"),
]


@pytest.mark.parametrize(("text", "zone", "part"), REFUSED)
def test_what_is_no_schedule_is_refused_with_a_reason(text: str, zone: str, part: str) -> None:
    """Google's sentence first, then one of ours."""
    with pytest.raises(InvalidArgument) as refusal:
        parse_schedule(text, zone)

    assert refusal.value.message.startswith("Schedule or time zone is invalid. ")
    assert part in refusal.value.message
    assert refusal.value.message.endswith(".")
    assert refusal.value.message.isprintable()


def test_the_longest_schedule_is_read() -> None:
    """A list of all minutes has room."""
    text = ",".join(map(str, range(60))) + " * * * *"

    assert len(text) < LONGEST_SCHEDULE
    assert parse_schedule(text.ljust(LONGEST_SCHEDULE), "").next_after(0) == MINUTE


def test_schedules_are_equal_when_text_and_zone_are() -> None:
    """What a job update compares."""
    assert parse_schedule("* * * * *", "UTC") == parse_schedule("* * * * *", "UTC")
    assert parse_schedule("* * * * *", "UTC") != parse_schedule("* * * * *", "utc")
    assert parse_schedule("* * * * *", "UTC") != parse_schedule("*/1 * * * *", "UTC")


@pytest.mark.parametrize("text", ["0 0 1 1 *", "* * 1 1 *", "1 of jan 00:00", "every 2 hours from 00:00 to 00:00"])
@pytest.mark.parametrize("zone", ["", NEW_YORK, "Asia/Tokyo"])
def test_the_calendar_has_an_end_and_a_beginning(text: str, zone: str) -> None:
    """Past the year 9999 there is no fire; before the year 1 nothing is asked."""
    schedule = parse_schedule(text, zone)

    assert schedule.next_after(LATEST) is None
    assert len(fires(schedule, LATEST - 300 * DAY, 1000)) < 1000
    first = schedule.next_after(EARLIEST)
    assert first is not None
    assert first > EARLIEST


def test_intervals_end_with_the_calendar() -> None:
    """No fire that could not be written down."""
    schedule = parse_schedule("every 48 hours", "")

    assert fires(schedule, LATEST - 5 * DAY, 10) == [LATEST - 3 * DAY, LATEST - DAY]
    assert fires(schedule, 0, 0) == []


@pytest.mark.parametrize("host", ["Australia/Sydney", "Pacific/Apia", "America/St_Johns"])
def test_the_zone_of_the_host_has_no_influence(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the host's own change night, too."""
    monkeypatch.setenv("TZ", host)
    time.tzset()
    try:
        check("0 * * * *", "UTC", "2025-10-05T02:00", "2025-10-05T03:00 04:00")
        check("0 * * * *", "", "2011-12-30T09:30", "2011-12-30T10:00 11:00")
        check("every day 02:30", NEW_YORK, "2027-03-13T05:00", "2027-03-13T07:30 14T07:00 15T06:30")
        check("*/20 10 30 12 *", "Pacific/Apia", "2011-11-30T00:00", "2012-12-29T20:00 20:20 20:40")
        check("every 6 hours synchronized", "UTC", "2026-03-08T03:30", "2026-03-08T06:00 12:00")
    finally:
        monkeypatch.undo()
        time.tzset()


SLOWEST = [
    # text, after: the longest searches that the languages allow
    ("0 0 29 2 *", "2096-03-01T00:00"),
    ("59 23 29 2 *", "2096-02-29T23:59"),
    ("* * 29 2 *", "2096-03-01T00:00"),
    ("*/59 */23 29 2 *", "2096-03-01T00:00"),
    ("59 23 31 12 *", "2027-01-01T00:00"),
    ("29 of feb 23:59", "2096-03-01T00:00"),
    ("5th saturday of feb 23:59", "2080-03-01T00:00"),
    ("every 99999 hours from 00:00 to 23:59", "2027-01-01T00:00"),
    ("every 1 minutes on sun", "2027-01-04T00:00"),
    ("0-59 0-23 * * *", "2011-12-30T09:59"),
]


@pytest.mark.parametrize(("text", "after"), SLOWEST)
@pytest.mark.parametrize("zone", ["", NEW_YORK, "Pacific/Apia", "Africa/Casablanca"])
def test_any_next_fire_takes_less_than_a_tenth_of_a_second(text: str, after: str, zone: str) -> None:
    """Of this process's own time, the best of three."""
    spent = []
    for _ in range(3):
        parse_schedule.cache_clear()
        start = time.process_time()
        assert parse_schedule(text, zone).next_after(at(after)) is not None
        spent.append(time.process_time() - start)

    assert min(spent) < 0.1


@pytest.mark.parametrize("text", ["0 0 31 2 *", "30 of feb 10:00", "0 0 31 2,4,6,9,11 *", "31st day of jun"])
def test_a_schedule_that_can_never_fire_is_refused_at_once(text: str) -> None:
    """No search, so no time."""
    start = time.process_time()
    with pytest.raises(InvalidArgument, match="never run"):
        parse_schedule(text, NEW_YORK)

    assert time.process_time() - start < 0.1


def test_seconds_of_old_offsets_do_no_harm() -> None:
    """Fires are whole minutes of the wall, where the wall was a matter of seconds."""
    schedule = parse_schedule("0 0 * * *", "Africa/Monrovia")

    assert fires(schedule, at("1972-01-05T12:00"), 3) == [
        *(at("1972-01-06T00:44:30"), at("1972-01-07T00:45"), at("1972-01-08T00:00")),
    ]
    assert at("1972-01-06T00:44:30") % MINUTE == 30 * SECOND

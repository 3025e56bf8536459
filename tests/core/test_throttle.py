"""Adaptive throttling, and what a Retry-After header asks for."""

from __future__ import annotations

import pytest

from taskbell.core.instant import HOUR, SECOND, from_datetime, to_datetime
from taskbell.core.target import AppEngineTarget, HttpTarget, Target
from taskbell.core.task import Task
from taskbell.core.throttle import FLOOR, Throttle, is_overload, retry_after

NOW = 1_800_000_000 * SECOND  # 2027-01-15T08:00:00Z, a Friday.


def task(target: Target) -> Task:
    """A task for a target."""
    return Task(1, "projects/p/locations/l/queues/q", "1", named=False, target=target, schedule_time=0, create_time=0)


@pytest.mark.parametrize(
    ("target", "status", "overload"),
    [
        (HttpTarget("http://h/"), 429, True),
        (HttpTarget("http://h/"), 503, True),
        (HttpTarget("http://h/"), 500, False),
        (HttpTarget("http://h/"), 404, False),
        (HttpTarget("http://h/"), None, False),
        (AppEngineTarget(), 503, True),
        (AppEngineTarget(), 429, False),
        (AppEngineTarget(), None, False),
    ],
)
def test_handlers_ask_to_slow_down_with_503_and_http_handlers_with_429_too(
    target: Target, status: int | None, *, overload: bool
) -> None:
    """App Engine's 429 is an answer of the application and slows nothing down."""
    assert is_overload(task(target), status) is overload


def test_a_fresh_throttle_lets_the_configured_rate_through() -> None:
    """Nothing is held back without a reason."""
    throttle = Throttle(500.0)

    assert throttle.rate == 500.0
    assert throttle.succeeded() is False


def test_an_overload_halves_the_rate_at_most_once_a_second() -> None:
    """A hundred answers of one moment are one piece of news."""
    throttle = Throttle(400.0)

    assert throttle.overloaded(0) is True
    assert throttle.overloaded(SECOND - 1) is False
    assert throttle.rate == 200.0
    assert throttle.overloaded(SECOND) is True
    assert throttle.rate == 100.0


def test_the_rate_never_falls_below_the_floor() -> None:
    """A queue is slowed down, never stopped."""
    throttle = Throttle(64.0)
    moved = [throttle.overloaded(second * SECOND) for second in range(20)]

    assert moved == [True] * 6 + [False] * 14
    assert throttle.rate == 64.0 * FLOOR == 1.0


def test_successes_give_the_rate_back_and_no_more_than_that() -> None:
    """Five per cent of the configured rate at a time."""
    throttle = Throttle(100.0)
    throttle.overloaded(0)

    moved = [throttle.succeeded() for _ in range(12)]

    assert moved[:10] == [True] * 10
    assert moved[-1] is False
    assert throttle.rate == 100.0


def test_a_new_configuration_keeps_the_degree_of_throttling() -> None:
    """Half of the old rate becomes half of the new one."""
    throttle = Throttle(100.0)
    throttle.overloaded(0)
    throttle.configure(300.0)

    assert throttle.rate == 150.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("999999999999999999999999", 3600),
        ("3601", 3600),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("١٢", 0),
        ("²", 0),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30),
        ("Fri, 15 Jan 2027 08:00:30 -0000", 30),
        ("Fri, 15 Jan 2027 09:00:30 +0100", 30),
        ("Friday, 15-Jan-27 08:00:30 GMT", 30),
        ("Fri Jan 15 08:00:30 2027", 30),
        ("Fri, 15 Jan 2027 07:59:30 GMT", 0),
        ("Fri, 15 Jan 2028 08:00:00 GMT", 3600),
        ("Fri, 99 Jan 2027 08:00:30 GMT", 0),
        ("Fri, 15 Jan 99999 08:00:30 GMT", 0),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 3600),
        ("Fri, 15 Jan 2027 08:00:30 +99999999", 0),
        (",,,", 0),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date_and_nonsense_counts_as_nothing(
    text: str | None, seconds: int
) -> None:
    """RFC 9110 section 10.2.3, within zero and max_backoff."""
    assert retry_after(text, NOW, HOUR) == seconds * SECOND


def test_the_instant_of_these_tests_is_the_friday_they_speak_of() -> None:
    """So that the dates above mean what they say."""
    assert to_datetime(NOW).isoformat() == "2027-01-15T08:00:00+00:00"
    assert from_datetime(to_datetime(NOW)) == NOW

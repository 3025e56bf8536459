"""When to try again: the documented series to the microsecond, and the end of retries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.instant import HOUR, MILLISECOND, SECOND
from taskbell.core.queue import RetryConfig
from taskbell.core.retry import backoff, is_exhausted, waits


def config(min_backoff: float, max_backoff: float, max_doublings: int) -> RetryConfig:
    """Backoff settings in seconds."""
    return RetryConfig(
        min_backoff=round(min_backoff * SECOND), max_backoff=round(max_backoff * SECOND), max_doublings=max_doublings
    )


SERIES = [
    # min, max, doublings, the waits after the first, second, ... failure in seconds
    (10, 300, 3, [10, 20, 40, 80, 160, 240, 300, 300, 300]),
    (10, 120, 2, [10, 20, 40, 80, 120, 120]),
    (10, 200, 0, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180, 190, 200, 200]),
    (5, 3600, 5, [5, 10, 20, 40, 80, 160, 320, 480, 640]),
    (0.1, 3600, 16, [0.1 * 2**n for n in range(16)] + [3600, 3600, 3600]),
    (0, 3600, 16, [0, 0, 0, 0]),
    (30, 30, 16, [30, 30, 30]),
]


@pytest.mark.parametrize(("least", "most", "doublings", "series"), SERIES)
def test_the_documented_series_come_out_exactly(least: float, most: float, doublings: int, series: list[float]) -> None:
    """Contract: the series of the guides, without jitter."""
    settings = config(least, most, doublings)

    assert [backoff(settings, n) for n in range(1, len(series) + 1)] == [round(wait * SECOND) for wait in series]


@pytest.mark.parametrize(
    ("attempts", "duration", "most", "seconds"),
    [
        (4, None, 100, [10, 20, 40]),
        (1, None, 100, []),
        (None, 50, 100, [10, 20, 40]),
        (2, 50, 100, [10, 20, 40]),
        (100, None, 2, [10, 20]),
        (None, None, 3, [10, 20, 40]),
    ],
)
def test_the_waits_of_a_task_that_always_fails_at_once(
    attempts: int | None, duration: int | None, most: int, seconds: list[int]
) -> None:
    """Until its attempts are exhausted, or as many as are wanted."""
    span = None if duration is None else duration * SECOND
    settings = replace(config(10, 300, 3), max_attempts=attempts, max_retry_duration=span)

    assert waits(settings, most) == [second * SECOND for second in seconds]


def test_the_sixteenth_doubling_is_the_last_below_an_hour() -> None:
    """0.1 s doubled fifteen times is 3276.8 s; the next wait is the maximum."""
    settings = RetryConfig()

    assert backoff(settings, 16) == 3_276_800 * MILLISECOND
    assert backoff(settings, 17) == HOUR


@given(
    least=st.integers(0, 10**12),
    most=st.integers(0, 315_576_000_000 * SECOND),
    doublings=st.integers(0, 2**31 - 1),
    failures=st.integers(1, 2**31),
)
def test_a_wait_never_leaves_its_bounds_and_never_shrinks(least: int, most: int, doublings: int, failures: int) -> None:
    """Whatever the settings, however many failures."""
    settings = RetryConfig(min_backoff=min(least, most), max_backoff=most, max_doublings=doublings)

    wait = backoff(settings, failures)

    assert settings.min_backoff <= wait <= settings.max_backoff
    assert wait <= backoff(settings, failures + 1)


def test_a_number_of_doublings_beyond_all_bounds_costs_nothing() -> None:
    """A shift by two thousand million bits is never computed."""
    settings = RetryConfig(min_backoff=1, max_backoff=HOUR, max_doublings=2**31 - 1)

    assert backoff(settings, 2**31) == HOUR


ENDS = [
    # max_attempts, max_retry_duration in s, attempts made, seconds since the first, over?
    (3, None, 2, 10**6, False),
    (3, None, 3, 0, True),
    (3, None, 4, 0, True),
    (1, None, 1, 0, True),
    (3, 10, 3, 9.999999, False),
    (3, 10, 2, 10, False),
    (3, 10, 3, 10, True),
    (3, 10, 30, 9, False),
    (3, 10, 4, 11, True),
    (None, 10, 1000, 9.999999, False),
    (None, 10, 1, 10, True),
    (None, None, 10**6, 10**9, False),
]


@pytest.mark.parametrize(("most", "duration", "attempts", "elapsed", "over"), ENDS)
def test_retries_end_when_every_limit_that_is_set_is_reached(
    most: int | None, duration: float | None, attempts: int, elapsed: float, *, over: bool
) -> None:
    """Both limits must be reached where both are set; without any, nothing ends them."""
    settings = RetryConfig(max_attempts=most, max_retry_duration=None if duration is None else round(duration * SECOND))
    first = 1_700_000_000 * SECOND

    assert is_exhausted(settings, attempts, first, first + round(elapsed * SECOND)) is over

"""The token bucket: full at start, continuous, exact for slow rates, never above rate * time + burst."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.bucket import Bucket
from taskbell.core.instant import SECOND


def test_a_bucket_starts_full() -> None:
    """The burst is there at once."""
    assert Bucket(rate=1.0, burst=10, monotonic=5).available(5) == 10


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    """Idle time is not saved up."""
    bucket = Bucket(rate=500.0, burst=100, monotonic=0)

    assert bucket.available(10**6 * SECOND) == 100


def test_a_rate_of_one_in_a_thousand_seconds_gives_one_in_a_thousand_seconds() -> None:
    """Fractions of a token accrue."""
    bucket = Bucket(rate=0.001, burst=1, monotonic=0)
    bucket.take(bucket.available(0))

    assert bucket.delay() == 1000 * SECOND + 1
    assert bucket.available(999 * SECOND) == 0
    assert bucket.available(1000 * SECOND) == 1


def test_fractions_that_accrue_in_many_small_steps_add_up() -> None:
    """Looking often does not cost tokens."""
    bucket = Bucket(rate=3.0, burst=10, monotonic=0)
    bucket.take(10)
    for instant in range(0, 3 * SECOND, 1000):
        bucket.available(instant)

    assert bucket.available(3 * SECOND) == 9


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    """Time before the last look is no time."""
    bucket = Bucket(rate=1.0, burst=1, monotonic=10 * SECOND)
    bucket.take(1)

    assert bucket.available(10 * SECOND) == 0
    assert bucket.available(0) == 0
    assert bucket.available(11 * SECOND) == 1


def test_a_new_rate_counts_from_the_change_on() -> None:
    """What accrued at the old rate stays."""
    bucket = Bucket(rate=1.0, burst=10, monotonic=0)
    bucket.take(10)
    bucket.adjust(rate=4.0, burst=10, monotonic=2 * SECOND)

    assert bucket.available(2 * SECOND) == 2
    assert bucket.available(3 * SECOND) == 6


def test_a_smaller_burst_takes_away_what_exceeds_it() -> None:
    """The level is cut to the new capacity."""
    bucket = Bucket(rate=1.0, burst=100, monotonic=0)
    bucket.adjust(rate=1.0, burst=10, monotonic=0)

    assert bucket.available(0) == 10


def test_a_bucket_with_a_token_asks_for_no_wait() -> None:
    """The delay is for the next whole token."""
    assert Bucket(rate=1.0, burst=1, monotonic=0).delay() == 0


@given(rate=st.floats(0.001, 500), spent=st.integers(1, 500))
def test_the_wait_that_a_bucket_asks_for_is_enough(rate: float, spent: int) -> None:
    """No second look finds the bucket still empty, whatever floating point does."""
    bucket = Bucket(rate, spent, monotonic=7)
    bucket.take(bucket.available(7))

    assert bucket.available(7 + bucket.delay()) >= 1


@given(
    rate=st.floats(0.001, 500),
    burst=st.integers(1, 500),
    pauses=st.lists(st.integers(0, 10 * SECOND), min_size=1, max_size=60),
    wishes=st.lists(st.integers(0, 600), min_size=60, max_size=60),
)
def test_no_interval_sees_more_than_the_rate_and_one_burst(
    rate: float, burst: int, pauses: list[int], wishes: list[int]
) -> None:
    """For every pair of looks, what was taken between them stays within rate * time + burst."""
    bucket = Bucket(rate, burst, monotonic=0)
    now, taken = 0, [(0, 0)]
    for pause, wish in zip(pauses, wishes, strict=False):
        now += pause
        tokens = min(wish, bucket.available(now))
        bucket.take(tokens)
        taken.append((now, taken[-1][1] + tokens))

    for index, (since, before) in enumerate(taken):
        for until, after in taken[index + 1 :]:
            assert after - before <= (until - since) * rate / SECOND + burst + 1e-6
    assert all(earlier[1] <= later[1] for earlier, later in pairwise(taken))

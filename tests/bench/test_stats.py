"""The sums of the benchmarks: what a table claims must follow from what the rounds measured."""

from __future__ import annotations

import pytest

from bench.stats import (
    TARGETS,
    Round,
    Summary,
    Target,
    Verdict,
    composite,
    composite_floor,
    difference,
    idle_floor,
    percentile,
    ratio,
    summarise,
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([7.0], Summary(7.0, 7.0, 7.0, 1)),
        ([3.0, 1.0, 2.0], Summary(2.0, 1.0, 3.0, 3)),
        ([4.0, 1.0, 2.0, 100.0], Summary(3.0, 1.0, 100.0, 4)),
    ],
)
def test_a_summary_is_the_median_between_the_extremes(values: list[float], expected: Summary | None) -> None:
    """An outlier moves the extremes, not the median; an even count takes the middle of the two in the middle."""
    assert expected == summarise(values)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1), (0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (0.999, 100), (1.0, 100)],
)
def test_a_percentile_is_the_nearest_rank(share: float, expected: int) -> None:
    """The smallest value that the share does not exceed, always a value that was seen."""
    assert expected == percentile([float(number) for number in range(100, 0, -1)], share)


def test_a_percentile_of_nothing_is_refused() -> None:
    """No value is not zero."""
    with pytest.raises(ValueError, match="at least one value"):
        percentile([], 0.5)


def test_the_composite_rate_adds_up_times() -> None:
    """A step that takes 1/20 s and one that takes 1/30 s take 1/12 s together."""
    assert composite(20.0, 30.0) == pytest.approx(12.0)


def test_the_composite_floor_needs_all_its_parts() -> None:
    """With a part missing the floor would be too high, so there is none."""
    whole: Round = {"floor.noop": 20.0, "floor.post": 30.0, "floor.engine": 60.0}

    assert composite_floor(whole) == pytest.approx(10.0)
    for key in whole:
        assert composite_floor({other: rate for other, rate in whole.items() if other != key}) is None


def test_the_idle_floor_is_a_call_plus_a_post() -> None:
    """The two waits follow each other."""
    assert idle_floor({"floor.noop_idle_p50": 0.5, "floor.post_idle_p50": 0.25}) == 0.75
    assert idle_floor({"floor.noop_idle_p50": 0.5}) is None


def test_ratios_are_taken_inside_a_round() -> None:
    """A machine that halves its speed between rounds leaves the ratio as it was; ratios of medians would not."""
    target = Target("ours over theirs", ratio("ours", "theirs"), 0.5)

    seen = target.summary([{"ours": 8.0, "theirs": 16.0}, {"ours": 4.0, "theirs": 8.0}, {"ours": 3.0, "theirs": 6.0}])

    assert seen == Summary(0.5, 0.5, 0.5, 3)


@pytest.mark.parametrize("found", [{}, {"ours": 1.0}, {"theirs": 1.0}, {"ours": 1.0, "theirs": 0.0}])
def test_a_ratio_without_both_sides_is_missing(found: Round) -> None:
    """A round that skipped one side says nothing about the ratio."""
    assert ratio("ours", "theirs")(found) is None


def test_a_difference_needs_both_sides() -> None:
    """As a ratio does."""
    assert difference("large", "small")({"large": 5.0, "small": 3.0}) == 2.0
    assert difference("large", "small")({"large": 5.0}) is None


@pytest.mark.parametrize(
    ("at_least", "values", "expected"),
    [
        (True, [0.4], Verdict.REACHED),
        (True, [0.39], Verdict.MISSED),
        (False, [0.4], Verdict.REACHED),
        (False, [0.41], Verdict.MISSED),
        (True, [0.1, 0.4, 0.9], Verdict.REACHED),
        (True, [0.1, 0.3, 0.9], Verdict.MISSED),
        (True, [], Verdict.UNKNOWN),
    ],
)
def test_a_target_is_judged_by_its_median(*, at_least: bool, values: list[float], expected: Verdict) -> None:
    """The bound itself is reached; a lucky round does not save a missed median; nothing measured is no success."""
    target = Target("a figure", lambda found: found.get("figure"), 0.4, at_least=at_least)

    assert expected is target.judge([{"figure": value} for value in values])


def test_every_target_is_unknown_without_measurements() -> None:
    """An empty benchmark reaches nothing."""
    assert {target.judge([{}]) for target in TARGETS} == {Verdict.UNKNOWN}


def test_the_targets_are_those_that_were_set() -> None:
    """A round that sits exactly on every bound reaches every target, and one a little worse misses every one."""
    reached: Round = {
        "floor.noop": 30_000.0,
        "floor.post": 30_000.0,
        "floor.engine": 30_000.0,
        "floor.noop_idle_p50": 0.5,
        "floor.post_idle_p50": 0.5,
        "bullmq.end_to_end": 6_000.0,
        "ours.creates": 12_000.0,
        "ours.end_to_end": 6_000.0,
        "ours.idle_p50": 3.0,
        "ours.rate_1k": 5_000.0,
        "ours.rate_1m": 4_000.0,
        "ours.memory_1k": 200.0,
        "ours.memory_1m": 300.0,
        "ours.ready_empty": 1.0,
        "ours.ready_1m": 3.0,
    }
    worse = {
        "ours.creates": 11_900.0,
        "ours.end_to_end": 5_900.0,
        "ours.idle_p50": 3.1,
        "ours.rate_1m": 3_900.0,
        "ours.memory_1m": 301.0,
        "ours.ready_1m": 3.1,
    }

    assert {target.judge([reached]) for target in TARGETS} == {Verdict.REACHED}
    assert {target.judge([reached | worse]) for target in TARGETS} == {Verdict.MISSED}

"""The arithmetic of the benchmarks: medians, ratios within one round, the composite floor, targets.

Pure, and tested by `tests/bench/test_stats.py`: a benchmark whose sums are wrong is worse than none.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

# What one round measured: the key of a figure to its value. A part that could not run leaves no key.
Round = dict[str, float]


@dataclass(frozen=True, slots=True)
class Summary:
    """The median of some values, with the smallest and the largest beside it."""

    median: float
    low: float
    high: float
    count: int


def summarise(values: Iterable[float]) -> Summary | None:
    """The median, smallest and largest of the values; None when there are none."""
    found = list(values)
    if not found:
        return None
    return Summary(statistics.median(found), min(found), max(found), len(found))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0..1) of the values do not exceed (nearest rank)."""
    if not values:
        msg = "a percentile needs at least one value"
        raise ValueError(msg)
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * round(share * 10_000) // 10_000))
    return ordered[min(rank, len(ordered)) - 1]


def composite(*rates: float) -> float:
    """The rate of doing one of each in turn: times add up, so 1 / (1/a + 1/b + ...)."""
    return 1 / sum(1 / rate for rate in rates)


def composite_floor(found: Round) -> float | None:
    """The most that the parts allow together: one call, one POST, one write and delete for each task."""
    parts = [found.get(key) for key in ("floor.noop", "floor.post", "floor.engine")]
    rates = [rate for rate in parts if rate is not None]
    return composite(*rates) if len(rates) == len(parts) else None


def idle_floor(found: Round) -> float | None:
    """The idle latency that the parts add up to, in ms: a no-op call and a bare POST."""
    call, post = found.get("floor.noop_idle_p50"), found.get("floor.post_idle_p50")
    return None if call is None or post is None else call + post


def ratio(top: str, bottom: str | Callable[[Round], float | None]) -> Callable[[Round], float | None]:
    """A function of one round: the figure `top` over the figure (or function) `bottom`; None if either is missing."""

    def of(found: Round) -> float | None:
        over = found.get(top)
        under = found.get(bottom) if isinstance(bottom, str) else bottom(found)
        return None if over is None or not under else over / under

    return of


herd_share = ratio("jobs.herd_rate", "floor.post")
"""How fast a herd of jobs on one minute is sent, against posts in a loop."""


def difference(top: str, bottom: str) -> Callable[[Round], float | None]:
    """A function of one round: the figure `top` minus the figure `bottom`; None if either is missing."""

    def of(found: Round) -> float | None:
        over, under = found.get(top), found.get(bottom)
        return None if over is None or under is None else over - under

    return of


class Verdict(Enum):
    """What became of a target."""

    REACHED = "reached"
    MISSED = "missed"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that the median of a figure, taken inside each round, must keep."""

    sentence: str
    of: Callable[[Round], float | None]
    bound: float
    at_least: bool = True
    unit: str = ""

    def summary(self, rounds: Iterable[Round]) -> Summary | None:
        """The figure over the rounds that could measure it."""
        return summarise(value for found in rounds if (value := self.of(found)) is not None)

    def judge(self, rounds: Iterable[Round]) -> Verdict:
        """Whether the median keeps the bound."""
        seen = self.summary(rounds)
        if seen is None:
            return Verdict.UNKNOWN
        kept = seen.median >= self.bound if self.at_least else seen.median <= self.bound
        return Verdict.REACHED if kept else Verdict.MISSED


TARGETS = (
    Target("durable creates over no-op calls", ratio("ours.creates", "floor.noop"), 0.4),
    Target("end to end over the composite floor", ratio("ours.end_to_end", composite_floor), 0.6),
    Target("end to end over BullMQ", ratio("ours.end_to_end", "bullmq.end_to_end"), 1.0),
    Target("idle p50 over a no-op call plus a bare POST", ratio("ours.idle_p50", idle_floor), 3.0, at_least=False),
    Target("throughput with 1 M waiting over that with 1 k", ratio("ours.rate_1m", "ours.rate_1k"), 0.8),
    Target(
        "peak memory with 1 M waiting minus that with 1 k",
        difference("ours.memory_1m", "ours.memory_1k"),
        100.0,
        at_least=False,
        unit="MB",
    ),
    Target(
        "time to ready with 1 M waiting minus that when empty",
        difference("ours.ready_1m", "ours.ready_empty"),
        2.0,
        at_least=False,
        unit="s",
    ),
)

"""What the demo may claim: the ledger against the handler's record."""

from __future__ import annotations

import pytest

from taskbell.cli.demo_handler import Delivery
from taskbell.cli.demo_report import Acknowledged, Afterwards, Ledger, checked, compare, remarks

KEPT = Afterwards(waiting=0, refused=1, named=1)


def delivery(
    ticket: int, *, retry_count: int = 0, status: int = 200, key: str = "k", arrival_time: int = 100
) -> Delivery:
    """A request of one task."""
    return Delivery(ticket, f"t{ticket}", retry_count, key, status, arrival_time)


def ledger(*tickets: int, schedule_time: int | None = None, unanswered: tuple[int, ...] = ()) -> Ledger:
    """Creates that were acknowledged, and others that got no answer."""
    promised = {each: Acknowledged(each, f"t{each}", is_named=False, schedule_time=schedule_time) for each in tickets}
    return Ledger(promised, set(unanswered))


def test_counts_attempts_failures_and_repeats() -> None:
    """A retry has a number of its own; the same number twice is a repeat, which may follow a success."""
    deliveries = [
        delivery(1, status=503),
        delivery(1, retry_count=1),
        delivery(1, retry_count=1),
        delivery(2, status=503),
        delivery(2),
        delivery(3),
    ]

    report = compare(ledger(1, 2, unanswered=(3, 4)), deliveries)

    assert (report.acknowledged, report.delivered, report.missing) == (2, 2, ())
    assert (report.attempts, report.failures, report.most_attempts) == (6, 2, 3)
    assert (report.repeated, report.repeated_after_success) == (2, 1)
    assert (report.unanswered, report.unanswered_delivered) == (2, 1)
    assert all(check.holds for check in checked(report, KEPT))


@pytest.mark.parametrize(
    ("given", "deliveries", "after", "said"),
    [
        (ledger(1), [], KEPT, "0 of 1 acknowledged tasks were delivered: t1"),
        (ledger(1), [delivery(1, status=503)], KEPT, "0 of 1 acknowledged tasks were delivered: t1"),
        (ledger(1), [delivery(1)], Afterwards(1, 1, 1), "1 tasks are left in the queue"),
        (ledger(1), [delivery(1)], Afterwards(0, 0, 1), "0 of 1 names of finished tasks are refused when used again"),
        (
            ledger(1, schedule_time=101),
            [delivery(1)],
            KEPT,
            "1 of 1 tasks that were scheduled for later came too early: t1",
        ),
        (
            ledger(1),
            [delivery(1), delivery(1, key="other")],
            KEPT,
            "each delivery of one task carried the same Idempotency-Key: t1",
        ),
    ],
)
def test_names_each_broken_promise(given: Ledger, deliveries: list[Delivery], after: Afterwards, said: str) -> None:
    """One promise broken is one check that does not hold, with the task's name."""
    broken = [check.text for check in checked(compare(given, deliveries), after) if not check.holds]

    assert broken == [said]


def test_speaks_of_the_kill_only_after_one() -> None:
    """A run without a crash has nothing to say about it."""
    report = compare(ledger(1), [delivery(1)])

    assert len(remarks(report, is_killed=False)) == 1
    assert remarks(report, is_killed=True)[1].startswith("0 attempts were repeated because of the kill")

"""The settings of a guard, and what follows from them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from taskbell.core.claim import Run
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND
from taskbell.idempotency import Guard, MemoryStore, Policy
from taskbell.idempotency.heartbeat import Beat, Rhythm, next_beat
from taskbell.idempotency.key import Delivery, KeyRule, Kind
from taskbell.idempotency.policy import refused


@pytest.mark.parametrize(
    ("policy", "kind", "lease", "retention"),
    [
        (Policy(), Kind.SCHEDULER, 3 * MINUTE, DAY),
        (Policy(), Kind.TASKS, 10 * MINUTE, 31 * DAY),
        (Policy(), Kind.OTHER, 5 * MINUTE, DAY),
        (Policy(deadline=30 * MINUTE), Kind.SCHEDULER, 30 * MINUTE, DAY),
        (Policy(deadline=30 * MINUTE, lease=MINUTE), Kind.TASKS, MINUTE, 31 * DAY),
        (Policy(life=2 * HOUR), Kind.TASKS, 10 * MINUTE, 2 * HOUR),
        (Policy(life=SECOND), Kind.TASKS, 10 * MINUTE, 10 * MINUTE),
        (Policy(retention=HOUR), Kind.TASKS, 10 * MINUTE, HOUR),
    ],
)
def test_lease_and_retention_follow_the_delivery(policy: Policy, kind: Kind, lease: int, retention: int) -> None:
    """Its deadline, and how long it may come again, unless they are set."""
    assert (policy.lease_for(kind), policy.retention_for(kind)) == (lease, retention)


def test_the_kind_of_a_delivery_reaches_the_store() -> None:
    """Through its key."""
    guard = Guard(MemoryStore(lambda: 0), heartbeat=False)
    delivery = Delivery.of({"X-CloudTasks-QueueName": "q", "X-CloudTasks-TaskName": "t"})
    guard.claim(KeyRule().key(delivery))

    store = guard.store
    assert isinstance(store, MemoryStore)
    (record,) = store.records.values()
    assert (record.lease_expires, record.expire_at) == (10 * MINUTE, 31 * DAY)


@pytest.mark.parametrize(
    ("policy", "rhythm"),
    [
        (Policy(), Rhythm(5 * MINUTE, 100 * SECOND, HOUR)),
        (Policy(lease=3 * MINUTE), Rhythm(3 * MINUTE, MINUTE, HOUR)),
        (Policy(lease=3 * MINUTE, deadline=DAY), Rhythm(3 * MINUTE, MINUTE, DAY)),
        (Policy(lease=3 * MINUTE, heartbeat=SECOND, longest=2 * MINUTE), Rhythm(3 * MINUTE, SECOND, 2 * MINUTE)),
        (Policy(heartbeat=False), None),
    ],
)
def test_how_a_lease_is_kept(policy: Policy, rhythm: Rhythm | None) -> None:
    """Every third of it, for as long as the work may take."""
    assert policy.rhythm_for(Kind.OTHER) == rhythm


@pytest.mark.parametrize(
    ("policy", "kind", "doubts"),
    [
        (Policy(), Kind.TASKS, []),
        (Policy(retention=DAY), Kind.SCHEDULER, []),
        (Policy(retention=DAY), Kind.TASKS, ["keys are kept for 24h, but a delivery (tasks) may come again for 744h"]),
        (Policy(retention=DAY, life=DAY), Kind.TASKS, []),
        (Policy(lease=MINUTE), Kind.TASKS, []),
        (Policy(lease=MINUTE, heartbeat=False), Kind.TASKS, ["the lease of 1m is not renewed, but work (tasks) may"]),
        (Policy(lease=10 * MINUTE, heartbeat=False), Kind.TASKS, []),
    ],
)
def test_doubts(policy: Policy, kind: Kind, doubts: list[str]) -> None:
    """Settings that let work run twice are said, not refused: the user may know better."""
    said = policy.doubts(kind)

    assert len(said) == len(doubts)
    assert all(whole.startswith(begin) for whole, begin in zip(said, doubts, strict=True))


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"lease": 300}, ValueError, "lease is 300 µs: expected a second at least, as in 5 [*] MINUTE"),
        ({"retention": -1}, ValueError, "retention is -1 µs"),
        ({"lease": timedelta(minutes=5)}, TypeError, "lease is .*: spans are whole microseconds, as in 5 [*] MINUTE"),
        ({"longest": 1.5}, TypeError, "longest is 1.5"),
        ({"lease": MINUTE, "heartbeat": MINUTE}, ValueError, "heartbeat is 60000000 µs: it must be shorter"),
        ({"heartbeat": 0}, ValueError, "heartbeat is 0 µs"),
    ],
)
def test_settings_that_cannot_be_meant(settings: dict[str, Any], error: type[Exception], says: str) -> None:
    """One line with the name, the value and what was expected."""
    with pytest.raises(error, match=says):
        Policy(**settings)


RHYTHM = Rhythm(lease=30 * SECOND, interval=10 * SECOND, longest=5 * MINUTE)


@pytest.mark.parametrize(
    ("held_until", "now", "beat"),
    [
        pytest.param(30 * SECOND, 0, Beat(10 * SECOND, is_last=False), id="the first third"),
        pytest.param(30 * SECOND, 25 * SECOND, Beat(5 * SECOND, is_last=False), id="a renewal failed: once more"),
        pytest.param(30 * SECOND, 30 * SECOND, Beat(0, is_last=True), id="none came through: over"),
        pytest.param(30 * SECOND, MINUTE, Beat(0, is_last=True), id="stopped by the system meanwhile: over"),
        pytest.param(310 * SECOND, 290 * SECOND, Beat(10 * SECOND, is_last=False), id="the last one within the cap"),
        pytest.param(330 * SECOND, 300 * SECOND, Beat(30 * SECOND, is_last=True), id="the cap: to the lease's end"),
    ],
)
def test_the_rhythm_of_renewals(held_until: int, now: int, beat: Beat) -> None:
    """From when the work began (0), how long the claim is held, and now."""
    assert next_beat(RHYTHM, 0, held_until, now) == beat


def test_there_is_no_refusal_of_a_run() -> None:
    """A broken invariant is not an outcome."""
    run = MemoryStore().claim(Policy().bid(KeyRule(own=lambda _: "a").key(Delivery(())), "a", None))

    assert isinstance(run, Run)
    with pytest.raises(AssertionError, match="runs"):
        refused(run)

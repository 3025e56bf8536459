"""Leases that are kept while work runs."""

from __future__ import annotations

from taskbell.core.claim import Status
from taskbell.idempotency import (
    MINUTE,
    SECOND,
    Answer,
    Guard,
    InProgress,
    Lost,
    MemoryStore,
    Ran,
    Run,
    own_key,
)
from taskbell.testing.thread_clock import ManualThreadClock

KEY = own_key("order 17")
OK = Answer(200, (("Content-Type", "text/plain"), ("Set-Cookie", "secret")), b"done")


def test_the_heartbeat_keeps_the_lease_while_work_runs(
    guard: Guard, store: MemoryStore, clock: ManualThreadClock
) -> None:
    """Every third of it, for longer than one lease would have lasted."""

    def work(run: Run) -> object:
        for _ in range(6):
            clock.until_waiting(100 * SECOND)
            clock.advance(100 * SECOND)
        clock.until_waiting(100 * SECOND)
        run.check()
        return guard.call(KEY, lambda _: None)

    assert guard.call(KEY, work) == Ran(InProgress(5 * MINUTE))


def test_the_heartbeat_tells_the_work_that_it_lost_the_claim(
    guard: Guard, store: MemoryStore, clock: ManualThreadClock
) -> None:
    """As soon as a renewal says so."""

    def work(run: Run) -> None:
        clock.until_waiting(100 * SECOND)
        del store.records[KEY.text]
        clock.advance(100 * SECOND)
        assert run.lost.wait(10)
        run.check()

    assert guard.call(KEY, work) == Lost()


def test_the_heartbeat_ends_at_its_cap(store: MemoryStore, clock: ManualThreadClock) -> None:
    """Work that hangs is not renewed for ever; once its lease is over, others may run."""
    guard = Guard(store, clock=clock, longest=3 * MINUTE)

    def hanging(run: Run) -> object:
        clock.until_waiting(100 * SECOND)
        clock.advance(100 * SECOND)
        clock.until_waiting(5 * MINUTE)
        assert not run.lost.is_set()
        clock.advance(5 * MINUTE)
        assert run.lost.wait(10)
        return guard.call(KEY, lambda _: "other")

    assert guard.call(KEY, hanging) == Lost()
    kept = store.get(KEY.text)
    assert kept is not None
    assert kept.status is Status.COMPLETED

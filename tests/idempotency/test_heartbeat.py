"""Leases that are kept while work runs."""

from __future__ import annotations

import threading

from taskbell.core.claim import Bid, Decision, Status
from taskbell.idempotency import (
    MINUTE,
    SECOND,
    Answer,
    Guard,
    InProgress,
    Lost,
    MemoryStore,
    Ran,
    Record,
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


def test_the_machines_clock_renews_while_work_runs(store: MemoryStore) -> None:
    """Nothing is put in place of it here: the work waits until it was renewed."""
    renewed = threading.Event()

    class Telling(MemoryStore):
        def renew(self, key: str, attempt_id: str, lease: int) -> Record | Lost:
            try:
                return super().renew(key, attempt_id, lease)
            finally:
                renewed.set()

    guard = Guard(Telling(), lease=SECOND, heartbeat=SECOND // 100)

    assert guard.call(KEY, lambda _: renewed.wait(10)) == Ran(value=True)


def test_a_lease_counts_from_before_it_was_asked_for(clock: ManualThreadClock) -> None:
    """A store that takes its time has granted it at some moment since: ours must not end later than its."""

    class Slow(MemoryStore):
        def claim(self, bid: Bid) -> Decision:
            decision = super().claim(bid)
            clock.advance(MINUTE)
            return decision

        def renew(self, key: str, attempt_id: str, lease: int) -> Record | Lost:
            renewed = super().renew(key, attempt_id, lease)
            clock.advance(MINUTE)
            return renewed

    guard = Guard(Slow(clock.now), clock=clock, heartbeat=False)
    run = guard.claim(KEY)
    assert isinstance(run, Run)
    assert run.held_until - clock.monotonic() == 4 * MINUTE
    clock.advance(MINUTE)
    run.renew()

    assert run.held_until - clock.monotonic() == 4 * MINUTE
    run.release()


def test_a_renewal_that_meets_the_end_of_its_run_loses_nothing(clock: ManualThreadClock) -> None:
    """It was under way when the work finished, and finds the key completed: by its own run."""
    asked, finished = threading.Event(), threading.Event()

    class Late(MemoryStore):
        def renew(self, key: str, attempt_id: str, lease: int) -> Record | Lost:
            asked.set()
            assert finished.wait(10)
            return super().renew(key, attempt_id, lease)

    run = Guard(Late(clock.now), clock=clock).claim(KEY)
    assert isinstance(run, Run)
    clock.until_waiting(100 * SECOND)
    clock.advance(100 * SECOND)
    assert asked.wait(10)
    run.finish()
    finished.set()
    assert run._heartbeat is not None
    run._heartbeat._thread.join(10)

    assert not run._heartbeat._thread.is_alive()
    assert not run.lost.is_set()

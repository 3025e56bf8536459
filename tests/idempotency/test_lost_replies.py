"""A store that goes away in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from taskbell.idempotency import (
    MINUTE,
    SECOND,
    Answer,
    Failed,
    Guard,
    InProgress,
    MemoryStore,
    Ran,
    Replayed,
    Run,
    own_key,
)
from taskbell.testing.thread_clock import ManualThreadClock

KEY = own_key("order 17")
OK = Answer(200, (("Content-Type", "text/plain"), ("Set-Cookie", "secret")), b"done")


class Failing(MemoryStore):
    """A store whose connection is gone while `broken` names the verb."""

    broken: tuple[str, ...] = ()
    after = False
    """The verb takes effect, and its reply is lost."""
    calls: list[str]

    def __getattribute__(self, name: str) -> Any:
        verb = super().__getattribute__(name)
        if name not in {"claim", "renew", "finish", "release"}:
            return verb

        def call(*args: Any) -> Any:
            if name in self.broken:
                self.broken = self.broken[self.broken.index(name) + 1 :]
                if self.after:
                    verb(*args)
                raise ConnectionError(name)
            return verb(*args)

        return call


@pytest.fixture
def failing(clock: ManualThreadClock) -> Failing:
    return Failing(clock.now)


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after it"])
@pytest.mark.parametrize("verb", ["claim", "finish"])
def test_a_reply_that_was_lost_once_costs_nothing(failing: Failing, verb: str, after: bool) -> None:  # noqa: FBT001
    """Claim and finish are called again with the same attempt."""
    failing.broken, failing.after = (verb,), after
    guard = Guard(failing)

    assert guard.call(KEY, lambda run: run.fence) == Ran(1)
    assert guard.call(KEY, lambda run: run.fence) == Replayed()


def test_a_store_that_stays_away_at_finish_leaves_the_claim_to_its_lease(
    failing: Failing, clock: ManualThreadClock
) -> None:
    """Not released: the completion may still arrive. The delivery fails, and comes again."""
    failing.broken = ("finish", "finish")
    guard = Guard(failing, clock=clock)

    with pytest.raises(ConnectionError):
        guard.call(KEY, lambda _: None)
    assert guard.claim(KEY) == InProgress(5 * MINUTE)
    clock.advance(5 * MINUTE)
    assert guard.call(KEY, lambda run: run.took_over) == Ran(value=True)


def test_the_error_of_the_work_is_not_hidden_by_one_of_the_release(
    failing: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease ends by itself."""
    failing.broken = ("release",)

    with pytest.raises(ZeroDivisionError):
        Guard(failing).call(KEY, lambda _: 1 // 0)
    assert "its lease will end" in caplog.text


def test_a_renewal_that_fails_is_tried_again_before_the_lease_ends(failing: Failing, clock: ManualThreadClock) -> None:
    """One lost reply does not stop the work."""
    failing.broken = ("renew",)

    def work(run: Run) -> bool:
        clock.until_waiting(100 * SECOND)
        clock.advance(100 * SECOND)
        clock.until_waiting(100 * SECOND)
        clock.advance(100 * SECOND)
        clock.until_waiting(100 * SECOND)
        clock.advance(100 * SECOND)
        return run.is_held

    assert Guard(failing, clock=clock).call(KEY, work) == Ran(value=True)


def test_an_answer_that_failed_goes_out_although_the_store_is_away(failing: Failing) -> None:
    """The lease ends by itself."""
    failing.broken = ("release",)
    bad = Answer(500)

    assert Guard(failing).call(KEY, lambda _: bad) == Failed(bad, is_permanent=False)


class Dead(BaseException):
    """The process is gone: nothing of it goes on."""


class Dying(MemoryStore):
    """The store as a process sees it that dies at its n-th call, before or after its effect, and calls nothing more."""

    def __init__(self, store: MemoryStore, calls: int, *, after: bool) -> None:
        self.store, self.calls, self.after = store, calls, after

    def __getattribute__(self, name: str) -> Any:
        if name not in {"claim", "renew", "finish", "release"}:
            return super().__getattribute__(name)

        def call(*args: Any) -> Any:
            self.calls -= 1
            if self.calls < 0 or (self.calls == 0 and not self.after):
                raise Dead
            answer = getattr(self.store, name)(*args)
            if self.calls == 0:
                raise Dead
            return answer

        return call


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after it"])
@pytest.mark.parametrize("dies_at", [1, 2, 3, 4])
def test_a_process_may_die_at_any_call(
    store: MemoryStore,
    clock: ManualThreadClock,
    dies_at: int,
    after: bool,  # noqa: FBT001
) -> None:
    """Claim, a renewal in the work, finish, and never: with the lease over, the key completes, and only once.

    The effect is repeated only if it was there and its completion was not.
    """
    effects: list[str] = []

    def work(run: Run) -> Answer:
        run.renew()
        effects.append(run.attempt_id)
        return Answer(200, body=run.attempt_id.encode())

    dying = Guard(Dying(store, dies_at, after=after), clock=clock, heartbeat=False)
    is_dead = False
    try:
        dying.call(KEY, work)
    except Dead:
        is_dead = True
    clock.advance(5 * MINUTE)
    outcome = Guard(store, clock=clock, heartbeat=False).call(KEY, work)

    completed = not is_dead or (dies_at == 3 and after)
    assert is_dead is (dies_at < 4)
    assert isinstance(outcome, Replayed if completed else Ran)
    assert len(effects) == (2 if dies_at == 3 and not after else 1)
    kept = store.records[KEY.text].answer
    assert kept is not None
    assert kept.body == effects[-1].encode()

"""A store that goes away in the middle."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from taskbell.idempotency import (
    MINUTE,
    SECOND,
    Answer,
    Guard,
    InProgress,
    MemoryStore,
    NotRun,
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


def test_a_value_that_cannot_be_kept_does_not_fail_the_work(guard: Guard) -> None:
    """Failing after the effect would repeat it; the duplicate is told that there is nothing to return."""

    @guard.idempotent(key=str)
    def charge(order: int) -> object:
        return threading.Lock()

    charge(1)
    with pytest.raises(NotRun):
        charge(1)

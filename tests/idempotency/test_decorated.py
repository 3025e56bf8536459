"""Functions that run once."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from taskbell.idempotency import (
    Answer,
    Failed,
    Guard,
    InProgress,
    LostClaimError,
    MemoryStore,
    NotRun,
    PermanentFailure,
    current_run,
    own_key,
)
from taskbell.idempotency.value import from_json

KEY = own_key("order 17")
OK = Answer(200, (("Content-Type", "text/plain"), ("Set-Cookie", "secret")), b"done")


def test_a_decorated_function_returns_what_it_returned_first(guard: Guard) -> None:
    """Its signature stays as it is."""
    calls: list[str] = []

    @guard.idempotent(key=lambda order, **_: order)
    def charge(order: str, amount: int) -> dict[str, Any]:
        """Take the money."""
        calls.append(order)
        return {"order": order, "amount": amount, "attempt": current_run().fence}

    assert charge("a", amount=5) == charge(order="a", amount=5) == {"order": "a", "amount": 5, "attempt": 1}
    assert charge("b", amount=5)["order"] == "b"
    assert calls == ["a", "b"]
    assert charge.__doc__ == "Take the money."


def test_two_decorated_functions_do_not_share_keys(guard: Guard) -> None:
    """Unless they say so."""

    @guard.idempotent(key=str)
    def charge(order: int) -> str:
        return "charged"

    @guard.idempotent(key=str)
    def ship(order: int) -> str:
        return "shipped"

    @guard.idempotent(key=str, namespace=f"{charge.__module__}.{charge.__qualname__}")
    def charge_again(order: int) -> str:
        return "charged again"

    assert (charge(1), ship(1), charge_again(1)) == ("charged", "shipped", "charged")


def test_a_decorated_function_fails_for_good_each_time(guard: Guard) -> None:
    """Without running again."""
    calls: list[int] = []

    @guard.idempotent(key=str)
    def charge(order: int) -> None:
        calls.append(order)
        raise PermanentFailure("card refused")

    for _ in range(2):
        with pytest.raises(PermanentFailure, match="card refused"):
            charge(1)
    assert calls == [1]


def test_a_decorated_function_that_is_running_is_not_run(guard: Guard) -> None:
    """Nor is one whose claim was lost believed."""

    @guard.idempotent(key=str)
    def charge(order: int) -> str:
        if not order:
            store = guard.store
            assert isinstance(store, MemoryStore)
            store.records.clear()
            return "lost"
        return charge(order)

    with pytest.raises(NotRun) as caught:
        charge(1)
    with pytest.raises(LostClaimError):
        charge(0)
    assert isinstance(caught.value.outcome, InProgress)


def test_values_travel_as_json(guard: Guard, store: MemoryStore) -> None:
    """So that people can read what was kept."""

    @guard.idempotent(key=lambda order: order, namespace="n")
    def charge(order: str) -> list[int]:
        return [1, 2]

    charge("a")
    (kept,) = (each.answer for each in store.records.values())
    assert kept is not None
    assert kept.body == json.dumps([1, 2]).encode()


def test_an_answer_that_failed_is_no_value(guard: Guard) -> None:
    """A value encoded as a failure by the caller's own code has no place to return to."""
    with pytest.raises(NotRun):
        from_json(Failed(Answer(500), is_permanent=False))


def test_a_value_that_cannot_be_kept_does_not_fail_the_work(guard: Guard) -> None:
    """Failing after the effect would repeat it; the duplicate is told that there is nothing to return."""

    @guard.idempotent(key=str)
    def charge(order: int) -> object:
        return threading.Lock()

    charge(1)
    with pytest.raises(NotRun):
        charge(1)

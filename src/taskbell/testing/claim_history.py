"""Histories of claim stores, and whether they can be explained: a linearizability check.

Several attempts call verbs on one key at once, a `Recorder` notes when each call began and what it returned, and
`explanation` looks for one order of the calls in which every answer is what `core/claim.py` gives, and in which no call
comes after another that began only when it had ended. A call without an answer (its process died, its connection broke)
may have taken effect at any moment since it began, or not at all.

Stores judge by their own clocks, which a history does not know. So leases in it are of two kinds: none, which has ended
as soon as it is granted, and one that outlasts the test.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from taskbell.core import claim
from taskbell.core.claim import Answer, Bid, Decision, Lost, Mismatch, Record, Replay, Run, Wait
from taskbell.core.instant import DAY, HOUR, Span
from taskbell.idempotency.store import AsyncClaimStore

NONE: Span = 0
LONG: Span = HOUR
_NOW = 1
"""The model's now, for ever: no lease of LONG ends, every lease of NONE has."""

A = TypeVar("A", Decision, Record | Lost)
Seen = tuple[object, ...]
"""An answer without its instants."""


@dataclass(slots=True)
class Call:
    """One call of a verb, and what is known of it."""

    verb: str
    attempt_id: str
    lease: Span = LONG
    answer: Answer | None = None
    began: int = 0
    ended: int | None = None
    """None: no answer came."""
    seen: Seen = ()

    def __str__(self) -> str:
        """For people who look at a history that has no explanation."""
        what = f"{self.verb} by {self.attempt_id}" + (" without lease" if self.lease == NONE else "")
        return f"{self.began:4}-{self.ended or '':4} {what}: {self.seen or 'no answer'}"


def seen(answer: Decision | Record | Lost) -> Seen:
    """What of an answer does not depend on a clock."""
    match answer:
        case Run(record=record):
            return ("run", record.attempt_id, record.fence)
        case Replay(answer=stored):
            return ("replay", stored)
        case Wait():
            return ("wait",)
        case Mismatch():
            return ("mismatch",)
        case Lost():
            return ("lost",)
        case Record():
            return (answer.status, answer.attempt_id, answer.fence, answer.answer)


class Recorder:
    """Calls verbs on one key of a store, and notes what happened in which order."""

    def __init__(self, key: str) -> None:
        """An empty history of this key."""
        self.key = key
        self.calls: list[Call] = []
        self._ticks = count(1)

    async def claim(self, store: AsyncClaimStore, attempt_id: str, lease: Span = LONG) -> Decision:
        """Bid."""
        call = Call("claim", attempt_id, lease)
        return await self._noted(call, store.claim(Bid(self.key, attempt_id, lease, DAY)))

    async def renew(self, store: AsyncClaimStore, attempt_id: str, lease: Span = LONG) -> Record | Lost:
        """Renew."""
        return await self._noted(Call("renew", attempt_id, lease), store.renew(self.key, attempt_id, lease))

    async def finish(self, store: AsyncClaimStore, attempt_id: str, answer: Answer) -> Record | Lost:
        """Complete."""
        call = Call("finish", attempt_id, answer=answer)
        return await self._noted(call, store.finish(self.key, attempt_id, DAY, answer))

    async def release(self, store: AsyncClaimStore, attempt_id: str) -> Record | Lost:
        """Give back."""
        return await self._noted(Call("release", attempt_id), store.release(self.key, attempt_id))

    async def _noted(self, call: Call, verb: Awaitable[A]) -> A:
        call.began = next(self._ticks)
        self.calls.append(call)
        answer = await verb
        call.seen = seen(answer)
        call.ended = next(self._ticks)
        return answer


def explanation(calls: list[Call]) -> list[Call] | None:
    """An order of the calls that explains every answer, or None: the store is wrong.

    Depth first over what may come next, without visiting the same set of calls and record twice.
    """
    order: list[Call] = []
    visited: set[tuple[frozenset[int], Record | None]] = set()

    def extend(left: frozenset[int], stored: Record | None) -> bool:
        if all(calls[index].ended is None for index in left):
            return True
        if (left, stored) in visited:
            return False
        visited.add((left, stored))
        horizon = min(ended for index in left if (ended := calls[index].ended) is not None)
        for index in sorted(left):
            call = calls[index]
            if call.began > horizon:
                continue
            after, answer = _apply(call, stored)
            if call.ended is not None and call.seen != answer:
                continue
            order.append(call)
            if extend(left - {index}, after):
                return True
            order.pop()
        return False

    return order if extend(frozenset(range(len(calls))), None) else None


def _apply(call: Call, stored: Record | None) -> tuple[Record | None, Seen]:
    answer: Decision | Record | Lost
    match call.verb:
        case "claim":
            answer = claim.claim(stored, Bid("k", call.attempt_id, call.lease, DAY), _NOW)
        case "renew":
            answer = claim.renew(stored, call.attempt_id, _NOW, call.lease)
        case "finish":
            answer = claim.finish(stored, call.attempt_id, _NOW, DAY, call.answer)
        case _:
            answer = claim.release(stored, call.attempt_id)
    match answer:
        case Run(record=record):
            return record, seen(answer)
        case Record():
            return answer, seen(answer)
        case _:
            return stored, seen(answer)


def told(calls: list[Call]) -> str:
    """A history, a line for each call, in the order in which they began."""
    return "\n".join(str(call) for call in sorted(calls, key=lambda call: call.began))


def shifted(record: Record, span: Span) -> Record:
    """The record as it would be if `span` had passed since it was written: how a test lets time pass in a real
    store.
    """
    return replace(record, lease_expires=record.lease_expires - span, expire_at=record.expire_at - span)

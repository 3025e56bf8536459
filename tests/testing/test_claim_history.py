"""The judge of histories, judged: it must find an explanation where there is one, and none where there is not."""

from __future__ import annotations

import asyncio

import pytest

from taskbell.core import claim
from taskbell.core.claim import Answer, Bid, Decision, Record, Status
from taskbell.idempotency.store import AsyncClaimStore, ThreadedStore, as_async
from taskbell.idempotency.stores.memory import MemoryStore
from taskbell.testing.claim_history import LONG, NONE, Call, Recorder, Seen, explanation, told

RUN_A: Seen = ("run", "a", 1)
DONE = Answer(200, body=b"a")
DONE_A: Seen = (Status.COMPLETED, "a", 1, DONE)


def bid(attempt_id: str, began: int, ended: int | None, seen: Seen = (), lease: int = LONG) -> Call:
    return Call("claim", attempt_id, lease, None, began, ended, seen)


def finish(attempt_id: str, began: int, ended: int | None, seen: Seen = ()) -> Call:
    return Call("finish", attempt_id, LONG, DONE, began, ended, seen)


@pytest.mark.parametrize(
    ("calls", "is_right"),
    [
        pytest.param([], True, id="nothing happened"),
        pytest.param([bid("a", 1, 2, RUN_A), bid("b", 3, 4, ("wait",))], True, id="one after the other"),
        pytest.param([bid("a", 1, 4, RUN_A), bid("b", 2, 3, ("wait",))], True, id="the later one's answer came first"),
        pytest.param([bid("b", 1, 2, ("wait",)), bid("a", 3, 4, RUN_A)], False, id="waiting for the future"),
        pytest.param([bid("a", 1, 4, RUN_A), bid("b", 2, 3, ("run", "b", 1))], False, id="two run"),
        pytest.param([bid("a", 1, 4, RUN_A), bid("b", 2, 3, ("run", "b", 2))], False, id="two run, whatever the fence"),
        pytest.param(
            [bid("a", 1, 2, RUN_A, NONE), bid("b", 3, 4, ("run", "b", 2))], True, id="taken over after the lease"
        ),
        pytest.param([bid("a", 1, 2, RUN_A, NONE), bid("b", 3, 4, ("run", "b", 1))], False, id="a fence twice"),
        pytest.param(
            [bid("a", 1, 2, RUN_A), finish("a", 3, 4, DONE_A), bid("b", 5, 6, ("replay", DONE))], True, id="replayed"
        ),
        pytest.param(
            [bid("a", 1, 2, RUN_A), finish("a", 3, 4, DONE_A), bid("b", 5, 6, ("replay", None))], False, id="forgotten"
        ),
        pytest.param([bid("a", 1, 2, RUN_A), finish("a", 3, 4, DONE_A), bid("b", 5, 6, ("wait",))], False, id="stale"),
        pytest.param(
            [bid("a", 1, 2, RUN_A, NONE), bid("b", 3, 4, ("run", "b", 2)), finish("a", 5, 6, DONE_A)],
            False,
            id="a late finish that was let through",
        ),
        pytest.param([bid("a", 1, None), bid("b", 2, 3, ("wait",))], True, id="no answer, and it took effect"),
        pytest.param([bid("a", 1, None), bid("b", 2, 3, ("run", "b", 1))], True, id="no answer, and it did not"),
        pytest.param(
            [bid("a", 1, 2, RUN_A), finish("a", 3, None), bid("b", 4, 5, ("wait",)), bid("c", 6, 7, ("replay", DONE))],
            True,
            id="no answer, and it took effect late",
        ),
        pytest.param(
            [bid("a", 1, 2, RUN_A), finish("a", 3, None), bid("b", 4, 5, ("replay", DONE)), bid("c", 6, 7, ("wait",))],
            False,
            id="what took effect does not go away",
        ),
    ],
)
def test_a_history(calls: list[Call], is_right: bool) -> None:  # noqa: FBT001 - a table column.
    """By hand: who bids, when, and what it was told."""
    order = explanation(calls)

    assert (order is not None) is is_right, told(calls)


class CheckThenInsert:
    """A store that reads, lets others go on, and writes: the classic fault."""

    def __init__(self) -> None:
        self.right = as_async(MemoryStore())
        self.records: dict[str, Record] = {}

    async def claim(self, bid: Bid) -> Decision:
        stored = self.records.get(bid.key)
        await asyncio.sleep(0)
        decision = claim.claim(stored, bid, 1)
        if isinstance(decision, claim.Run):
            self.records[bid.key] = decision.record
        return decision

    def __getattr__(self, name: str) -> object:
        return getattr(self.right, name)


async def _two_bids(store: AsyncClaimStore) -> list[Call]:
    recorder = Recorder("k")
    await asyncio.gather(recorder.claim(store, "a"), recorder.claim(store, "b"))
    return recorder.calls


async def test_a_recorded_history_of_a_broken_store_has_no_explanation() -> None:
    """The canary: if this passes for a right store, the suite sees nothing."""
    broken: object = CheckThenInsert()

    assert explanation(await _two_bids(broken)) is None  # type: ignore[arg-type]
    assert explanation(await _two_bids(ThreadedStore(MemoryStore()))) is not None


async def test_a_call_that_raised_may_have_taken_effect() -> None:
    """It stays in the history without an end."""

    class LosesReplies(MemoryStore):
        def claim(self, bid: Bid) -> Decision:
            super().claim(bid)
            raise ConnectionError

    recorder, store = Recorder("k"), MemoryStore()
    losing = LosesReplies()
    losing.records = store.records
    with pytest.raises(ConnectionError):
        await recorder.claim(as_async(losing), "a")
    await recorder.claim(as_async(store), "b")

    assert [call.ended is None for call in recorder.calls] == [True, False]
    assert explanation(recorder.calls) is not None
    assert "no answer" in told(recorder.calls)

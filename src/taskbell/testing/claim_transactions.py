"""Suite: claim stores that can act inside a transaction of their caller's.

Subclass `TransactionalClaimStoreSuite` in place of `ClaimStoreSuite`, and give it one fixture more:

        @pytest.fixture
        def begin(self, database):
            @asynccontextmanager
            async def begin(): ...        # yield a connection in a transaction; commit at the end, roll back on an
            error return begin

The connection must be one that may be used in other threads, if the store blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from taskbell.core.claim import Lost, Record, Replay, Run
from taskbell.idempotency.errors import LostClaimError
from taskbell.idempotency.guard import AsyncGuard
from taskbell.idempotency.key import own_key
from taskbell.idempotency.outcome import InProgress, Ran, Replayed
from taskbell.idempotency.run import AsyncRun
from taskbell.idempotency.store import AsyncClaimStore, inside
from taskbell.testing.claim_history import shifted
from taskbell.testing.claim_samples import ANSWER, LEASE, RETENTION, Stage, bid, new_key
from taskbell.testing.claim_suite import ClaimStoreSuite

Begin = Callable[[], AbstractAsyncContextManager[Any]]
"""Begins a transaction of the caller's."""


class Undo(Exception):
    """Makes a transaction roll back."""


@pytest.mark.asyncio
class TransactionalClaimStoreSuite(ClaimStoreSuite):
    """What `in_transaction` promises besides."""

    async def test_verbs_take_effect_with_the_commit(self, stage: Stage, store: AsyncClaimStore, begin: Begin) -> None:
        """All of them, together."""
        key, released = new_key(), new_key()
        async with begin() as connection:
            within: AsyncClaimStore = inside(store, connection)
            assert isinstance(await within.claim(bid(key, "a")), Run)
            assert isinstance(await within.renew(key, "a", 2 * LEASE), Record)
            finished = await within.finish(key, "a", RETENTION, ANSWER)
            assert isinstance(await within.claim(bid(released, "a")), Run)
            assert isinstance(await within.release(released, "a"), Record)
            assert await within.get(key) == finished
            await within.close()

        assert await stage.record(key) == finished
        assert await stage.client().claim(bid(key, "b")) == Replay(ANSWER)
        assert (await stage.claimed(released, "b")).fence == 2

    async def test_a_rollback_leaves_nothing(self, stage: Stage, store: AsyncClaimStore, begin: Begin) -> None:
        """Neither of a claim nor of a completion."""
        fresh, held = new_key(), new_key()
        record = await stage.claimed(held, "a")
        with pytest.raises(Undo):
            async with begin() as connection:
                within: AsyncClaimStore = inside(store, connection)
                await within.claim(bid(fresh, "a"))
                await within.finish(held, "a", RETENTION, ANSWER)
                raise Undo

        assert await store.get(fresh) is None
        assert await stage.record(held) == record

    async def test_a_duplicate_waits_for_the_commit(self, stage: Stage, store: AsyncClaimStore, begin: Begin) -> None:
        """And is then given the answer: it neither runs nor fails."""
        key, other = new_key(), stage.client()
        async with begin() as connection:
            within: AsyncClaimStore = inside(store, connection)
            await within.claim(bid(key, "a"))
            duplicate = asyncio.create_task(other.claim(bid(key, "b")))
            await asyncio.sleep(0)
            await within.finish(key, "a", RETENTION, ANSWER)

        assert await duplicate == Replay(ANSWER)

    async def test_a_duplicate_runs_after_a_rollback(self, stage: Stage, store: AsyncClaimStore, begin: Begin) -> None:
        """As if the first had never been."""
        key, other = new_key(), stage.client()
        with pytest.raises(Undo):
            async with begin() as connection:
                await inside(store, connection).claim(bid(key, "a"))
                duplicate = asyncio.create_task(other.claim(bid(key, "b")))
                await asyncio.sleep(0)
                raise Undo

        decision = await duplicate
        assert isinstance(decision, Run)
        assert decision.record.fence == 1

    async def test_who_was_taken_over_is_told(self, stage: Stage, store: AsyncClaimStore, begin: Begin) -> None:
        """Before the caller commits."""
        key = new_key()
        await stage.claimed(key, "a", lease=0)
        record = await stage.claimed(key, "b")
        async with begin() as connection:
            assert isinstance(await inside(store, connection).finish(key, "a", RETENTION, ANSWER), Lost)

        assert await stage.record(key) == record

    async def test_a_run_finishes_beside_its_effect(self, stage: Stage, store: AsyncClaimStore, begin: Begin) -> None:
        """`run.finish_in`: others see the claim while the work runs, and its completion with the commit."""
        guard, key = AsyncGuard(store), own_key(new_key())

        async def work(run: AsyncRun) -> object:
            refusal = await guard.claim(key)
            async with begin() as connection:
                await run.finish_in(connection, ANSWER)
            return type(refusal)

        assert await guard.call(key, work) == Ran(InProgress)
        assert await guard.claim(key) == Replayed(guard.policy.keep(ANSWER))

    async def test_a_run_whose_transaction_fails_is_released(
        self, stage: Stage, store: AsyncClaimStore, begin: Begin
    ) -> None:
        """The next delivery runs at once."""
        guard, key = AsyncGuard(store), own_key(new_key())

        async def fail(run: AsyncRun) -> None:
            async with begin() as connection:
                await run.finish_in(connection)
                raise Undo

        async def work(run: AsyncRun) -> bool:
            return run.took_over

        with pytest.raises(Undo):
            await guard.call(key, fail)
        assert await guard.call(key, work) == Ran(value=False)

    async def test_a_late_run_rolls_its_effect_back(self, stage: Stage, store: AsyncClaimStore, begin: Begin) -> None:
        """`finish_in` raises inside the transaction."""
        guard, key, was_rolled_back = AsyncGuard(store), own_key(new_key()), False

        async def late(run: AsyncRun) -> None:
            nonlocal was_rolled_back
            await stage.put(shifted(await stage.record(key.text), 2 * guard.policy.lease_for(key.kind)))
            await stage.claimed(key.text, "b")
            try:
                async with begin() as connection:
                    await run.finish_in(connection)
            except LostClaimError:
                was_rolled_back = True
                raise

        assert await guard.call(key, late) == Lost()
        assert was_rolled_back

    async def test_a_guard_within_the_transaction(self, stage: Stage, store: AsyncClaimStore, begin: Begin) -> None:
        """`guard.within`: claim, effect and completion at once; what rolls back never was."""
        guard, key = AsyncGuard(store), own_key(new_key())

        async def work(run: AsyncRun) -> int:
            return run.fence

        with pytest.raises(Undo):
            async with begin() as connection:
                assert await guard.within(connection).call(key, work) == Ran(1)
                raise Undo
        async with begin() as connection:
            assert await guard.within(connection).call(key, work) == Ran(1)
            assert await guard.within(connection).call(key, work) == Replayed()

        assert await guard.claim(key) == Replayed()

"""Suite: several callers at once."""

from __future__ import annotations

import asyncio
import random

import pytest

from taskbell.core.claim import Answer, Lost, Record, Replay, Run, Wait
from taskbell.idempotency.store import AsyncClaimStore
from taskbell.testing.claim_history import LONG, NONE, Recorder, explanation, told
from taskbell.testing.claim_samples import ANSWER, LEASE, RETENTION, Stage, bid, new_key


class Contending:
    """Verbs on one key happen in some one order."""

    async def test_one_of_many_bids_runs(self, stage: Stage) -> None:
        """Fifty at a time, from two clients; the others wait, and once it is done are given its answer."""
        key, clients = new_key(), [stage.store, stage.client()]

        first = await asyncio.gather(*(clients[n % 2].claim(bid(key, f"first-{n}")) for n in range(50)))
        (run,) = (decision for decision in first if isinstance(decision, Run))
        assert sum(isinstance(decision, Wait) for decision in first) == 49

        await stage.store.finish(key, run.record.attempt_id, RETENTION, ANSWER)
        second = await asyncio.gather(*(clients[n % 2].claim(bid(key, f"second-{n}")) for n in range(50)))
        assert second == [Replay(ANSWER)] * 50

    async def test_one_of_many_takes_over(self, stage: Stage) -> None:
        """A lease that ended is one attempt's prize."""
        key, clients = new_key(), [stage.store, stage.client()]
        await stage.claimed(key, "dead", lease=0)

        decisions = await asyncio.gather(*(clients[n % 2].claim(bid(key, f"{n}")) for n in range(20)))

        assert [decision.record.fence for decision in decisions if isinstance(decision, Run)] == [2]

    async def test_a_late_finish_and_a_takeover_exclude_each_other(self, stage: Stage) -> None:
        """Either the work is completed and nobody else runs, or it is lost and one other runs."""
        other = stage.client()
        for _ in range(10):
            key = new_key()
            await stage.claimed(key, "late", lease=0)
            finished, decision = await asyncio.gather(
                stage.store.finish(key, "late", RETENTION, ANSWER), other.claim(bid(key, "new"))
            )

            assert (isinstance(finished, Record), isinstance(decision, Replay)) in {(True, True), (False, False)}
            assert isinstance(finished, Lost) is isinstance(decision, Run)

    async def test_a_renewal_and_a_takeover_exclude_each_other(self, stage: Stage) -> None:
        """Never do both believe that they hold it."""
        other = stage.client()
        for _ in range(10):
            key = new_key()
            await stage.claimed(key, "late", lease=0)
            renewed, decision = await asyncio.gather(
                stage.store.renew(key, "late", LEASE), other.claim(bid(key, "new"))
            )

            assert isinstance(renewed, Lost) is isinstance(decision, Run)

    @pytest.mark.parametrize("seed", range(6))
    async def test_random_histories_can_be_explained(self, stage: Stage, seed: int) -> None:
        """Four attempts a round claim, renew, finish and release one key at once, some of them after their lease.

        Every answer must be one that some order of the calls gives.
        """
        chance = random.Random(seed)  # noqa: S311 - a scenario, not a secret.
        recorder = Recorder(new_key())
        clients = [stage.store, stage.client()]
        for round_number in range(4):
            await asyncio.gather(
                *(_attempt(recorder, clients, f"{round_number}-{n}", chance) for n in range(4)),
            )

        assert explanation(recorder.calls) is not None, told(recorder.calls)


async def _attempt(recorder: Recorder, clients: list[AsyncClaimStore], attempt_id: str, chance: random.Random) -> None:
    store = chance.choice(clients)
    lease = chance.choice([NONE, NONE, LONG])
    decision = await recorder.claim(store, attempt_id, lease)
    if not isinstance(decision, Run):
        return
    for _ in range(chance.randrange(3)):
        await recorder.renew(chance.choice(clients), attempt_id, NONE)
    if chance.random() < 0.3:
        await recorder.finish(chance.choice(clients), attempt_id, Answer(200, body=attempt_id.encode()))
    elif chance.random() < 0.9 or lease == LONG:
        await recorder.release(chance.choice(clients), attempt_id)

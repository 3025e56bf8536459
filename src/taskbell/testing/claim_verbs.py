"""Suite: the verbs of a claim store, one caller at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.claim import LONG_AGO, NOBODY, Answer, Bid, Lost, Mismatch, Record, Replay, Run, Status, Wait
from taskbell.core.instant import HOUR, MINUTE, SECOND
from taskbell.idempotency.store import KEY_LENGTH_MAX, AsyncClaimStore
from taskbell.testing.claim_samples import ANSWER, LEASE, RETENTION, Stage, bid, new_key

SLACK = 5 * MINUTE
"""How long the calls of one test may take, when a store's own clock runs beside it."""


class Claiming:
    """`claim`."""

    async def test_an_absent_key_is_given(self, stage: Stage, store: AsyncClaimStore) -> None:
        """With the first fence, a lease and a time to be forgotten, as stored."""
        key = new_key()
        decision = await store.claim(bid(key, "a", fingerprint="f"))

        assert isinstance(decision, Run)
        assert not decision.took_over
        record = decision.record
        assert (record.key, record.status, record.attempt_id, record.fence) == (key, Status.IN_PROGRESS, "a", 1)
        assert (record.fingerprint, record.answer) == ("f", None)
        assert record.expire_at - record.lease_expires == RETENTION - LEASE
        assert await stage.record(key) == record

    async def test_a_record_outlives_its_lease(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Also when its retention is shorter, and when the lease is renewed beyond it."""
        key = new_key()
        decision = await store.claim(Bid(key, "a", LEASE, SECOND))
        renewed = await store.renew(key, "a", 2 * LEASE)

        assert isinstance(decision, Run)
        assert decision.record.expire_at == decision.record.lease_expires
        assert isinstance(renewed, Record)
        assert renewed.expire_at == renewed.lease_expires > decision.record.lease_expires

    async def test_a_live_lease_is_waited_for(self, stage: Stage, store: AsyncClaimStore) -> None:
        """And the record stays as it is."""
        key = new_key()
        record = await stage.claimed(key, "a")
        decision = await store.claim(bid(key, "b"))

        assert isinstance(decision, Wait)
        assert decision.until == record.lease_expires
        assert LEASE - SLACK < decision.remaining <= LEASE
        assert await stage.record(key) == record

    async def test_a_lease_that_ended_is_taken_over_with_a_higher_fence(self, stage: Stage) -> None:
        """By the store's clock."""
        key = new_key()
        await stage.claimed(key, "a")
        await stage.pass_time(key, LEASE - SLACK)
        assert isinstance(await stage.store.claim(bid(key, "b")), Wait)
        await stage.pass_time(key, SLACK)

        decision = await stage.store.claim(bid(key, "b"))

        assert isinstance(decision, Run)
        assert decision.took_over
        assert (decision.record.attempt_id, decision.record.fence) == ("b", 2)

    async def test_the_same_bid_again_gives_the_same_run(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Its first answer was lost: one fence, and a lease that is no shorter."""
        key = new_key()
        first = await stage.claimed(key, "a")
        again = await store.claim(bid(key, "a"))

        assert isinstance(again, Run)
        assert not again.took_over
        assert again.record.fence == first.fence
        assert again.record.lease_expires >= first.lease_expires

    async def test_fences_only_grow(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Over release, takeover and a retention that is over but not swept."""
        key = new_key()
        fences = []
        for attempt_id in "abcd":
            fences.append((await stage.claimed(key, attempt_id, lease=0)).fence)
            if attempt_id == "b":
                await store.release(key, attempt_id)

        assert fences == [1, 2, 3, 4]

    async def test_another_request_is_refused(self, stage: Stage, store: AsyncClaimStore) -> None:
        """While the first is in progress, once its lease has ended, and when it is done."""
        key = new_key()
        await store.claim(bid(key, "a", fingerprint="f"))
        assert await store.claim(bid(key, "b", fingerprint="g")) == Mismatch()
        await stage.pass_time(key, LEASE)
        assert await store.claim(bid(key, "b", fingerprint="g")) == Mismatch()
        await store.finish(key, "a", RETENTION)

        assert await store.claim(bid(key, "b", fingerprint="g")) == Mismatch()
        assert await store.claim(bid(key, "b", fingerprint="f")) == Replay()
        assert await store.claim(bid(key, "b")) == Replay()

    async def test_keys_do_not_meet(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Any printable characters, cases of letters and lengths up to the limit are different keys."""
        stem = new_key()
        keys = [stem + end for end in ("a", "A", "%", "_", "'", '"', ":", "{", "*", "?", "\\", "~")]
        keys.append((stem * 4)[:KEY_LENGTH_MAX])
        for key in keys:
            await stage.claimed(key, "a")

        assert [(await stage.record(key)).key for key in keys] == keys

    @pytest.mark.parametrize("attempt_id", ["a", "0" * 32])
    async def test_a_key_that_nobody_claimed_is_absent(self, store: AsyncClaimStore, attempt_id: str) -> None:
        """For every verb."""
        key = new_key()

        assert await store.get(key) is None
        assert await store.renew(key, attempt_id, LEASE) == Lost(None)
        assert await store.finish(key, attempt_id, RETENTION) == Lost(None)
        assert await store.release(key, attempt_id) == Lost(None)
        assert await store.get(key) is None


class Holding:
    """`renew`, `release`, and who may."""

    async def test_renewing_moves_the_end_of_the_lease(self, stage: Stage, store: AsyncClaimStore) -> None:
        """From now on, and nothing else."""
        key = new_key()
        record = await stage.claimed(key, "a", lease=10 * MINUTE)
        renewed = await store.renew(key, "a", HOUR)

        assert isinstance(renewed, Record)
        assert HOUR - 10 * MINUTE <= renewed.lease_expires - record.lease_expires < HOUR
        assert replace(renewed, lease_expires=record.lease_expires) == record
        assert await stage.record(key) == renewed

    async def test_renewing_never_shortens(self, stage: Stage, store: AsyncClaimStore) -> None:
        """What was promised stands."""
        key = new_key()
        record = await stage.claimed(key, "a")

        assert await store.renew(key, "a", SECOND) == record

    async def test_a_lease_that_ended_may_still_be_renewed(self, stage: Stage, store: AsyncClaimStore) -> None:
        """As long as nobody else has claimed, nobody else has begun."""
        key = new_key()
        await stage.claimed(key, "a")
        await stage.pass_time(key, LEASE)
        await store.renew(key, "a", LEASE)

        assert isinstance(await store.claim(bid(key, "b")), Wait)

    async def test_a_released_key_is_given_at_once(self, stage: Stage, store: AsyncClaimStore) -> None:
        """With a higher fence, and nobody is taken over."""
        key = new_key()
        await stage.claimed(key, "a")
        released = await store.release(key, "a")
        decision = await store.claim(bid(key, "b"))

        # So that the guide's sample, which knows no release, reads it as ended whatever its clock says.
        assert isinstance(released, Record)
        assert (released.status, released.attempt_id, released.fence) == (Status.IN_PROGRESS, NOBODY, 1)
        assert released.lease_expires == LONG_AGO
        assert isinstance(decision, Run)
        assert not decision.took_over
        assert decision.record.fence == 2

    async def test_who_was_taken_over_can_do_nothing(self, stage: Stage, store: AsyncClaimStore) -> None:
        """It is told, and the record stays the other's."""
        key = new_key()
        await stage.claimed(key, "a", lease=0)
        record = await stage.claimed(key, "b")

        for outcome in (
            await store.renew(key, "a", LEASE),
            await store.finish(key, "a", RETENTION, ANSWER),
            await store.release(key, "a"),
        ):
            assert isinstance(outcome, Lost)
        assert await stage.record(key) == record

    async def test_who_released_can_do_nothing(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Not even release again; the next bid is not disturbed."""
        key = new_key()
        await stage.claimed(key, "a")
        await store.release(key, "a")

        for outcome in (
            await store.renew(key, "a", LEASE),
            await store.finish(key, "a", RETENTION, ANSWER),
            await store.release(key, "a"),
        ):
            assert isinstance(outcome, Lost)
        assert (await stage.claimed(key, "b")).fence == 2

    async def test_what_is_completed_can_be_neither_renewed_nor_released(
        self, stage: Stage, store: AsyncClaimStore
    ) -> None:
        """Also not by who completed it: an answer that was given stands."""
        key = new_key()
        record = await stage.completed(key, "a")

        assert isinstance(await store.renew(key, "a", LEASE), Lost)
        assert isinstance(await store.release(key, "a"), Lost)
        assert isinstance(await store.finish(key, "b", RETENTION, Answer(500)), Lost)
        assert await stage.record(key) == record


class KeepingAnswers:
    """`finish`, and what duplicates are given."""

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(None, id="none"),
            pytest.param(ANSWER, id="headers and bytes"),
            pytest.param(Answer(204), id="an empty body"),
            pytest.param(Answer(200, body=None), id="a body too large to keep"),
            pytest.param(Answer(200, (("X", "é"), ("x", '"')), b"x" * 65_536), id="the largest that is kept"),
        ],
    )
    async def test_the_answer_comes_back_as_it_was(
        self, stage: Stage, store: AsyncClaimStore, answer: Answer | None
    ) -> None:
        """Byte for byte, to any client."""
        key = new_key()
        claimed = await stage.claimed(key, "a")
        finished = await store.finish(key, "a", RETENTION, answer)

        assert isinstance(finished, Record)
        assert (finished.status, finished.attempt_id, finished.fence) == (Status.COMPLETED, "a", claimed.fence)
        assert finished.answer == answer
        assert await stage.client().claim(bid(key, "b")) == Replay(answer)
        assert await stage.record(key) == finished

    async def test_finishing_after_the_lease_counts_while_nobody_else_claimed(
        self, stage: Stage, store: AsyncClaimStore
    ) -> None:
        """Slow is not lost."""
        key = new_key()
        await stage.claimed(key, "a", lease=0)

        assert isinstance(await store.finish(key, "a", RETENTION, ANSWER), Record)

    async def test_finishing_again_changes_nothing(self, stage: Stage, store: AsyncClaimStore) -> None:
        """The first answer stands, and who gave it is told so."""
        key = new_key()
        record = await stage.completed(key, "a")

        assert await store.finish(key, "a", RETENTION, Answer(500)) == record
        assert await stage.record(key) == record

    async def test_the_retention_counts_from_completion(self, stage: Stage, store: AsyncClaimStore) -> None:
        """And is never shortened."""
        key, other = new_key(), new_key()
        for each in (key, other):
            await stage.claimed(each, "a")
            await stage.pass_time(each, HOUR // 2)
        before = await stage.record(key)
        longer = await store.finish(key, "a", RETENTION)
        same = await store.finish(other, "a", SECOND)

        assert isinstance(longer, Record)
        assert isinstance(same, Record)
        assert HOUR // 2 <= longer.expire_at - before.expire_at < HOUR // 2 + SLACK
        assert same.expire_at == (await stage.record(other)).expire_at >= before.expire_at

    async def test_a_completed_key_whose_retention_is_over_is_absent(
        self, stage: Stage, store: AsyncClaimStore
    ) -> None:
        """Whether it was swept away or not."""
        key = new_key()
        await stage.completed(key)
        await stage.pass_time(key, RETENTION - SLACK)
        assert await store.claim(bid(key, "b")) == Replay(ANSWER)
        await stage.pass_time(key, SLACK)
        left = await store.get(key)

        decision = await store.claim(bid(key, "b", fingerprint="another"))

        assert isinstance(decision, Run)
        assert not decision.took_over
        assert decision.record.fence == (1 if left is None else left.fence + 1)
        assert decision.record.answer is None
        assert isinstance(await store.claim(bid(key, "c")), Wait)


class ReadingSampleRecords:
    """Records as the guide's sample writes them: without fence, fingerprint and answer."""

    @staticmethod
    async def _sample(stage: Stage, status: Status, *, ended: bool = False) -> str:
        key = new_key()
        record = await stage.claimed(key, "sample")
        end = record.lease_expires - LEASE if ended else record.lease_expires
        await stage.put(replace(record, status=status, fence=0, lease_expires=end))
        return key

    async def test_one_in_progress_is_waited_for(self, stage: Stage, store: AsyncClaimStore) -> None:
        """While its lease lives."""
        key = await self._sample(stage, Status.IN_PROGRESS)

        assert isinstance(await store.claim(bid(key, "b", fingerprint="f")), Wait)

    async def test_one_that_ended_is_taken_over(self, stage: Stage, store: AsyncClaimStore) -> None:
        """With fence 1."""
        decision = await store.claim(bid(await self._sample(stage, Status.IN_PROGRESS, ended=True), "b"))

        assert isinstance(decision, Run)
        assert decision.took_over
        assert decision.record.fence == 1

    async def test_one_that_is_completed_counts(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Without an answer to give."""
        assert await store.claim(bid(await self._sample(stage, Status.COMPLETED), "b", fingerprint="f")) == Replay()


class SweepingClaims:
    """`create_schema`, `sweep` and `close`."""

    async def test_making_the_schema_again_changes_nothing(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Every process may do so at its start."""
        key = new_key()
        record = await stage.completed(key)
        await stage.client().create_schema()

        assert await stage.record(key) == record

    async def test_a_sweep_keeps_what_counts(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Kept answers, live leases also past their expire_at, claims that ended and are not over."""
        live, odd, done, ended, released = (new_key() for _ in range(5))
        for key in (live, odd, ended, released):
            await stage.claimed(key, "a", lease=0 if key == ended else LEASE)
        await store.release(released, "a")
        await stage.completed(done)
        record = await stage.record(odd)
        await stage.put(replace(record, expire_at=record.lease_expires - 2 * LEASE))
        while await store.sweep():
            pass

        for key in (live, done, ended, released):
            assert await store.get(key) is not None
        assert isinstance(await store.claim(bid(live, "b")), Wait)
        assert isinstance(await store.claim(bid(odd, "b")), Wait)

    async def test_a_sweep_is_bounded_and_ends(self, stage: Stage, store: AsyncClaimStore) -> None:
        """Afterwards nothing that has expired is left."""
        while await store.sweep():
            pass
        keys = [new_key() for _ in range(5)]
        for key in keys:
            await stage.completed(key)
            await stage.pass_time(key, RETENTION + SLACK)
        counts = []
        while count := await store.sweep(limit=2):
            counts.append(count)

        assert max(counts, default=0) <= 2
        assert [await store.get(key) for key in keys] == [None] * 5
        for key in keys:
            assert (await stage.claimed(key, "b")).fence == 1

    async def test_closing_twice_is_fine(self, stage: Stage) -> None:
        """Whoever closes last does no harm."""
        client = stage.client()
        await client.claim(bid(new_key(), "a"))
        await client.close()
        await client.close()

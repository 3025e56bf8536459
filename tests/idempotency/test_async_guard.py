"""The guard for event loops, over a blocking store in threads and over an asynchronous one."""

from __future__ import annotations

import asyncio

import pytest

from taskbell.core.claim import Answer, Bid, Decision
from taskbell.core.instant import Span
from taskbell.idempotency import (
    MINUTE,
    SECOND,
    AsyncGuard,
    AsyncRun,
    Failed,
    InProgress,
    Lost,
    LostClaimError,
    MemoryStore,
    Mismatched,
    NotRun,
    PermanentFailure,
    Ran,
    Record,
    Replayed,
    current_run,
    own_key,
)
from taskbell.idempotency.store import AsyncClaimStore, as_async
from taskbell.testing.clock import ManualClock

KEY = own_key("order 17")
OK = Answer(200, body=b"done")


class Immediate:
    """A store that is asynchronous of itself: each verb lets others go first, then acts at once."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.renewals = 0
        self.broken: list[str] = []

    async def create_schema(self) -> None:
        await asyncio.sleep(0)

    async def claim(self, bid: Bid) -> Decision:
        await self._at("claim")
        return self.store.claim(bid)

    async def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        await self._at("renew")
        self.renewals += 1
        return self.store.renew(key, attempt_id, lease)

    async def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        await self._at("finish")
        return self.store.finish(key, attempt_id, retention, answer)

    async def release(self, key: str, attempt_id: str) -> Record | Lost:
        await self._at("release")
        return self.store.release(key, attempt_id)

    async def get(self, key: str) -> Record | None:
        return self.store.get(key)

    async def sweep(self, limit: int = 1000) -> int:
        return self.store.sweep(limit)

    async def close(self) -> None:
        await asyncio.sleep(0)

    async def _at(self, verb: str) -> None:
        await asyncio.sleep(0)
        if verb in self.broken:
            self.broken.remove(verb)
            raise ConnectionError(verb)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Immediate:
    return Immediate(MemoryStore(clock.now))


@pytest.fixture
def guard(store: Immediate, clock: ManualClock) -> AsyncGuard:
    return AsyncGuard(store, clock=clock)


async def ok(_: AsyncRun) -> Answer:
    return OK


async def until_waiting(clock: ManualClock, left: Span) -> None:
    """Let the event loop turn until the heartbeat waits."""
    for _ in range(100):
        if clock.waits == [left]:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"nobody waits {left / SECOND} s, but {clock.waits}")


async def until_set(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 10)


@pytest.mark.parametrize("blocking", [True, False])
async def test_work_runs_once_over_either_kind_of_store(blocking: bool) -> None:  # noqa: FBT001 - a table column.
    """A blocking store is called in threads."""
    memory = MemoryStore()
    guard = AsyncGuard(memory if blocking else Immediate(memory))
    fifty = await asyncio.gather(*(guard.call(KEY, ok) for _ in range(50)))

    assert sum(outcome == Ran(OK, OK) for outcome in fifty) == 1
    assert {type(outcome) for outcome in fifty} <= {Ran, InProgress, Replayed}
    assert await guard.call(KEY, ok) == Replayed(OK)


def test_an_asynchronous_store_stays_as_it_is(store: Immediate) -> None:
    """No thread stands between."""
    assert as_async(store) is store


async def test_another_request_under_the_same_key_is_refused(guard: AsyncGuard) -> None:
    await guard.call(KEY, ok, fingerprint="a")

    assert await guard.call(KEY, ok, fingerprint="b") == Mismatched()


async def test_an_error_releases_before_it_goes_out(guard: AsyncGuard) -> None:
    """The next delivery runs at once."""

    async def failing(_: AsyncRun) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await guard.call(KEY, failing)
    assert await guard.call(KEY, ok) == Ran(OK, OK)


async def test_a_cancellation_releases_too(guard: AsyncGuard, store: Immediate) -> None:
    """A client that hangs up, a server that stops."""
    begun = asyncio.Event()

    async def waiting(_: AsyncRun) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(guard.call(KEY, waiting))
    await until_set(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await guard.call(KEY, ok) == Ran(OK, OK)


async def test_answers_and_failures_settle_the_key(guard: AsyncGuard) -> None:
    """A bad answer releases; a permanent failure completes."""
    bad = Answer(500)
    error = PermanentFailure("no such order")

    async def answering(_: AsyncRun) -> Answer:
        return bad

    async def failing(_: AsyncRun) -> None:
        raise error

    assert await guard.call(KEY, answering) == Failed(bad, is_permanent=False)
    assert await guard.call(KEY, failing) == Failed(error.answer, is_permanent=True, error=error)
    assert await guard.call(KEY, ok) == Replayed(error.answer)


async def test_a_block_is_guarded_too(guard: AsyncGuard) -> None:
    """The duplicate does not enter it."""
    async with guard.hold(KEY) as run:
        assert current_run() is run
        with pytest.raises(NotRun) as caught:
            async with guard.hold(KEY):
                raise AssertionError
        await run.finish(OK)

    assert caught.value.outcome == InProgress(5 * MINUTE)
    assert await guard.claim(KEY) == Replayed(OK)


async def test_a_block_completes_at_its_end(guard: AsyncGuard) -> None:
    """Without a word of its own."""
    async with guard.hold(KEY):
        pass

    assert await guard.claim(KEY) == Replayed()


async def test_claims_can_be_settled_by_hand(guard: AsyncGuard) -> None:
    """Claim, renew, release; claim, finish."""
    run = await guard.claim(KEY)
    assert isinstance(run, AsyncRun)
    await run.renew()
    await run.release()
    run = await guard.claim(KEY)
    assert isinstance(run, AsyncRun)
    await run.finish()

    assert await guard.claim(KEY) == Replayed()


async def test_the_heartbeat_keeps_the_lease_and_ends_with_the_work(
    guard: AsyncGuard, store: Immediate, clock: ManualClock
) -> None:
    """Every third of it."""

    async def work(run: AsyncRun) -> object:
        for _ in range(6):
            await until_waiting(clock, 100 * SECOND)
            clock.advance(100 * SECOND)
        await until_waiting(clock, 100 * SECOND)
        run.check()
        return await guard.claim(KEY)

    assert await guard.call(KEY, work) == Ran(InProgress(5 * MINUTE))
    await asyncio.sleep(0)
    assert clock.waits == []
    assert store.renewals == 6


async def test_the_heartbeat_tells_the_work_that_it_lost_the_claim(
    guard: AsyncGuard, store: Immediate, clock: ManualClock
) -> None:
    """As soon as a renewal says so."""

    async def work(run: AsyncRun) -> None:
        await until_waiting(clock, 100 * SECOND)
        store.store.records.clear()
        clock.advance(100 * SECOND)
        await until_set(run.lost)
        run.check()

    assert await guard.call(KEY, work) == Lost()


async def test_a_renewal_by_hand_tells_of_the_loss(guard: AsyncGuard, store: Immediate) -> None:
    """And finish does."""
    run = await guard.claim(KEY)
    assert isinstance(run, AsyncRun)
    store.store.records.clear()

    with pytest.raises(LostClaimError):
        await run.renew()
    with pytest.raises(LostClaimError):
        await run.finish()
    assert run.lost.is_set()


async def test_the_heartbeat_survives_a_store_that_is_away_for_a_while(
    guard: AsyncGuard, store: Immediate, clock: ManualClock
) -> None:
    """And says so when it stays away until the lease is over."""
    store.broken = ["renew"]

    async def work(run: AsyncRun) -> None:
        for _ in range(3):
            await until_waiting(clock, 100 * SECOND)
            clock.advance(100 * SECOND)
        await until_waiting(clock, 100 * SECOND)
        assert run.is_held
        store.broken = ["renew"] * 3
        for _ in range(3):
            await until_waiting(clock, 100 * SECOND)
            clock.advance(100 * SECOND)
        await until_set(run.lost)
        run.check()

    assert await guard.call(KEY, work) == Lost()


@pytest.mark.parametrize("verb", ["claim", "finish"])
async def test_a_store_that_fails_once_costs_nothing(guard: AsyncGuard, store: Immediate, verb: str) -> None:
    """Claim and finish are called again."""
    store.broken = [verb]

    assert await guard.call(KEY, ok) == Ran(OK, OK)


async def test_a_release_that_fails_does_not_hide_the_error(guard: AsyncGuard, store: Immediate) -> None:
    """The lease ends by itself."""
    store.broken = ["release"]

    async def failing(_: AsyncRun) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await guard.call(KEY, failing)
    assert isinstance(await guard.claim(KEY), InProgress)


async def test_a_decorated_coroutine_function_returns_what_it_returned_first(guard: AsyncGuard) -> None:
    """Keys of different functions are different."""

    @guard.idempotent(key=str)
    async def charge(order: int) -> list[int]:
        return [order, current_run().fence]

    @guard.idempotent(key=str)
    async def ship(order: int) -> str:
        return "shipped"

    assert await charge(1) == await charge(1) == [1, 1]
    assert await ship(1) == "shipped"


async def test_a_lost_claim_inside_the_work_is_its_own_error(guard: AsyncGuard) -> None:
    """When it is another run's."""

    async def work(_: AsyncRun) -> None:
        raise LostClaimError("some other run's")

    with pytest.raises(LostClaimError):
        await guard.call(KEY, work)


async def test_work_may_release_its_own_run(guard: AsyncGuard) -> None:
    """The key is left as it is."""

    async def too_early(run: AsyncRun) -> str:
        await run.release()
        return "later"

    assert await guard.call(KEY, too_early) == Ran("later")
    assert await guard.call(KEY, ok) == Ran(OK, OK)


async def test_the_machines_clock_renews_while_work_runs(store: Immediate) -> None:
    """Nothing is put in place of it here: the work waits until it was renewed."""
    guard = AsyncGuard(store, lease=SECOND, heartbeat=SECOND // 100)

    async def work(run: AsyncRun) -> bool:
        before = run.held_until
        for _ in range(1000):
            if run.held_until > before:
                return True
            await asyncio.sleep(0.01)
        return False

    assert await guard.call(KEY, work) == Ran(value=True)


def test_the_doubles_are_stores() -> None:
    """For the type checker."""
    store: AsyncClaimStore = Immediate(MemoryStore())
    assert store is not None

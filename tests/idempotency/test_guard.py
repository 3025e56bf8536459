"""The guard for code that blocks, over the memory store."""

from __future__ import annotations

import logging

import pytest

from taskbell.idempotency import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Answer,
    Failed,
    Guard,
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
    Run,
    current_run,
    own_key,
)
from taskbell.testing.thread_clock import ManualThreadClock

KEY = own_key("order 17")
OK = Answer(200, (("Content-Type", "text/plain"), ("Set-Cookie", "secret")), b"done")


def record(store: MemoryStore) -> Record:
    """What is stored of KEY."""
    found = store.get(KEY.text)
    assert found is not None
    return found


def test_work_runs_once_and_its_answer_is_replayed(guard: Guard) -> None:
    """With the headers that belong to every repetition."""
    runs: list[Run] = []

    def work(run: Run) -> Answer:
        runs.append(run)
        return OK

    assert guard.call(KEY, work) == Ran(OK, OK)
    assert guard.call(KEY, work) == Replayed(Answer(200, (("Content-Type", "text/plain"),), b"done"))
    assert len(runs) == 1


def test_a_value_that_is_no_answer_completes_without_one(guard: Guard) -> None:
    """The caller made the choice."""
    assert guard.call(KEY, lambda _: 42) == Ran(42)
    assert guard.call(KEY, lambda _: 42) == Replayed()


def test_a_duplicate_during_the_work_is_told_how_long_the_lease_lasts(guard: Guard, clock: ManualThreadClock) -> None:
    """Never run, never acknowledged."""

    def work(_: Run) -> object:
        clock.advance(MINUTE)
        return guard.call(KEY, lambda _: 1 / 0)

    assert guard.call(KEY, work) == Ran(InProgress(4 * MINUTE))


def test_another_request_under_the_same_key_is_refused(guard: Guard) -> None:
    """Not replayed: it would be the answer to something else."""
    guard.call(KEY, lambda _: OK, fingerprint="a")

    assert guard.call(KEY, lambda _: OK, fingerprint="b") == Mismatched()


def test_an_error_releases_before_it_goes_out(guard: Guard, store: MemoryStore) -> None:
    """The next delivery runs at once, and is not told that it takes over."""
    with pytest.raises(ZeroDivisionError):
        guard.call(KEY, lambda _: 1 // 0)
    seen: list[tuple[int, bool]] = []

    def work(run: Run) -> None:
        seen.append((run.fence, run.took_over))

    assert guard.call(KEY, work) == Ran(None)
    assert seen == [(2, False)]


def test_an_interrupt_releases_too(guard: Guard) -> None:
    """A worker that is being stopped lets go."""

    def work(_: Run) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guard.call(KEY, work)
    assert guard.call(KEY, lambda _: 1) == Ran(1)


def test_an_answer_that_is_no_success_releases(guard: Guard) -> None:
    """It goes out as it is, and the next delivery tries again."""
    bad = Answer(500, body=b"try again")

    assert guard.call(KEY, lambda _: bad) == Failed(bad, is_permanent=False)
    assert guard.call(KEY, lambda _: OK) == Ran(OK, OK)


def test_which_answers_complete_can_be_said(store: MemoryStore) -> None:
    """For senders that do not retry a 4xx."""
    guard = Guard(store, completes=lambda answer: answer.status < 500)
    refused = Answer(402, body=b"no money")

    assert guard.call(KEY, lambda _: refused) == Ran(refused, refused)
    assert guard.call(KEY, lambda _: OK) == Replayed(refused)


def test_a_permanent_failure_completes_with_its_answer(guard: Guard) -> None:
    """Trying again for ever would not help."""
    error = PermanentFailure("no such order", status=200)

    def work(_: Run) -> None:
        raise error

    assert guard.call(KEY, work) == Failed(error.answer, is_permanent=True, error=error)
    assert guard.call(KEY, work) == Replayed(error.answer)
    assert error.answer.body == b"no such order"


def test_other_errors_can_be_declared_permanent(store: MemoryStore) -> None:
    """Their texts stay inside: only that it failed is answered."""
    guard = Guard(store, permanent=(KeyError,))

    def work(_: Run) -> None:
        raise KeyError("secret")

    outcome = guard.call(KEY, work)

    assert isinstance(outcome, Failed)
    assert outcome.is_permanent
    assert outcome.answer.body == b"Run failed permanently"


def test_a_worker_that_lost_its_claim_is_told_at_finish(
    guard: Guard, store: MemoryStore, clock: ManualThreadClock
) -> None:
    """Another attempt took over after the lease, and its result stands."""

    def late(run: Run) -> Answer:
        clock.advance(5 * MINUTE)
        assert guard.call(KEY, lambda _: OK) == Ran(OK, OK)
        return Answer(200, body=b"too late")

    guard = Guard(store, clock=clock, heartbeat=False)
    assert guard.call(KEY, late) == Lost()
    kept = record(store).answer
    assert kept is not None
    assert kept.body == b"done"


def test_check_stops_a_worker_whose_lease_has_ended(store: MemoryStore, clock: ManualThreadClock) -> None:
    """By its own clock, before it asks anybody; the claim is then given back."""
    guard = Guard(store, clock=clock, heartbeat=False)

    def stalled(run: Run) -> None:
        run.check()
        clock.advance(5 * MINUTE)
        assert not run.is_held
        run.check()

    assert guard.call(KEY, stalled) == Lost()
    assert guard.call(KEY, lambda run: run.took_over) == Ran(value=False)


def test_a_lost_claim_of_another_run_is_an_error_of_the_work(store: MemoryStore, clock: ManualThreadClock) -> None:
    """It says nothing about the outer run, which is released."""
    guard = Guard(store, clock=clock, heartbeat=False)

    def work(_: Run) -> None:
        raise LostClaimError("some other run's")

    with pytest.raises(LostClaimError):
        guard.call(KEY, work)
    assert guard.call(KEY, lambda _: 1) == Ran(1)


def test_a_block_is_guarded_too(guard: Guard) -> None:
    """The duplicate does not enter it."""
    with guard.hold(KEY) as run:
        assert current_run() is run
        with pytest.raises(NotRun) as inside, guard.hold(KEY):
            raise AssertionError
    with pytest.raises(NotRun) as after, guard.hold(KEY):
        raise AssertionError

    assert inside.value.outcome == InProgress(5 * MINUTE)
    assert after.value.outcome == Replayed()
    with pytest.raises(LookupError):
        current_run()


def test_a_block_may_finish_with_an_answer_of_its_own(guard: Guard) -> None:
    """Its end then has nothing left to do."""
    with guard.hold(KEY) as run:
        run.finish(OK)

    outcome = guard.claim(KEY)
    assert isinstance(outcome, Replayed)
    assert outcome.answer is not None


def test_a_block_that_lost_its_claim_raises(store: MemoryStore, clock: ManualThreadClock) -> None:
    """What it did must not stand."""
    guard = Guard(store, clock=clock, heartbeat=False)

    def late() -> None:
        with guard.hold(KEY):
            clock.advance(5 * MINUTE)
            assert isinstance(guard.claim(KEY), Run)

    with pytest.raises(LostClaimError):
        late()


def test_claims_can_be_settled_by_hand(guard: Guard) -> None:
    """Claim, renew, release; claim, finish."""
    run = guard.claim(KEY)
    assert isinstance(run, Run)
    run.renew()
    run.release()
    run = guard.claim(KEY)
    assert isinstance(run, Run)
    run.finish()

    assert guard.claim(KEY) == Replayed()


def test_work_may_release_its_own_run(guard: Guard) -> None:
    """It has found that there is nothing to do yet; the key is left as it is."""

    def too_early(run: Run) -> str:
        run.release()
        return "later"

    assert guard.call(KEY, too_early) == Ran("later")
    assert guard.call(KEY, lambda _: "now") == Ran("now")


def test_renewing_by_hand_tells_of_the_loss(store: MemoryStore, clock: ManualThreadClock) -> None:
    """And sets the token."""
    guard = Guard(store, clock=clock, heartbeat=False)
    run = guard.claim(KEY)
    assert isinstance(run, Run)
    clock.advance(5 * MINUTE)
    guard.call(KEY, lambda _: None)

    with pytest.raises(LostClaimError):
        run.renew()
    assert run.lost.is_set()


def test_tokens_are_the_same_in_every_attempt_and_never_the_key(guard: Guard) -> None:
    """A service downstream may share our store; and two calls to it are two pieces of work."""
    tokens: list[tuple[str, str, str]] = []

    def work(run: Run) -> None:
        tokens.append((run.token, run.step_token("debit"), run.headers("debit")["Idempotency-Key"]))
        if len(tokens) == 1:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        guard.call(KEY, work)
    guard.call(KEY, work)

    first, second = tokens
    assert first == second
    assert first[1] == first[2]
    assert len({first[0], first[1], KEY.text}) == 3
    guard.call("another order", work)
    assert not set(tokens[2]) & set(first)


def test_a_short_retention_warns_once(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    """A delivery that outlives its key would run again."""
    guard = Guard(store, retention=SECOND, lease=SECOND, deadline=SECOND)
    with caplog.at_level(logging.WARNING):
        for order in "ab":
            guard.call(order, lambda _: None)

    assert [line.getMessage() for line in caplog.records] == [
        "keys are kept for 1s, but a delivery (other) may come again for 24h: one that comes later runs again"
    ]


def test_large_bodies_are_not_kept(guard: Guard) -> None:
    """Part of one would be a wrong answer."""
    guard.call(KEY, lambda _: Answer(201, body=b"x" * 65_537))

    assert guard.claim(KEY) == Replayed(Answer(201, (), None))


def test_keys_are_kept_as_long_as_their_kind_may_come(guard: Guard, store: MemoryStore) -> None:
    """An own key for a day, from completion."""
    guard.call(KEY, lambda _: None)

    assert record(store).expire_at == ManualThreadClock().now() + DAY
    assert HOUR < DAY

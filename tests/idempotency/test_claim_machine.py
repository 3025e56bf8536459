"""Random lives of one key: deliveries that overlap, die, stall and lose answers, while the clock moves as it likes.

The machine plays any number of attempts against the pure rules, one transition at a time, which is all that a store
with atomic verbs can do. It keeps what really happened on the side, and holds the rules to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from taskbell.core import claim
from taskbell.core.claim import NOBODY, Answer, Bid, Lost, Record, Replay, Run, Status, Wait
from taskbell.core.instant import DAY, SECOND

LEASE = 10 * SECOND
NUMBERS = st.integers(min_value=0, max_value=10**6)


@dataclass
class Attempt:
    """One delivery, as far as its process knows."""

    id: str
    bid: Bid
    fence: int | None = None
    """Of the claim that it was told it has."""
    tries: int = 0


@dataclass
class Truth:
    """What really happened."""

    holder: str | None = None
    completed_by: str | None = None
    answer: Answer | None = None
    fences: list[int] = field(default_factory=list)
    lease_end: int = 0


class Deliveries(RuleBasedStateMachine):
    """One key within its retention."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000 * DAY
        self.stored: Record | None = None
        self.attempts: list[Attempt] = []
        self.truth = Truth()
        self.numbers = count(1)

    @initialize(sample=st.sampled_from([None, NOBODY, "sample"]))
    def begin(self, sample: str | None) -> None:
        """With nothing, or with a record of the guide's sample or of a release."""
        if sample is not None:
            self.stored = Record("k", Status.IN_PROGRESS, sample, self.now + LEASE * bool(sample), self.now + 50 * DAY)
            self.truth.lease_end = self.stored.lease_expires

    @rule(span=st.one_of(st.integers(0, 2 * LEASE), st.sampled_from([LEASE - 1, LEASE, LEASE + 1])))
    def time_passes(self, span: int) -> None:
        self.now += span

    @rule(span=st.integers(0, 2 * LEASE))
    def clock_is_set_back(self, span: int) -> None:
        """No lease that was promised becomes shorter, and nothing that was released is held again."""
        self.now -= span

    @precondition(lambda self: not self.attempts or len(self.attempts) < 6)
    @rule()
    def delivered(self) -> None:
        """Another delivery of the same work begins; it may overlap the others."""
        name = str(next(self.numbers))
        self.attempts.append(Attempt(name, Bid("k", name, LEASE, 100 * DAY)))

    @precondition(lambda self: self.attempts)
    @rule(number=NUMBERS)
    def dies(self, number: int) -> None:
        """With whatever it holds."""
        self.attempts.pop(number % len(self.attempts))

    @precondition(lambda self: self.attempts)
    @rule(number=NUMBERS, answered=st.booleans())
    def claims(self, number: int, *, answered: bool) -> None:
        """For the first time, or again because the answer was lost; and the answer may be lost now."""
        attempt = self._pick(number)
        if attempt.fence is not None:
            return
        decision = claim.claim(self.stored, attempt.bid, self.now)
        match decision:
            case Run(record=record):
                again = self.truth.holder == attempt.id
                assert self.truth.completed_by is None, "ran what is completed"
                assert again or self.truth.holder is None or self.now >= self.truth.lease_end, "ran beside a live lease"
                assert self.stored is None or record.fence == self.stored.fence + (not again)
                assert decision.took_over is (
                    not again and self.stored is not None and self.stored.attempt_id != NOBODY
                ), "took over what was released, or not what was left"
                self.truth.holder, self.truth.lease_end = attempt.id, record.lease_expires
                self.truth.fences += [] if again else [record.fence]
                self.stored = record
                if answered:
                    attempt.fence = record.fence
            case Replay(answer=answer):
                assert self.truth.completed_by is not None
                assert answer == self.truth.answer
                if answered:
                    self.attempts.remove(attempt)
            case Wait():
                assert self.truth.completed_by is None
                assert self.now + decision.remaining == decision.until == self.truth.lease_end > self.now
            case _:
                raise AssertionError(decision)

    @precondition(lambda self: any(attempt.fence for attempt in self.attempts))
    @rule(number=NUMBERS)
    def renews(self, number: int) -> None:
        attempt = self._holding(number)
        outcome = claim.renew(self.stored, attempt.id, self.now, LEASE)
        assert isinstance(outcome, Record) is self._is_holder(attempt)
        if isinstance(outcome, Record):
            assert outcome.lease_expires >= self.truth.lease_end
            self.stored, self.truth.lease_end = outcome, outcome.lease_expires
        else:
            self.attempts.remove(attempt)

    @precondition(lambda self: any(attempt.fence for attempt in self.attempts))
    @rule(number=NUMBERS, answered=st.booleans())
    def finishes(self, number: int, *, answered: bool) -> None:
        """Again, when the answer was lost; with another answer then, as code with a clock in it would."""
        attempt = self._holding(number)
        attempt.tries += 1
        answer = Answer(200, body=f"{attempt.id}-{attempt.tries}".encode())
        outcome = claim.finish(self.stored, attempt.id, self.now, DAY, answer)
        may = self._is_holder(attempt) or self.truth.completed_by == attempt.id
        assert isinstance(outcome, Record) is may, "two completed, or the one who may was refused"
        if isinstance(outcome, Record):
            if self.truth.completed_by is None:
                self.truth.completed_by, self.truth.answer, self.truth.holder = attempt.id, answer, None
            assert outcome.answer == self.truth.answer, "a second answer replaced the first"
            self.stored = outcome
        if answered or isinstance(outcome, Lost):
            self.attempts.remove(attempt)

    @precondition(lambda self: any(attempt.fence for attempt in self.attempts))
    @rule(number=NUMBERS)
    def fails(self, number: int) -> None:
        """And gives its claim back."""
        attempt = self._holding(number)
        outcome = claim.release(self.stored, attempt.id)
        assert isinstance(outcome, Record) is self._is_holder(attempt)
        if isinstance(outcome, Record):
            self.stored, self.truth.holder, self.truth.lease_end = outcome, None, self.now
        self.attempts.remove(attempt)

    @rule()
    def swept(self) -> None:
        """Nothing of this key has expired, so nothing goes."""
        if self.stored is not None:
            assert not claim.is_expired(self.stored, self.now)

    @invariant()
    def fences_grow(self) -> None:
        assert self.truth.fences == sorted(set(self.truth.fences))

    @invariant()
    def the_record_tells_the_truth(self) -> None:
        if self.stored is None:
            return
        assert (self.stored.status is Status.COMPLETED) is (self.truth.completed_by is not None)
        if self.truth.completed_by is not None:
            assert self.stored.attempt_id == self.truth.completed_by
            assert self.stored.answer == self.truth.answer
        elif self.truth.holder is not None:
            assert self.stored.attempt_id == self.truth.holder
        assert self.stored.expire_at >= self.stored.lease_expires

    @invariant()
    def an_attempt_that_comes_after_the_lease_can_complete(self) -> None:
        """Whatever died: nothing is stuck."""
        later = max(self.now, self.truth.lease_end)
        decision = claim.claim(self.stored, Bid("k", "saviour", LEASE, DAY), later)
        if self.truth.completed_by is None:
            assert isinstance(decision, Run)
            assert isinstance(claim.finish(decision.record, "saviour", later, DAY), Record)
        else:
            assert isinstance(decision, Replay)

    def _pick(self, number: int) -> Attempt:
        return self.attempts[number % len(self.attempts)]

    def _holding(self, number: int) -> Attempt:
        told = [attempt for attempt in self.attempts if attempt.fence]
        return told[number % len(told)]

    def _is_holder(self, attempt: Attempt) -> bool:
        return self.truth.holder == attempt.id


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)

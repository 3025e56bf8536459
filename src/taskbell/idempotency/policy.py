"""How long a claim holds, how long an answer is kept, and which failures are final: the settings of a guard, and what
follows from them. Pure: `guard.py` acts on it, in threads and on event loops alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TypedDict

from taskbell.core import claim
from taskbell.core.claim import Answer, Bid, Decision, Mismatch, Replay, Wait
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND, Span, span_text
from taskbell.idempotency.errors import PermanentFailure
from taskbell.idempotency.heartbeat import Rhythm
from taskbell.idempotency.key import Key, Kind, own_key
from taskbell.idempotency.outcome import InProgress, Keep, Mismatched, Refusal, Replayed, is_success

DEADLINES: dict[Kind, Span] = {Kind.SCHEDULER: 3 * MINUTE, Kind.TASKS: 10 * MINUTE, Kind.OTHER: 5 * MINUTE}
"""How long an attempt of each kind may take unless the sender was told otherwise; for unknown senders, the guide's
lease."""
LIVES: dict[Kind, Span] = {Kind.SCHEDULER: DAY, Kind.TASKS: 31 * DAY, Kind.OTHER: DAY}
"""How long each kind may be delivered again: a task for as long as Cloud Tasks keeps one, an execution until its
retries are over. For unknown senders, the guide's retention."""


class Settings(TypedDict, total=False):
    """What `Guard(store, ...)` takes, by name. Each is a field of `Policy`."""

    lease: Span | None
    retention: Span | None
    heartbeat: Span | bool
    longest: Span | None
    deadline: Span | None
    life: Span | None
    permanent: tuple[type[Exception], ...]
    completes: Callable[[Answer], bool]
    keep: Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of a guard. Spans are microseconds: write `5 * MINUTE`."""

    lease: Span | None = None
    """How long a claim holds without a word from its holder, and so how soon the work of a dead worker begins again.
    None: the deadline of the delivery, since a live worker may take that long."""
    retention: Span | None = None
    """How long a completed key is remembered. None: as long as the kind of delivery may come again (`LIVES`)."""
    heartbeat: Span | bool = True
    """Renew the lease while the work runs: True, every third of the lease; a span, that often; False, never."""
    longest: Span | None = None
    """No renewal later than this after the work began: work that hangs must not keep its key for ever. None: an hour,
    or the deadline if that is longer."""
    deadline: Span | None = None
    """How long one attempt may take, as the job's or queue's sender was told. None: that sender's default."""
    life: Span | None = None
    """How long one delivery may come again, if you know better than `LIVES`: its retries, to the end of the last."""
    permanent: tuple[type[Exception], ...] = ()
    """Errors of the work after which trying again would not help, besides PermanentFailure."""
    completes: Callable[[Answer], bool] = is_success
    """Whether an answer that the work returned completes the key; otherwise the claim is released."""
    keep: Keep = field(default_factory=Keep)
    """How much of an answer is stored."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for setting in fields(self):
            name, value = setting.name, getattr(self, setting.name)
            if name not in _SPANS or value is None or isinstance(value, bool):
                continue
            if not isinstance(value, int):
                raise TypeError(f"{name} is {value!r}: spans are whole microseconds, as in 5 * MINUTE")
            if value < SECOND and name != "heartbeat":
                raise ValueError(f"{name} is {value} µs: expected a second at least, as in 5 * MINUTE")
        for kind in Kind:
            interval = self._interval(kind)
            if interval is not None and not 0 < interval < self.lease_for(kind):
                raise ValueError(
                    f"heartbeat is {interval} µs: it must be shorter than the lease, {self.lease_for(kind)} µs"
                )

    def deadline_for(self, kind: Kind) -> Span:
        """How long an attempt of this kind may take."""
        return DEADLINES[kind] if self.deadline is None else self.deadline

    def lease_for(self, kind: Kind) -> Span:
        """How long a claim for a delivery of this kind holds."""
        return self.deadline_for(kind) if self.lease is None else self.lease

    def retention_for(self, kind: Kind) -> Span:
        """How long a key of this kind is remembered."""
        life = LIVES[kind] if self.life is None else self.life
        return max(life, self.lease_for(kind)) if self.retention is None else self.retention

    def rhythm_for(self, kind: Kind) -> Rhythm | None:
        """How a lease of this kind is kept; None: it is not."""
        interval = self._interval(kind)
        if interval is None:
            return None
        longest = max(HOUR, self.deadline_for(kind)) if self.longest is None else self.longest
        return Rhythm(self.lease_for(kind), interval, longest)

    def doubts(self, kind: Kind) -> list[str]:
        """What may go wrong with deliveries of this kind, a sentence each."""
        life = LIVES[kind] if self.life is None else self.life
        retention, lease, deadline = self.retention_for(kind), self.lease_for(kind), self.deadline_for(kind)
        found = []
        if retention < life:
            found.append(
                f"keys are kept for {span_text(retention)}, but a delivery ({kind}) may come again for "
                f"{span_text(life)}: one that comes later runs again"
            )
        if self.heartbeat is False and lease < deadline:
            found.append(
                f"the lease of {span_text(lease)} is not renewed, but work ({kind}) may take {span_text(deadline)}: "
                "another attempt may begin meanwhile"
            )
        return found

    def without_heartbeat(self) -> Policy:
        """The same where no lease is seen by others: inside a transaction."""
        return replace(self, heartbeat=False, lease=max(self.lease_for(kind) for kind in Kind))

    def bid(self, key: Key, attempt_id: str, fingerprint: str | None) -> Bid:
        """What an attempt asks the store for."""
        return Bid(key.text, attempt_id, self.lease_for(key.kind), self.retention_for(key.kind), fingerprint)

    def permanent_answer(self, error: BaseException) -> Answer | None:
        """The answer to complete with after this error; None: release, for the next delivery to try again."""
        if isinstance(error, PermanentFailure):
            return error.answer
        return PermanentFailure().answer if isinstance(error, self.permanent) else None

    def _interval(self, kind: Kind) -> Span | None:
        if self.heartbeat is False:
            return None
        return self.lease_for(kind) // 3 if self.heartbeat is True else int(self.heartbeat)


_SPANS = {"lease", "retention", "heartbeat", "longest", "deadline", "life"}


def as_key(key: Key | str) -> Key:
    """A text names the work itself."""
    return own_key(key) if isinstance(key, str) else key


def refused(decision: Decision) -> Refusal:
    """Why the work is not started, from what the store decided."""
    match decision:
        case Replay(answer):
            return Replayed(answer)
        case Wait(remaining=remaining):
            return InProgress(remaining)
        case Mismatch():
            return Mismatched()
        case claim.Run():
            raise AssertionError("this one runs")

"""The idempotency state machine: who may do the work of a key, and who may say that it is done.

    absent ──claim──▶ in progress ──finish──▶ completed
      ▲                 │    ▲                    │
      │              release │ claim, once the    │ expire_at
      │                 ▼    │ lease has ended    │
      └──── expire_at ─ claimable ◀───────────────┘

It is the protocol that the Scheduler guide gives to handlers, with a fence. Each function takes the record as it is
stored and returns what to store instead; a store runs one of them inside one transaction and writes what it returned.
Now, ids and spans are arguments. Who comes next: `idempotency/store.py`, the contract of the stores, and
`idempotency/guard.py`.

What the guide leaves open is settled thus:

- Only the attempt whose id is in the record may renew, finish or release. The end of its lease alone takes nothing from
  it: as long as nobody else has claimed, nobody else has begun.
- claim and finish may be repeated by the same attempt, when the first answer was lost on its way: they give the same
  again.
- A release leaves a record that anybody may claim at once, because the fence must go on from where it is. It is spelled
  as the guide's sample reads it: in progress, with a lease that ended long ago, and no attempt's id.
- The fence grows with every change of holder for as long as the record is kept. Once its retention is over and it is
  swept away, a later claim begins at 1 again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from taskbell.core.instant import Instant, Span

NOBODY = ""
"""The attempt_id of a record that was released."""
LONG_AGO: Instant = 0
"""The lease of a record that was released: over, whichever way a clock is set."""


class Status(StrEnum):
    """What a record says of its key. The values are those of the guide's records."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the work answered, kept so that duplicates can be given the same."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = b""
    """None: there was one, and it was too large to keep."""


@dataclass(frozen=True, slots=True)
class Record:
    """All that is stored of one key."""

    key: str
    status: Status
    attempt_id: str
    """Who holds the claim, or held it when it completed."""
    lease_expires: Instant
    """Until when nobody else may claim; means nothing once completed."""
    expire_at: Instant
    """From when the record counts as absent. Never before the lease's end."""
    fence: int = 0
    """Grows with every change of holder. 0: written by the guide's sample, which has none."""
    fingerprint: str | None = None
    """Of the request that was claimed for; None: not taken."""
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Bid:
    """What an attempt asks for when it claims."""

    key: str
    attempt_id: str
    """Unique to this attempt: no two may share one."""
    lease: Span
    """How long the claim is to hold unless it is renewed."""
    retention: Span
    """How long the record is to be kept, counted from now and again from completion."""
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The claim is the bidder's: store the record, then do the work."""

    record: Record
    took_over: bool = False
    """Another attempt began this work, and its lease ended before it finished or released."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The work is done: give the same answer. Nothing to store."""

    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Another attempt is at it. Nothing to store."""

    until: Instant
    """The end of its lease, by the clock that judged."""
    remaining: Span
    """The same, counted from the judgement."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was claimed for another request: neither run nor replay. Nothing to store."""


Decision = Run | Replay | Wait | Mismatch


@dataclass(frozen=True, slots=True)
class Lost:
    """The claim is not the caller's, or no longer. Nothing to store."""

    stored: Record | None = None
    """What is there instead, for logs."""


def claim(stored: Record | None, bid: Bid, now: Instant) -> Decision:
    """Decide on a bid."""
    if stored is None or is_expired(stored, now):
        return Run(_claimed(bid, now, fence=1 if stored is None else stored.fence + 1))
    if None not in (stored.fingerprint, bid.fingerprint) and stored.fingerprint != bid.fingerprint:
        return Mismatch()
    if stored.status is Status.COMPLETED:
        return Replay(stored.answer)
    if stored.attempt_id == bid.attempt_id:
        # The answer to this very bid was lost.
        return Run(_kept_longer(stored, now, bid.lease))
    if is_live(stored, now):
        return Wait(stored.lease_expires, stored.lease_expires - now)
    return Run(_claimed(bid, now, fence=stored.fence + 1), took_over=stored.attempt_id != NOBODY)


def renew(stored: Record | None, attempt_id: str, now: Instant, lease: Span) -> Record | Lost:
    """Let the lease end `lease` from now, and never sooner than it would have."""
    if not _holds(stored, attempt_id):
        return Lost(stored)
    assert stored is not None
    return _kept_longer(stored, now, lease)


def finish(
    stored: Record | None, attempt_id: str, now: Instant, retention: Span, answer: Answer | None = None
) -> Record | Lost:
    """Complete the key, with the answer that its duplicates are to be given."""
    if stored is not None and stored.status is Status.COMPLETED and stored.attempt_id == attempt_id:
        # It did, and was not told. The first answer stands.
        return stored
    if not _holds(stored, attempt_id):
        return Lost(stored)
    assert stored is not None
    expire_at = max(stored.expire_at, now + retention)
    return replace(stored, status=Status.COMPLETED, expire_at=expire_at, answer=answer)


def release(stored: Record | None, attempt_id: str) -> Record | Lost:
    """Give the claim back, for anybody to take at once."""
    if not _holds(stored, attempt_id):
        return Lost(stored)
    assert stored is not None
    return replace(stored, attempt_id=NOBODY, lease_expires=LONG_AGO)


def is_live(stored: Record, now: Instant) -> bool:
    """Whether somebody holds the claim and nobody else may have it."""
    return stored.status is Status.IN_PROGRESS and stored.attempt_id != NOBODY and now < stored.lease_expires


def is_expired(stored: Record, now: Instant) -> bool:
    """Whether the record counts as absent, and a sweep may delete it. Not while a lease lives, whatever expire_at
    says.
    """
    return stored.expire_at <= now and not is_live(stored, now)


def _holds(stored: Record | None, attempt_id: str) -> bool:
    assert attempt_id != NOBODY, "an attempt has an id"
    return stored is not None and stored.status is Status.IN_PROGRESS and stored.attempt_id == attempt_id


def _claimed(bid: Bid, now: Instant, fence: int) -> Record:
    assert bid.attempt_id != NOBODY, "an attempt has an id"
    return Record(
        key=bid.key,
        status=Status.IN_PROGRESS,
        attempt_id=bid.attempt_id,
        lease_expires=now + bid.lease,
        expire_at=now + max(bid.lease, bid.retention),
        fence=fence,
        fingerprint=bid.fingerprint,
    )


def _kept_longer(stored: Record, now: Instant, lease: Span) -> Record:
    lease_expires = max(stored.lease_expires, now + lease)
    return replace(stored, lease_expires=lease_expires, expire_at=max(stored.expire_at, lease_expires))

"""The idempotency kit, for authors of handlers: the work of one key completes once, however often it is delivered.

Deliveries repeat: answers are lost, deadlines pass while handlers still work, servers die and come back. A handler that
uses the kit claims the key of its delivery in a store, works, and completes the key; duplicates get the first answer,
and wait while it is being made.

    core/claim.py    the rules, pure
    key.py           from a delivery to its key
    store.py         the contract of the stores    stores/    its implementations
    guard.py         around the work: Guard, AsyncGuard    policy.py    their settings    run.py    what the work sees
    outcome.py       what came of it, and the HTTP answer

This package needs the standard library alone. It sees `core`, and nothing else of Taskbell.
"""

from __future__ import annotations

from taskbell.core.claim import Answer, Bid, Lost, Record, Status
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND
from taskbell.idempotency.errors import IdempotencyError, LostClaimError, MissingKeyError, NotRun, PermanentFailure
from taskbell.idempotency.guard import AsyncGuard, Guard
from taskbell.idempotency.key import Delivery, Key, KeyRule, fingerprint, from_header, from_path, from_query, own_key
from taskbell.idempotency.outcome import Failed, InProgress, Keep, Mismatched, Outcome, Ran, Replayed, Responses
from taskbell.idempotency.policy import Policy
from taskbell.idempotency.run import AsyncRun, Run, current_run
from taskbell.idempotency.store import AsyncClaimStore, ClaimStore, ThreadedStore, as_async
from taskbell.idempotency.stores.memory import MemoryStore

__all__ = [
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "Answer",
    "AsyncClaimStore",
    "AsyncGuard",
    "AsyncRun",
    "Bid",
    "ClaimStore",
    "Delivery",
    "Failed",
    "Guard",
    "IdempotencyError",
    "InProgress",
    "Keep",
    "Key",
    "KeyRule",
    "Lost",
    "LostClaimError",
    "MemoryStore",
    "Mismatched",
    "MissingKeyError",
    "NotRun",
    "Outcome",
    "PermanentFailure",
    "Policy",
    "Ran",
    "Record",
    "Replayed",
    "Responses",
    "Run",
    "Status",
    "ThreadedStore",
    "as_async",
    "current_run",
    "fingerprint",
    "from_header",
    "from_path",
    "from_query",
    "own_key",
]

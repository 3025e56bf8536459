"""THE CLAIM-STORE CONTRACT: what every store of claims does, verb by verb.

`stores/` holds the implementations; `taskbell.testing.claim_suite` judges them all, and yours. The rules themselves are
the pure functions of `core/claim.py`: a store may call them between reading and writing a row inside one transaction,
or say the same in its own language (one Lua script, one SQL statement) and be held to it by the suite.

What holds for every verb:

- **Atomic.** One verb on one key is one transaction. Verbs on one key happen in some one order, in which each sees all
  effects of those before it, from whatever process or thread they come.
- **Durable.** When a verb returns, its effect survives what the store is meant to survive. When it raises anything, it
  has taken effect in full or not at all, and the caller does not know which: `claim` and `finish` may simply be called
  again with the same attempt_id; `renew` too; after `release` there is nothing that needs to be known.
- **Judged by the store's clock**, wherever it has one (`clock_timestamp()`, `TIME`, the commit's read time), never by
  the caller's: workers' clocks differ. The instant is read when the record is locked or known not to change any more,
  not when the transaction began: one that waited for a lock would otherwise judge by a time that is over. SQLite and
  memory stores take the clock of the process, which all their callers share.
- **From any thread**, several at once (`ClaimStore`), or any task of the event loop it is used on (`AsyncClaimStore`).
- **Writing records as they are** is no verb; a store that has a `put(record)` for it makes its own tests easier.
- **Old records.** What the guide's sample wrote (`status`, `attempt_id`, `lease_expires`, `expire_at`) is a record with
  fence 0, without fingerprint or answer.
- **If the caller dies** before a verb's effect, nothing has happened; after it, it stands. A claim whose attempt is
  dead ends with its lease, and needs nobody to clean up.

Sync and async. A sync store works under an async guard: `as_async` calls it in a thread. The other way is not offered,
because asynchronous drivers belong to the one event loop they were opened on: take the synchronous driver of the same
database (psycopg beside asyncpg).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast, runtime_checkable

from taskbell.core.claim import Answer, Bid, Decision, Lost, Record
from taskbell.core.instant import Span

KEY_LENGTH_MAX = 255
"""Stores take any key of printable ASCII up to this length, without a slash. Ours are 64 hexadecimal digits."""
C_contra = TypeVar("C_contra", contravariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class ClaimStore(Protocol):
    """The contract, for callers that block."""

    def create_schema(self) -> None:
        """Make whatever the store needs (table, index, TTL policy) unless it is there.

        Needs: the right to make it. May run in several processes at once, and again; never changes records.
        """

    def claim(self, bid: Bid) -> Decision:
        """Ask for the key, as `core.claim.claim` decides.

        Effect: with `Run` the returned record is stored; with `Replay`, `Wait` and `Mismatch` nothing changes.
        Atomic: of any number of bids for one key at one time, one at most is given `Run`.
        Again with the same attempt_id: `Run` with the same fence, as long as nobody else has claimed since.
        Caller dies after `Run`: the key can be claimed again when the lease ends.
        """

    def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        """Let the lease end `lease` from now, and not sooner than it would have, as `core.claim.renew` decides.

        Needs: the attempt holds the claim; its lease may have ended, if nobody has claimed since. Otherwise `Lost`, and
        nothing changes.
        """

    def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        """Complete the key and keep the answer for `retention`, as `core.claim.finish` decides.

        Needs: as `renew`. Again with the same attempt_id: the same record, whatever the second answer.
        Effect: until its expire_at every bid is given `Replay` with this answer.
        """

    def release(self, key: str, attempt_id: str) -> Record | Lost:
        """Give the claim back, as `core.claim.release` decides.

        Needs: as `renew`. Effect: the next bid is given `Run` with a higher fence, at once.
        """

    def get(self, key: str) -> Record | None:
        """The record as it is stored, for people and tests. One that has expired may be there or not."""

    def sweep(self, limit: int = 1000) -> int:
        """Delete up to `limit` records that have expired (`core.claim.is_expired`), and say how many.

        Claims never depend on it: it only keeps the store small. Call it from a scheduled job until it returns less
        than `limit`. A store that expires records by itself returns 0. Never deletes a live lease or a kept answer.
        """

    def close(self) -> None:
        """Let go of connections. Safe to call twice."""


class AsyncClaimStore(Protocol):
    """The same contract, for event loops."""

    async def create_schema(self) -> None:
        """As `ClaimStore.create_schema`."""

    async def claim(self, bid: Bid) -> Decision:
        """As `ClaimStore.claim`. Cancelled: as if the answer had been lost."""

    async def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        """As `ClaimStore.renew`."""

    async def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        """As `ClaimStore.finish`."""

    async def release(self, key: str, attempt_id: str) -> Record | Lost:
        """As `ClaimStore.release`."""

    async def get(self, key: str) -> Record | None:
        """As `ClaimStore.get`."""

    async def sweep(self, limit: int = 1000) -> int:
        """As `ClaimStore.sweep`."""

    async def close(self) -> None:
        """As `ClaimStore.close`."""


@runtime_checkable
class TransactionalStore(Protocol[C_contra]):
    """A SQL store that can also act inside its caller's transaction, so that effect and record commit together."""

    def in_transaction(self, connection: C_contra) -> ClaimStore:
        """The same store, whose verbs run on this connection and neither commit nor roll back.

        Needs: a connection to the same database, in a transaction of the caller's. (Where the driver itself begins one
        with the first write, as sqlite3 does, the first verb may begin it.)
        Effect: that of each verb, when the caller commits; none if it rolls back, or if the caller dies before.
        Atomic: with everything else in the transaction. A bid waits for other transactions that have claimed or
        finished the key and have not ended; a verb on a key that another transaction changed in the meantime may
        raise, and the caller then rolls back.
        One thread at a time. `close` leaves the connection alone. Judged by `claim_transactions`, beside `claim_suite`.
        """


@runtime_checkable
class AsyncTransactionalStore(Protocol[C_contra]):
    """As `TransactionalStore`, for event loops."""

    def in_transaction(self, connection: C_contra) -> AsyncClaimStore:
        """As `TransactionalStore.in_transaction`."""


def inside(store: object, connection: Any) -> Any:
    """The store on the caller's connection; TypeError if it is none that could be."""
    if not isinstance(store, TransactionalStore | AsyncTransactionalStore):
        raise TypeError(f"{type(store).__name__} cannot act inside a transaction of its caller")
    return store.in_transaction(connection)


def as_async(store: ClaimStore | AsyncClaimStore) -> AsyncClaimStore:
    """The store itself if it is asynchronous, and otherwise one that calls it in threads."""
    if inspect.iscoroutinefunction(store.claim):
        return cast("AsyncClaimStore", store)
    return ThreadedStore(cast("ClaimStore", store))


class ThreadedStore:
    """A blocking store under an event loop: each verb runs in a thread of the loop's default pool."""

    def __init__(self, store: ClaimStore) -> None:
        """Wrap a store."""
        self.store = store

    async def create_schema(self) -> None:
        await _in_thread(self.store.create_schema)

    async def claim(self, bid: Bid) -> Decision:
        return await _in_thread(self.store.claim, bid)

    async def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        return await _in_thread(self.store.renew, key, attempt_id, lease)

    async def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        return await _in_thread(self.store.finish, key, attempt_id, retention, answer)

    async def release(self, key: str, attempt_id: str) -> Record | Lost:
        return await _in_thread(self.store.release, key, attempt_id)

    async def get(self, key: str) -> Record | None:
        return await _in_thread(self.store.get, key)

    async def sweep(self, limit: int = 1000) -> int:
        return await _in_thread(self.store.sweep, limit)

    async def close(self) -> None:
        await _in_thread(self.store.close)

    def in_transaction(self, connection: Any) -> AsyncClaimStore:
        """On the caller's connection, which must be one that may be used in other threads."""
        return ThreadedStore(inside(self.store, connection))


async def _in_thread(verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.to_thread(verb, *args, **kwargs)

"""Keys, bids and answers for the claim-store suite, and the stage that its tests play on."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

from taskbell.core.claim import Answer, Bid, Record, Run
from taskbell.core.instant import DAY, HOUR, Span
from taskbell.idempotency.store import AsyncClaimStore, ClaimStore, as_async
from taskbell.testing.claim_history import shifted

MakeClaimStore = Callable[[], ClaimStore | AsyncClaimStore]
"""Makes another client of the same records."""
Put = Callable[[Record], Awaitable[None]]
"""Writes a record as it is."""

LEASE: Span = HOUR
RETENTION: Span = DAY
ANSWER = Answer(202, (("Content-Type", "text/plain; charset=utf-8"), ("Location", "/a")), b"\x00\xff done")


def new_key() -> str:
    """A key that no other test has, whatever the store remembers."""
    return uuid.uuid4().hex * 2


def bid(key: str, attempt_id: str, lease: Span = LEASE, fingerprint: str | None = None) -> Bid:
    """A bid for the key."""
    return Bid(key, attempt_id, lease, RETENTION, fingerprint)


class Stage:
    """A store with several clients, in which time passes when the test says so."""

    def __init__(self, make_store: MakeClaimStore, put: Put) -> None:
        """One client to begin with."""
        self._make_store = make_store
        self._clients: list[AsyncClaimStore] = []
        self.put = put
        self.store = self.client()

    def client(self) -> AsyncClaimStore:
        """Another client."""
        client = as_async(self._make_store())
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """Let go of all clients."""
        for client in self._clients:
            await client.close()

    async def record(self, key: str) -> Record:
        """What is stored of a key that is there."""
        record = await self.store.get(key)
        assert record is not None, "the record is gone"
        return record

    async def pass_time(self, key: str, span: Span) -> None:
        """For the record of this key."""
        await self.put(shifted(await self.record(key), span))

    async def claimed(self, key: str, attempt_id: str, lease: Span = LEASE) -> Record:
        """The record after a bid that succeeds."""
        decision = await self.store.claim(bid(key, attempt_id, lease))
        assert isinstance(decision, Run), decision
        return decision.record

    async def completed(self, key: str, attempt_id: str = "first") -> Record:
        """The record of a key that is done."""
        await self.claimed(key, attempt_id)
        record = await self.store.finish(key, attempt_id, RETENTION, ANSWER)
        assert isinstance(record, Record), record
        return record

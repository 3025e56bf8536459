"""Claims in PostgreSQL, for event loops: on asyncpg. All that `postgres` says holds here, statement by statement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from taskbell.core import claim
from taskbell.core.claim import Answer, Bid, Decision, Lost, Record
from taskbell.core.instant import Span
from taskbell.idempotency.store import AsyncClaimStore
from taskbell.idempotency.stores.postgres_statements import TABLE, Statements, first_decision, outcome
from taskbell.idempotency.stores.row import answer_row, from_row, to_row

try:
    import asyncpg
except ImportError as error:
    raise ImportError(
        "claims in PostgreSQL from an event loop need asyncpg: pip install 'taskbell[postgres]'"
    ) from error


class _Verbs:
    """The verbs on connections that somebody lends."""

    def __init__(self, statements: Statements, lend: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._statements = statements
        self._lend = lend

    async def create_schema(self) -> None:
        async with self._lend() as connection:
            if not await connection.fetchval(self._statements.exists, self._statements.table):
                await connection.execute(self._statements.create)

    async def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        return await self._change(self._statements.renew, key, attempt_id, lease)

    async def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        return await self._change(
            self._statements.finish, key, attempt_id, retention, *answer_row(answer), finishing=True
        )

    async def release(self, key: str, attempt_id: str) -> Record | Lost:
        return await self._change(self._statements.release, key, attempt_id)

    async def get(self, key: str) -> Record | None:
        async with self._lend() as connection:
            row = await connection.fetchrow(self._statements.get, key)
        return None if row is None else from_row(tuple(row))

    async def put(self, record: Record) -> None:
        """Write a record as it is: to bring claims over from another store, while nobody uses either."""
        async with self._lend() as connection:
            await connection.execute(self._statements.write, *to_row(record))

    async def sweep(self, limit: int = 1000) -> int:
        async with self._lend() as connection:
            count: int = await connection.fetchval(self._statements.sweep, limit)
        return count

    async def _change(
        self, statement: str, key: str, attempt_id: str, *rest: Any, finishing: bool = False
    ) -> Record | Lost:
        async with self._lend() as connection:
            rows = await _rows(connection, statement, key, attempt_id, *rest)
        return outcome(rows, attempt_id, finishing=finishing)

    async def _claim_locked(self, connection: Any, bid: Bid) -> Decision:
        """Inside of a transaction."""
        while True:
            await connection.execute(self._statements.placeholder, bid.key)
            rows = await _rows(connection, self._statements.lock, bid.key)
            if rows:
                break
            # A sweep deleted it between the two.
        now, *row = rows[0]
        decision = claim.claim(from_row(row), bid, now)
        if isinstance(decision, claim.Run):
            await connection.execute(self._statements.write, *to_row(decision.record))
        return decision


class AsyncPostgresStore(_Verbs):
    """An `AsyncClaimStore` in a PostgreSQL database, with a pool of its own on the event loop that first uses it."""

    def __init__(self, dsn: str, *, table: str = TABLE, max_connections: int = 10) -> None:
        """Verbs of more tasks than `max_connections` take turns."""
        super().__init__(Statements(table), self._connected)
        self._dsn = dsn
        self._max_connections = max_connections
        self._pool: Any = None
        self._opening = asyncio.Lock()

    async def claim(self, bid: Bid) -> Decision:
        async with self._lend() as connection:
            statement = self._statements.first
            values = (bid.key, bid.attempt_id, bid.lease, bid.retention, bid.fingerprint)
            decision = first_decision(await _rows(connection, statement, *values), bid)
            if decision is None:
                async with connection.transaction():
                    decision = await self._claim_locked(connection, bid)
            return decision

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    def in_transaction(self, connection: Any) -> AsyncClaimStore:
        """The store on an asyncpg connection of yours to the same database, inside `connection.transaction()`."""
        return _InTransaction(self._statements, connection)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn, min_size=0, max_size=self._max_connections, init=_prepare, reset=_leave
                )
        async with self._pool.acquire() as connection:
            yield connection


class _InTransaction(_Verbs):
    """The store inside a transaction of the caller's."""

    def __init__(self, statements: Statements, connection: Any) -> None:
        super().__init__(statements, self._begun)
        self._connection = connection

    async def claim(self, bid: Bid) -> Decision:
        # Locked in any case: whoever claimed or finished the key in a transaction of theirs is waited for.
        async with self._lend() as connection:
            return await self._claim_locked(connection, bid)

    async def close(self) -> None:
        """The connection is the caller's."""

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[Any]:
        if not self._connection.is_in_transaction():
            raise asyncpg.InterfaceError("this connection is in no transaction: use connection.transaction()")
        yield self._connection


async def _prepare(connection: Any) -> None:
    # Whatever the database's default is: a claim that waited must see what it waited for.
    await connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")


async def _leave(_connection: Any) -> None:
    """Our verbs change nothing about a session, and resetting it would be another round trip for each."""


async def _rows(connection: Any, statement: str, *values: Any) -> Sequence[tuple[Any, ...]]:
    return [tuple(row) for row in await connection.fetch(statement, *values)]

"""Claims in PostgreSQL, for code that blocks: on psycopg 3, in one table beside the tables of your application.

`pip install 'taskbell[postgres]'`. A first claim, a refusal, a replay, a renewal, a completion and a release are one
statement each, and so one round trip; only a claim over a record that is there (a takeover, one after a release) is a
short transaction. Leases are judged by the server's clock, read when the row is locked. What was acknowledged is as
durable as the server's `synchronous_commit` makes it.

Call `create_schema` once, at the start of a process or of a deployment, and `sweep` from a scheduled job.

In a transaction of yours (`in_transaction`), a duplicate waits at the row until you commit. Take READ COMMITTED, which
is PostgreSQL's default: under a higher level it is given a serialization error instead, and must begin again.

`postgres_async` is the same for event loops.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from taskbell.core import claim
from taskbell.core.claim import Answer, Bid, Decision, Lost, Record
from taskbell.core.instant import Span
from taskbell.idempotency.store import ClaimStore
from taskbell.idempotency.stores.postgres_statements import TABLE, Statements, first_decision, outcome
from taskbell.idempotency.stores.row import answer_row, from_row, to_row

try:
    import psycopg
    from psycopg.pq import TransactionStatus
    from psycopg.rows import tuple_row
except ImportError as error:
    raise ImportError("claims in PostgreSQL need psycopg: pip install 'taskbell[postgres]'") from error

Connection = psycopg.Connection[Any]


class _Verbs:
    """The verbs on connections that somebody lends."""

    def __init__(self, statements: Statements, lend: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._statements = statements
        self._lend = lend

    def create_schema(self) -> None:
        with self._lend() as connection:
            if not _rows(connection, self._statements.exists, self._statements.table)[0][0]:
                psycopg.RawCursor(connection).execute(self._statements.create.encode())

    def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        return self._change(self._statements.renew, key, attempt_id, lease)

    def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        return self._change(self._statements.finish, key, attempt_id, retention, *answer_row(answer), finishing=True)

    def release(self, key: str, attempt_id: str) -> Record | Lost:
        return self._change(self._statements.release, key, attempt_id)

    def get(self, key: str) -> Record | None:
        with self._lend() as connection:
            rows = _rows(connection, self._statements.get, key)
        return from_row(rows[0]) if rows else None

    def put(self, record: Record) -> None:
        """Write a record as it is: to bring claims over from another store, while nobody uses either."""
        with self._lend() as connection:
            _execute(connection, self._statements.write, *to_row(record))

    def sweep(self, limit: int = 1000) -> int:
        with self._lend() as connection:
            count: int = _rows(connection, self._statements.sweep, limit)[0][0]
        return count

    def _change(self, statement: str, key: str, attempt_id: str, *rest: Any, finishing: bool = False) -> Record | Lost:
        with self._lend() as connection:
            rows = _rows(connection, statement, key, attempt_id, *rest)
        return outcome(rows, attempt_id, finishing=finishing)

    def _claim_locked(self, connection: Connection, bid: Bid) -> Decision:
        """Inside of a transaction."""
        while True:
            _execute(connection, self._statements.placeholder, bid.key)
            rows = _rows(connection, self._statements.lock, bid.key)
            if rows:
                break
            # A sweep deleted it between the two.
        now, *row = rows[0]
        decision = claim.claim(from_row(row), bid, now)
        if isinstance(decision, claim.Run):
            _execute(connection, self._statements.write, *to_row(decision.record))
        return decision


class PostgresStore(_Verbs):
    """A `ClaimStore` in a PostgreSQL database, with connections of its own."""

    def __init__(self, conninfo: str, *, table: str = TABLE, max_connections: int = 10) -> None:
        """`conninfo`: a URL or a connection string. Verbs of more threads than `max_connections` take turns."""
        super().__init__(Statements(table), self._connected)
        self._conninfo = conninfo
        self._max_connections = max_connections
        self._inherited: list[Connection] = []
        self._begin()

    def claim(self, bid: Bid) -> Decision:
        with self._lend() as connection:
            statement = self._statements.first
            rows = _rows(connection, statement, bid.key, bid.attempt_id, bid.lease, bid.retention, bid.fingerprint)
            decision = first_decision(rows, bid)
            if decision is None:
                with connection.transaction():
                    decision = self._claim_locked(connection, bid)
            return decision

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def in_transaction(self, connection: Connection) -> ClaimStore:
        """The store on a connection of yours to the same database, which begins transactions by itself or is in one."""
        return _InTransaction(self._statements, connection)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        if self._pid != os.getpid():
            # Forked: the connections are the parent's. Closing them here would end its sessions.
            self._inherited += self._idle
            self._begin()
        with self._turns:
            connection = self._idle.pop() if self._idle else self._open()
            try:
                yield connection
            except BaseException as error:
                connection.close()
                if isinstance(error, psycopg.OperationalError):
                    self.close()  # The server went away, and the others went with it.
                raise
            self._idle.append(connection)

    def _open(self) -> Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True)
        # Whatever the database's default is: a claim that waited must see what it waited for.
        connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connection

    def _begin(self) -> None:
        self._idle: list[Connection] = []  # A list's append and pop are atomic.
        self._turns = threading.BoundedSemaphore(self._max_connections)
        self._pid = os.getpid()


class _InTransaction(_Verbs):
    """The store inside a transaction of the caller's."""

    def __init__(self, statements: Statements, connection: Connection) -> None:
        super().__init__(statements, self._begun)
        self._connection = connection

    def claim(self, bid: Bid) -> Decision:
        # Locked in any case: whoever claimed or finished the key in a transaction of theirs is waited for.
        with self._lend() as connection:
            return self._claim_locked(connection, bid)

    def close(self) -> None:
        """The connection is the caller's."""

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        connection = self._connection
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            raise psycopg.ProgrammingError(
                "this connection commits each statement and is in no transaction: use connection.transaction()"
            )
        yield connection


def _execute(connection: Connection, statement: str, *values: Any) -> psycopg.RawCursor[tuple[Any, ...]]:
    # A cursor of our own: a caller's connection may make others, with rows of its own.
    return psycopg.RawCursor(connection, row_factory=tuple_row).execute(statement.encode(), values)


def _rows(connection: Connection, statement: str, *values: Any) -> Sequence[tuple[Any, ...]]:
    return _execute(connection, statement, *values).fetchall()

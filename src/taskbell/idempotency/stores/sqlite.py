"""Claims in a SQLite file: for one machine, any number of processes and threads, and nothing to install.

Each verb is one `BEGIN IMMEDIATE` transaction, which takes the write lock before it reads; a claim that finds its key
done or taken writes nothing, and so waits for no disk. The file is in WAL mode and commits are synchronous: what was
acknowledged survives a power cut. Leases are judged by the machine's clock, which all users of a file share; put the
file on a local disk, since SQLite's locks do not hold over a network.

In a transaction of yours (`in_transaction`) verbs take the write lock too, and other claims wait until you commit: keep
such transactions short.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from taskbell.core import claim
from taskbell.core.claim import Answer, Bid, Decision, Lost, Record
from taskbell.core.instant import SECOND, Instant, Span
from taskbell.idempotency.store import ClaimStore
from taskbell.idempotency.stores.row import COLUMNS, from_row, to_row

_SCHEMA = """
CREATE TABLE IF NOT EXISTS {table} (
  key            TEXT PRIMARY KEY NOT NULL,
  status         TEXT NOT NULL CHECK (status IN ('in_progress', 'completed')),
  attempt_id     TEXT NOT NULL,
  fence          INTEGER NOT NULL CHECK (fence >= 0),
  lease_expires  INTEGER NOT NULL,
  expire_at      INTEGER NOT NULL,
  fingerprint    TEXT,
  answer_status  INTEGER CHECK (answer_status IS NULL OR status = 'completed'),
  answer_headers TEXT CHECK ((answer_headers IS NULL) = (answer_status IS NULL)),
  answer_body    BLOB
)
"""
_INDEX = "CREATE INDEX IF NOT EXISTS {table}_expire_at ON {table} (expire_at)"
# The columns are ours, and the table's name is checked.
_READ = f"SELECT {', '.join(COLUMNS)} FROM {{table}} WHERE key = ?"  # noqa: S608
_MARKS = ", ".join("?" * len(COLUMNS))
_WRITE = f"INSERT OR REPLACE INTO {{table}} ({', '.join(COLUMNS)}) VALUES ({_MARKS})"  # noqa: S608
# What core.claim.is_expired says.
_SWEEP = """
DELETE FROM {table} WHERE key IN (
  SELECT key FROM {table}
  WHERE expire_at <= :now AND NOT (status = 'in_progress' AND attempt_id <> '' AND lease_expires > :now)
  ORDER BY expire_at LIMIT :limit
)
"""


def _wall_time() -> Instant:
    return time.time_ns() // 1000


class SqliteStore:
    """A `ClaimStore` in a file, which is made when it is first needed, with its table."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        table: str = "taskbell_claims",
        busy_timeout: Span = 30 * SECOND,
        now: Callable[[], Instant] = _wall_time,
    ) -> None:
        """`busy_timeout`: how long to wait for other processes that write, before sqlite3.OperationalError."""
        if str(path) == ":memory:" or not str(path):
            raise ValueError("SqliteStore needs a file; MemoryStore keeps claims in memory")
        self._path = Path(path)
        self._busy_timeout = busy_timeout
        self._verbs = _Verbs(table, now)
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def create_schema(self) -> None:
        with self._transaction() as connection:
            self._verbs.create_schema(connection)

    def claim(self, bid: Bid) -> Decision:
        with self._transaction() as connection:
            return self._verbs.claim(connection, bid)

    def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        with self._transaction() as connection:
            return self._verbs.renew(connection, key, attempt_id, lease)

    def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        with self._transaction() as connection:
            return self._verbs.finish(connection, key, attempt_id, retention, answer)

    def release(self, key: str, attempt_id: str) -> Record | Lost:
        with self._transaction() as connection:
            return self._verbs.release(connection, key, attempt_id)

    def get(self, key: str) -> Record | None:
        with self._transaction("BEGIN") as connection:
            return self._verbs.read(connection, key)

    def put(self, record: Record) -> None:
        """Write a record as it is: to bring claims over from another store, while nobody uses either."""
        with self._transaction() as connection:
            self._verbs.write(connection, record)

    def sweep(self, limit: int = 1000) -> int:
        with self._transaction() as connection:
            return self._verbs.sweep(connection, limit)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def in_transaction(self, connection: sqlite3.Connection) -> ClaimStore:
        """The store on a connection of yours to the same file.

        The sqlite3 module begins a transaction only before the first write. Where none has begun, the first verb begins
        one for you to commit, as a write of yours would.
        """
        return _InTransaction(self._verbs, connection)

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        if self._pid != os.getpid():
            self._begin_anew()
        # One connection, one thread at a time: they could not write at once anyway, and a lock wakes sooner than
        # SQLite's own waiting, which polls.
        with self._lock:
            if self._connection is None:
                self._connection = self._open()
            connection = self._connection
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._busy_timeout / SECOND, isolation_level=None, check_same_thread=False
        )
        try:
            _turn_to_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            self._verbs.create_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin_anew(self) -> None:
        """Without connection and lock of the process that this one was forked from: SQLite's do not survive a fork."""
        if self._connection is not None:
            self._inherited.append(self._connection)  # Closing it here would be using it.
        self._connection = None
        self._lock = threading.Lock()
        self._pid = os.getpid()


def _turn_to_wal(connection: sqlite3.Connection) -> None:
    """When several processes open a new file at once, SQLite refuses all but one, without waiting."""
    for _ in range(20):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # This does wait, until the other is done.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")
        else:
            return
    connection.execute("PRAGMA journal_mode = WAL")


class _InTransaction:
    """The store inside a transaction of the caller's."""

    def __init__(self, verbs: _Verbs, connection: sqlite3.Connection) -> None:
        self._verbs = verbs
        self._connection = connection
        self._has_schema = False

    def create_schema(self) -> None:
        self._begun()

    def claim(self, bid: Bid) -> Decision:
        return self._verbs.claim(self._begun(), bid)

    def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        return self._verbs.renew(self._begun(), key, attempt_id, lease)

    def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        return self._verbs.finish(self._begun(), key, attempt_id, retention, answer)

    def release(self, key: str, attempt_id: str) -> Record | Lost:
        return self._verbs.release(self._begun(), key, attempt_id)

    def get(self, key: str) -> Record | None:
        return self._verbs.read(self._begun(), key)

    def sweep(self, limit: int = 1000) -> int:
        return self._verbs.sweep(self._begun(), limit)

    def close(self) -> None:
        """The connection is the caller's."""

    def _begun(self) -> sqlite3.Connection:
        if not self._connection.in_transaction:
            if self._connection.isolation_level is None:
                raise sqlite3.ProgrammingError("this connection is in no transaction: execute BEGIN IMMEDIATE first")
            self._connection.execute("BEGIN IMMEDIATE")
        if not self._has_schema:
            # Here, since nobody else could write now; a rollback takes the table back too.
            self._verbs.create_schema(self._connection)
            self._has_schema = True
        return self._connection


class _Verbs:
    """Read, decide, write: inside a transaction that somebody else begins and ends."""

    def __init__(self, table: str, now: Callable[[], Instant]) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", table):
            raise ValueError(f"table {table!r}: expected letters, digits and underscores")
        self._statements = [each.format(table=table) for each in (_SCHEMA, _INDEX)]
        self._read, self._write, self._sweep = (each.format(table=table) for each in (_READ, _WRITE, _SWEEP))
        self._now = now

    def create_schema(self, connection: sqlite3.Connection) -> None:
        for statement in self._statements:
            connection.execute(statement)

    def claim(self, connection: sqlite3.Connection, bid: Bid) -> Decision:
        decision = claim.claim(self.read(connection, bid.key), bid, self._now())
        if isinstance(decision, claim.Run):
            self.write(connection, decision.record)
        return decision

    def renew(self, connection: sqlite3.Connection, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        return self._change(connection, claim.renew(self.read(connection, key), attempt_id, self._now(), lease))

    def finish(
        self, connection: sqlite3.Connection, key: str, attempt_id: str, retention: Span, answer: Answer | None
    ) -> Record | Lost:
        stored = self.read(connection, key)
        return self._change(connection, claim.finish(stored, attempt_id, self._now(), retention, answer))

    def release(self, connection: sqlite3.Connection, key: str, attempt_id: str) -> Record | Lost:
        return self._change(connection, claim.release(self.read(connection, key), attempt_id))

    def sweep(self, connection: sqlite3.Connection, limit: int) -> int:
        return connection.execute(self._sweep, {"now": self._now(), "limit": limit}).rowcount

    def read(self, connection: sqlite3.Connection, key: str) -> Record | None:
        cursor = connection.cursor()
        cursor.row_factory = None  # A caller's connection may make rows of its own.
        row = cursor.execute(self._read, (key,)).fetchone()
        return None if row is None else from_row(row)

    def write(self, connection: sqlite3.Connection, record: Record) -> None:
        connection.execute(self._write, to_row(record))

    def _change(self, connection: sqlite3.Connection, outcome: Record | Lost) -> Record | Lost:
        if isinstance(outcome, Record):
            self.write(connection, outcome)
        return outcome

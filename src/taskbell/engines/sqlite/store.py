"""The file: its lock, its connections, its schema.

One server owns a store. The lock is a file beside the database, held with flock: it ends with the process however that
dies, it does not survive exec, and it leaves SQLite's own byte-range locks alone (closing any descriptor of the
database file itself would drop those).
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from importlib.resources import files

from taskbell.core.errors import FailedPrecondition, ResourceExhausted, TaskbellError, Unavailable

_CHECKPOINT_PAGES = 4000
_LOG_BYTES = 64 * 1024 * 1024
"""What a burst may leave of the write-ahead log once its content is in the database."""
_WRITER_CACHE_KIB = 32 * 1024
_READER_CACHE_KIB = 8 * 1024
_BUSY_MS = 5000
"""How long a statement waits for a foreign program that holds the database, such as a backup."""


class StoreLock:
    """The exclusive right to a store, from construction to `release`."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path) + ".lock"
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FailedPrecondition(f"The store {path} cannot be opened: {error.strerror} ({self._path}).") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise FailedPrecondition(
                f"The store {path} is in use by another Taskbell server; stop that one or name another store."
            ) from error

    def release(self) -> None:
        """Let the next server in. The file stays: removing it would race with one that is just opening it."""
        os.close(self._descriptor)


def connect_writer(path: str) -> sqlite3.Connection:
    """A connection that may change the store."""
    return _connect(
        path,
        f"cache_size = -{_WRITER_CACHE_KIB}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "fullfsync = ON",  # macOS keeps what was synced in the drive's own memory without it.
        f"wal_autocheckpoint = {_CHECKPOINT_PAGES}",
        f"journal_size_limit = {_LOG_BYTES}",
        # Some builds overwrite what is deleted with zeros, which doubles the cost of every settle.
        "secure_delete = OFF",
    )


def connect_reader(path: str) -> sqlite3.Connection:
    """A connection that only reads, beside the writer."""
    return _connect(path, f"cache_size = -{_READER_CACHE_KIB}", "query_only = ON")


def _connect(path: str, *pragmas: str) -> sqlite3.Connection:
    # Each connection is used by one thread at a time, though opened and closed by others.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        for pragma in (f"busy_timeout = {_BUSY_MS}", "temp_store = MEMORY", *pragmas):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_store(path: str) -> sqlite3.Connection:
    """The writer's connection to a store that is there and of this schema; FailedPrecondition says why it cannot be."""
    try:
        connection = connect_writer(path)
        try:
            migrate(connection, path)
            # A file that may only be read opens without complaint, and a write that is taken back tells.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA user_version = {len(migrations())}")
            connection.execute("ROLLBACK")
        except BaseException:
            connection.close()
            raise
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise FailedPrecondition(f"{path} is not a Taskbell store: it is not an SQLite database.") from error
        raise FailedPrecondition(f"The store {path} cannot be opened: {error}.") from error
    return connection


def migrations() -> list[str]:
    """The migrations in their order: the n-th leads from schema n - 1 to schema n."""
    folder = files(__package__) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", entry.name))
    return [(folder / name).read_text("utf-8") for name in names]


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the schema up to date, each step whole or absent. Forward only."""
    steps = migrations()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(steps):
        raise FailedPrecondition(
            f"The store {path} has schema {version}, made by a newer Taskbell; this one knows up to {len(steps)}."
        )
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
        raise FailedPrecondition(f"{path} is not a Taskbell store: it is another program's database.")
    for number in range(version + 1, len(steps) + 1):
        script = f"BEGIN IMMEDIATE;\n{steps[number - 1]}\nPRAGMA user_version = {number};\nCOMMIT;"
        try:
            connection.executescript(script)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def refusal_of(error: sqlite3.Error, path: str) -> TaskbellError:
    """What a database error means to callers. Whatever it was part of has been rolled back."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return ResourceExhausted(f"The store {path} is full: nothing was stored. Free some space and try again.")
    return Unavailable(f"The store {path} cannot be used just now: {error}. Try again.")


def is_broken(error: sqlite3.Error) -> bool:
    """Whether the connection itself is in doubt: neither the rows nor the room nor the lock was at fault."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code not in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)

"""The embedded engine: an SQLite file in WAL mode, made durable by one fsync for all that arrived together."""

from __future__ import annotations

import sqlite3

from taskbell.core.errors import FailedPrecondition, InvalidArgument
from taskbell.engines.sqlite.engine import SqliteEngine
from taskbell.engines.sqlite.store import StoreLock, open_store
from taskbell.events import Events

__all__ = ["SqliteEngine", "check_store", "make_engine"]

_OLDEST = (3, 37, 0)
"""The first SQLite with STRICT tables."""


def make_engine(rest: str, events: Events | None) -> SqliteEngine:
    """The engine of `sqlite:PATH`."""
    _check(rest)
    return SqliteEngine(rest, events)


def check_store(rest: str) -> None:
    """Open, migrate and close the file, or raise the sentence that says why not."""
    _check(rest)
    lock = StoreLock(rest)
    try:
        open_store(rest).close()
    finally:
        lock.release()


def _check(path: str) -> None:
    if not path:
        raise InvalidArgument("The store sqlite: needs a file, as in sqlite:taskbell.db.")
    if sqlite3.sqlite_version_info < _OLDEST:
        raise FailedPrecondition(f"Taskbell needs SQLite 3.37 or newer; this Python has {sqlite3.sqlite_version}.")

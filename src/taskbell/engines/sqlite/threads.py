"""How the verbs of the engine reach its threads: changes go to the writer, reads to the readers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from taskbell.core.errors import Unavailable
from taskbell.engines.ids import IdSequence
from taskbell.engines.sqlite.batch import Batch
from taskbell.engines.sqlite.reader import Reader
from taskbell.engines.sqlite.rows import ROW_OVERHEAD
from taskbell.engines.sqlite.store import StoreLock
from taskbell.engines.sqlite.writer import Verb, Writer

T = TypeVar("T")


class Threads:
    """The file's lock and threads, all None until the store is opened; the lock is None again once it is closed."""

    def __init__(self) -> None:
        self._lock: StoreLock | None = None
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._ids = IdSequence(0)

    async def _change(self, change: Callable[[Batch], Any], size: int = 0) -> Any:
        """Run a verb in the writer's transaction; `size` is what it holds in memory besides a flat sum."""
        writer = self._open_writer()
        return await writer.submit(Verb(writer.future(), ROW_OVERHEAD + size, self._ids.last, change=change))

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        if self._reader is None or self._lock is None:
            raise Unavailable("The store is not open.")
        return await self._reader.read(query)

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise Unavailable("The store is not open.")
        return self._writer

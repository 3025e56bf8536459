"""The stores that need nothing but Python, put through the suite."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from taskbell.core.claim import Record
from taskbell.idempotency.stores.memory import MemoryStore
from taskbell.idempotency.stores.sqlite import SqliteStore
from taskbell.testing.claim_samples import MakeClaimStore, Put
from taskbell.testing.claim_suite import ClaimStoreSuite
from taskbell.testing.claim_transactions import Begin, TransactionalClaimStoreSuite


class TestMemoryStore(ClaimStoreSuite):
    @pytest.fixture
    def memory(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def make_store(self, memory: MemoryStore) -> MakeClaimStore:
        return lambda: memory

    @pytest.fixture
    def put(self, memory: MemoryStore) -> Put:
        async def put(record: Record) -> None:
            memory.records[record.key] = record

        return put


class TestSqliteStore(TransactionalClaimStoreSuite):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> MakeClaimStore:
        return lambda: SqliteStore(tmp_path / "claims.db")

    @pytest.fixture
    def put(self, tmp_path: Path) -> Put:
        async def put(record: Record) -> None:
            with closing(SqliteStore(tmp_path / "claims.db")) as store:
                store.put(record)

        return put

    @pytest.fixture
    def begin(self, tmp_path: Path) -> Begin:
        @asynccontextmanager
        async def begin() -> AsyncIterator[sqlite3.Connection]:
            with closing(sqlite3.connect(tmp_path / "claims.db", check_same_thread=False)) as connection, connection:
                yield connection

        return begin

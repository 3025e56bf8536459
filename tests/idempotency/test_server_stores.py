"""The stores that need a server, put through the suite on the real one."""

from __future__ import annotations

import pytest

from taskbell.core.claim import Record
from taskbell.idempotency.stores.postgres import PostgresStore
from taskbell.idempotency.stores.postgres_async import AsyncPostgresStore
from taskbell.idempotency.stores.redis import AsyncRedisStore, RedisStore
from taskbell.testing.claim_samples import MakeClaimStore, Put
from taskbell.testing.claim_suite import ClaimStoreSuite


class TestPostgresStore(ClaimStoreSuite):
    @pytest.fixture
    def make_store(self, postgres_url: str) -> MakeClaimStore:
        return lambda: PostgresStore(postgres_url)

    @pytest.fixture
    def put(self, postgres_url: str) -> Put:
        async def put(record: Record) -> None:
            store = PostgresStore(postgres_url)
            store.put(record)
            store.close()

        return put


class TestAsyncPostgresStore(ClaimStoreSuite):
    @pytest.fixture
    def make_store(self, postgres_url: str) -> MakeClaimStore:
        return lambda: AsyncPostgresStore(postgres_url)

    @pytest.fixture
    def put(self, postgres_url: str) -> Put:
        async def put(record: Record) -> None:
            store = AsyncPostgresStore(postgres_url)
            await store.put(record)
            await store.close()

        return put


class TestRedisStore(ClaimStoreSuite):
    @pytest.fixture
    def make_store(self, redis_url: str) -> MakeClaimStore:
        return lambda: RedisStore(redis_url)

    @pytest.fixture
    def put(self, redis_url: str) -> Put:
        async def put(record: Record) -> None:
            store = RedisStore(redis_url)
            store.put(record)
            store.close()

        return put


class TestAsyncRedisStore(ClaimStoreSuite):
    @pytest.fixture
    def make_store(self, redis_url: str) -> MakeClaimStore:
        return lambda: AsyncRedisStore(redis_url)

    @pytest.fixture
    def put(self, redis_url: str) -> Put:
        async def put(record: Record) -> None:
            store = AsyncRedisStore(redis_url)
            await store.put(record)
            await store.close()

        return put

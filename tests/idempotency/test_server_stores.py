"""The stores that need a server, put through the suite on the real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taskbell.core.claim import Record
from taskbell.idempotency.stores.postgres import PostgresStore
from taskbell.idempotency.stores.postgres_async import AsyncPostgresStore
from taskbell.idempotency.stores.redis import AsyncRedisStore, RedisStore
from taskbell.testing.claim_samples import MakeClaimStore, Put
from taskbell.testing.claim_suite import ClaimStoreSuite

SRC = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(
    ("module", "driver", "extra"),
    [("postgres", "psycopg", "postgres"), ("postgres_async", "asyncpg", "postgres"), ("redis", "redis-py", "redis")],
)
def test_a_store_without_its_driver_says_what_to_install(module: str, driver: str, extra: str) -> None:
    """In the last line of the error."""
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import taskbell.idempotency.stores.{module}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False, capture_output=True, text=True)

    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: claims in ")
    assert last.endswith(f" need {driver}: pip install 'taskbell[{extra}]'")


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

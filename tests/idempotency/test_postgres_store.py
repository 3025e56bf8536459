"""What the PostgreSQL stores promise besides: transactions of their callers, waits, schemas, lost connections."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import asyncpg
import psycopg
import pytest
import pytest_asyncio
from psycopg.rows import dict_row

from taskbell.core.claim import Record, Replay, Run, Wait
from taskbell.idempotency import (
    DAY,
    HOUR,
    SECOND,
    Answer,
    AsyncGuard,
    AsyncRun,
    Bid,
    Guard,
    InProgress,
    LostClaimError,
    Ran,
    Replayed,
    own_key,
)
from taskbell.idempotency.stores.postgres import PostgresStore
from taskbell.idempotency.stores.postgres_async import AsyncPostgresStore
from taskbell.testing.claim_history import shifted
from tests.support.waiting import wait_until

OK = Answer(201)


@pytest.fixture
def key() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def claims(postgres_url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(postgres_url)) as store:
        store.create_schema()
        yield store


@pytest.fixture
def application(postgres_url: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """The caller's own connection, with rows of its own."""
    with psycopg.connect(postgres_url, row_factory=dict_row) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS payments (name text)")
        connection.commit()
        yield connection


@pytest_asyncio.fixture
async def async_claims(postgres_url: str, claims: PostgresStore) -> AsyncIterator[AsyncPostgresStore]:
    store = AsyncPostgresStore(postgres_url)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def async_application(postgres_url: str, application: psycopg.Connection[dict[str, Any]]) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


def payments(url: str, name: str) -> int:
    with psycopg.connect(url) as connection:
        return len(connection.execute("SELECT name FROM payments WHERE name = %s", (name,)).fetchall())


def waiting_sessions(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    assert row is not None
    count: int = row[0]
    return count


def test_effect_and_completion_commit_together(
    claims: PostgresStore, application: psycopg.Connection[dict[str, Any]], postgres_url: str, key: str
) -> None:
    """`finish_in`: the claim is seen by all, the rest by nobody until the commit."""
    guard = Guard(claims)

    with guard.hold(own_key(key)) as run:
        assert isinstance(guard.claim(own_key(key)), InProgress)
        with application.transaction():
            application.execute("INSERT INTO payments VALUES (%s)", (key,))
            run.finish_in(application, OK)
            assert isinstance(guard.claim(own_key(key)), InProgress)
            assert payments(postgres_url, key) == 0

    assert payments(postgres_url, key) == 1
    assert guard.claim(own_key(key)) == Replayed(OK)


def test_an_effect_whose_claim_was_lost_is_rolled_back(
    claims: PostgresStore, application: psycopg.Connection[dict[str, Any]], postgres_url: str, key: str
) -> None:
    """What a late worker did must not stand, and in one transaction it does not."""
    guard = Guard(claims, lease=HOUR)

    def late() -> None:
        with guard.hold(own_key(key)) as run:
            record = claims.get(own_key(key).text)
            assert record is not None
            claims.put(shifted(record, HOUR))
            guard.call(own_key(key), lambda _: None)
            with application.transaction():
                application.execute("INSERT INTO payments VALUES (%s)", (key,))
                run.finish_in(application)

    with pytest.raises(LostClaimError):
        late()
    assert payments(postgres_url, key) == 0


@pytest.mark.parametrize("commits", [True, False])
def test_a_duplicate_waits_for_the_transaction_that_claimed(
    claims: PostgresStore,
    application: psycopg.Connection[dict[str, Any]],
    postgres_url: str,
    key: str,
    *,
    commits: bool,
) -> None:
    """In whichever way it bids; then it is given the answer, or the run with the whole of its lease."""
    inside = claims.in_transaction(application)
    assert isinstance(inside.claim(Bid(key, "first", HOUR, DAY)), Run)
    assert isinstance(inside.finish(key, "first", DAY, OK), Record)

    def bid_inside() -> object:
        with psycopg.connect(postgres_url) as connection:
            return claims.in_transaction(connection).claim(Bid(key, "second", HOUR, DAY))

    with ThreadPoolExecutor() as pool:
        duplicate = pool.submit(bid_inside) if commits else pool.submit(claims.claim, Bid(key, "second", HOUR, DAY))
        wait_until(lambda: waiting_sessions(postgres_url) == 1, "the duplicate waits")
        threading.Event().wait(0.2)  # More than the store takes for a wait.
        ended = psycopg.connect(postgres_url)
        (now,) = ended.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone() or (0,)
        ended.close()
        if commits:
            application.commit()
        else:
            application.rollback()
        decision = duplicate.result(20)

    if commits:
        assert decision == Replay(OK)
    else:
        assert isinstance(decision, Run)
        assert not decision.took_over
        assert decision.record.fence == 1
        assert decision.record.lease_expires >= now + HOUR


def test_a_transaction_store_has_every_verb(
    claims: PostgresStore, application: psycopg.Connection[dict[str, Any]], key: str
) -> None:
    """All of them in the caller's transaction, and its closing leaves the connection alone."""
    inside = claims.in_transaction(application)
    inside.create_schema()
    assert isinstance(inside.claim(Bid(key, "a", HOUR, DAY)), Run)
    assert isinstance(inside.renew(key, "a", HOUR), Record)
    assert isinstance(inside.release(key, "a"), Record)
    assert isinstance(inside.claim(Bid(key, "b", HOUR, DAY)), Run)
    assert isinstance(inside.finish(key, "b", DAY), Record)
    assert inside.sweep() == 0
    assert inside.get(key) is not None
    inside.close()
    application.rollback()

    assert claims.get(key) is None


def test_a_connection_that_commits_each_statement_must_begin_by_itself(
    claims: PostgresStore, postgres_url: str, key: str
) -> None:
    """Otherwise effect and record would commit apart."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        inside = claims.in_transaction(connection)
        with pytest.raises(psycopg.ProgrammingError, match=r"connection\.transaction\(\)"):
            inside.claim(Bid(key, "a", HOUR, DAY))
        with connection.transaction():
            assert isinstance(inside.claim(Bid(key, "a", HOUR, DAY)), Run)

    assert isinstance(claims.claim(Bid(key, "b", HOUR, DAY)), Wait)


async def test_async_effect_and_completion_commit_together(
    async_claims: AsyncPostgresStore, async_application: Any, postgres_url: str, key: str
) -> None:
    """`finish_in` and `within`, on asyncpg; a rollback leaves nothing."""
    guard = AsyncGuard(async_claims)

    async def pay(run: AsyncRun) -> None:
        async with async_application.transaction():
            await async_application.execute("INSERT INTO payments VALUES ($1)", key)
            await run.finish_in(async_application, OK)

    async def fail(_: AsyncRun) -> None:
        await async_application.execute("INSERT INTO payments VALUES ($1)", key)
        raise ConnectionError

    assert await guard.call(own_key(key), pay) == Ran(None)
    assert await guard.claim(own_key(key)) == Replayed(OK)
    with pytest.raises(ConnectionError):
        async with async_application.transaction():
            await guard.within(async_application).call(own_key(key + "b"), fail)
    assert await async_claims.get(own_key(key + "b").text) is None
    assert await asyncio.to_thread(payments, postgres_url, key) == 1


async def test_an_asyncpg_connection_must_be_in_a_transaction(
    async_claims: AsyncPostgresStore, async_application: Any, key: str
) -> None:
    """Otherwise effect and record would commit apart."""
    inside = async_claims.in_transaction(async_application)
    with pytest.raises(asyncpg.InterfaceError, match=r"connection\.transaction\(\)"):
        await inside.claim(Bid(key, "a", HOUR, DAY))
    await inside.close()
    async with async_application.transaction():
        assert isinstance(await inside.claim(Bid(key, "a", HOUR, DAY)), Run)

    assert isinstance(await async_claims.claim(Bid(key, "b", HOUR, DAY)), Wait)


def test_a_schema_may_be_made_by_many_at_once(postgres_url: str, key: str) -> None:
    """In a table and a schema of one's own; each ends with a store that works."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE SCHEMA billing_{key}")
    stores = [PostgresStore(postgres_url, table=f"billing_{key}.claims") for _ in range(8)]
    gate = threading.Barrier(8)

    def make(store: PostgresStore) -> object:
        gate.wait()
        store.create_schema()
        return store.claim(Bid(key, uuid.uuid4().hex, HOUR, DAY))

    with ThreadPoolExecutor(8) as pool:
        decisions = list(pool.map(make, stores))
    assert stores[0].sweep() == 0
    for store in stores:
        store.close()

    assert sorted(type(decision).__name__ for decision in decisions) == ["Run", *["Wait"] * 7]


def test_a_store_goes_on_after_its_connections_were_cut(claims: PostgresStore, postgres_url: str, key: str) -> None:
    """One verb fails, and the guard's second try succeeds, as the next verb does."""
    claims.claim(Bid(key, "a", HOUR, DAY))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    with pytest.raises(psycopg.OperationalError):
        claims.claim(Bid(key, "b", HOUR, DAY))
    assert isinstance(claims.claim(Bid(key, "b", HOUR, DAY)), Wait)


def test_leases_are_judged_by_the_servers_clock(claims: PostgresStore, postgres_url: str, key: str) -> None:
    """Which is read for each verb, also within one transaction."""
    with psycopg.connect(postgres_url) as connection:
        inside = claims.in_transaction(connection)
        connection.execute("SELECT 1")
        (begun,) = connection.execute("SELECT (extract(epoch FROM now()) * 1000000)::bigint").fetchone() or (0,)
        connection.execute("SELECT pg_sleep(0.05)")
        decision = inside.claim(Bid(key, "a", HOUR, DAY))

    assert isinstance(decision, Run)
    assert SECOND // 20 <= decision.record.lease_expires - HOUR - begun < 20 * SECOND


def test_the_table_refuses_what_no_record_is(claims: PostgresStore, postgres_url: str, key: str) -> None:
    """Whoever writes it by hand."""
    claims.claim(Bid(key, "a", HOUR, DAY))
    for change in ("status = 'done'", "fence = -1", "answer_status = 200"):
        with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(f"UPDATE taskbell_claims SET {change} WHERE key = '{key}'".encode())


def test_a_table_has_a_plain_name(postgres_url: str) -> None:
    """It goes into the statements."""
    with pytest.raises(ValueError, match="letters, digits and underscores"):
        PostgresStore(postgres_url, table="claims; DROP TABLE claims")

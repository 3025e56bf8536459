"""Completion inside the caller's transaction, on an event loop, and stores that have none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from taskbell.idempotency import Answer, AsyncGuard, AsyncRun, Guard, MemoryStore, Ran, Replayed, Run, own_key
from taskbell.idempotency.stores.sqlite import SqliteStore

KEY = own_key("order 17")
OK = Answer(201)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "claims.db")) as store:
        store.create_schema()
        yield store


@pytest.fixture
def application(store: SqliteStore, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that may be used in other threads, since a blocking store under an event loop is."""
    with closing(sqlite3.connect(tmp_path / "claims.db", check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE payments (name TEXT)")
        yield connection


async def test_effect_and_completion_commit_together(store: SqliteStore, application: sqlite3.Connection) -> None:
    """`finish_in`, through threads."""
    guard = AsyncGuard(store)

    async def pay(run: AsyncRun) -> None:
        with application:
            application.execute("INSERT INTO payments VALUES ('a')")
            await run.finish_in(application, OK)

    assert await guard.call(KEY, pay) == Ran(None)
    assert await guard.claim(KEY) == Replayed(OK)


async def test_claim_effect_and_completion_in_one_transaction(
    store: SqliteStore, application: sqlite3.Connection
) -> None:
    """`within`; a rollback leaves nothing."""
    guard = AsyncGuard(store)

    async def pay(run: AsyncRun) -> Answer:
        application.execute("INSERT INTO payments VALUES ('a')")
        return OK

    assert await guard.within(application).call(KEY, pay) == Ran(OK, OK)
    application.rollback()
    assert store.get(KEY.text) is None
    with application:
        assert await guard.within(application).call(KEY, pay) == Ran(OK, OK)
    assert await guard.claim(KEY) == Replayed(OK)
    assert application.execute("SELECT count(*) FROM payments").fetchone() == (1,)


async def test_an_error_in_a_transaction_releases_nothing(store: SqliteStore, application: sqlite3.Connection) -> None:
    """It may be one that has broken the transaction: only a rollback is left."""
    guard = AsyncGuard(store).within(application)

    async def fail(_: AsyncRun) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await guard.call(KEY, fail)
    assert (await guard.call(KEY, fail)).__class__.__name__ == "InProgress"


def test_a_store_without_transactions_says_so() -> None:
    """Also when it is asked through threads."""
    guard = Guard(MemoryStore())
    run = guard.claim(KEY)
    assert isinstance(run, Run)

    for ask in (lambda: guard.within(None), lambda: run.finish_in(None), lambda: AsyncGuard(guard.store).within(None)):
        with pytest.raises(TypeError, match="MemoryStore cannot act inside a transaction of its caller"):
            ask()
    run.release()

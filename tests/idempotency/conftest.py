"""What the tests of the kit share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from taskbell.idempotency import Guard, MemoryStore
from taskbell.testing.thread_clock import ManualThreadClock
from tests.support.postgres import postgres
from tests.support.redis import redis_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url


@pytest.fixture
def clock() -> ManualThreadClock:
    return ManualThreadClock()


@pytest.fixture
def store(clock: ManualThreadClock) -> MemoryStore:
    return MemoryStore(clock.now)


@pytest.fixture
def guard(store: MemoryStore, clock: ManualThreadClock) -> Guard:
    return Guard(store, clock=clock)

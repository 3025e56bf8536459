"""What the tests of the kit share."""

from __future__ import annotations

import pytest

from taskbell.idempotency import Guard, MemoryStore
from taskbell.testing.thread_clock import ManualThreadClock


@pytest.fixture
def clock() -> ManualThreadClock:
    return ManualThreadClock()


@pytest.fixture
def store(clock: ManualThreadClock) -> MemoryStore:
    return MemoryStore(clock.now)


@pytest.fixture
def guard(store: MemoryStore, clock: ManualThreadClock) -> Guard:
    return Guard(store, clock=clock)

"""One sender and one scripted handler for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from taskbell.senders.http import HttpSender
from taskbell.testing.handler import ScriptedHandler


@pytest.fixture
async def handler() -> AsyncIterator[ScriptedHandler]:
    """A handler that answers 200 until it is told otherwise."""
    async with ScriptedHandler() as scripted:
        yield scripted


@pytest.fixture
async def sender(handler: ScriptedHandler) -> AsyncIterator[HttpSender]:
    """A started sender; it closes before the handler does."""
    started = HttpSender()
    await started.start()
    yield started
    await started.close()


@pytest.fixture(params=["/h", "/dots/../h"], ids=["plain", "dots"])
def path(request: pytest.FixtureRequest) -> str:
    """A path as most are, and one that clients which read URLs as browsers do would rewrite."""
    found: str = request.param
    return found

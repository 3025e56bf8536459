"""One server in this process for each case, over each transport."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.wire import Wire


@pytest.fixture(params=["grpc", "rest"])
async def wire(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    """A server that is called one way or the other."""
    running = Wire(request.param)
    await running.app.start()
    yield running
    await running.app.stop()


@pytest.fixture
async def grpc() -> AsyncIterator[Wire]:
    """A server for what only gRPC can say: names that fit no REST path."""
    running = Wire("grpc")
    await running.app.start()
    yield running
    await running.app.stop()

"""A fresh server in this process for each case."""

from __future__ import annotations

import pytest

from tests.conformance.wire import Wire


@pytest.fixture(params=["grpc", "rest"])
async def wire(request: pytest.FixtureRequest) -> Wire:
    """A server that is called one way or the other."""
    return Wire(request.param)


@pytest.fixture
async def grpc() -> Wire:
    """A server for what only gRPC can say: names that fit no REST path."""
    return Wire("grpc")

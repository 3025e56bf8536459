"""A server and a client for each module that asks; modules with other needs start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.rest import RestClient
from tests.support.server import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server, on a store of the module's own, that forgets the names of deleted queues."""
    with ServerProcess(tmp_path_factory.mktemp("server"), "--queue-tombstone", "0") as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[RestClient]:
    """A REST client of that server."""
    with RestClient(server.address) as rest:
        yield rest

"""One server and one handler for all clients: each client works in a project of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

# Asserts outside test files show what they compared only when pytest is told of them before they are imported.
pytest.register_assert_rewrite(
    "tests.clients.scenario", "tests.clients.players", "tests.clients.job_scenario", "tests.clients.job_players"
)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server on a store of its own."""
    folder: Path = tmp_path_factory.mktemp("clients")
    with ServerProcess(folder) as running:
        yield running


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """A handler that records what reaches it."""
    with Receiver() as running:
        yield running

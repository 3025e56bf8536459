"""Google's own clients, unmodified, play one scenario against a real server and a real handler.

Each client plays once; each step of its play is a test of its own, so that a failure names client and step.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.foreign import BUILD_TIMEOUT, PLAY_TIMEOUT
from tests.clients.players import CLIENTS, Play, steps_of
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

# Whichever test of a client comes first plays the scenario, and may have to build the client before.
pytestmark = pytest.mark.timeout(BUILD_TIMEOUT + PLAY_TIMEOUT)


@pytest.fixture(scope="session")
def play(server: ServerProcess, receiver: Receiver) -> Callable[[str], Play]:
    """The play of a client, made when first asked for."""
    plays: dict[str, Play] = {}

    def of(client: str) -> Play:
        if client not in plays:
            plays[client] = Play(client, server, receiver)
        return plays[client]

    return of


@pytest.mark.parametrize(("client", "step"), [(client, step) for client in CLIENTS for step in steps_of(client)])
def test_client_sees_what_the_wire_rules_promise(client: str, step: str, play: Callable[[str], Play]) -> None:
    """Every step shows the client exactly what the wire rules say."""
    play(client).check(step)


@pytest.mark.parametrize("client", CLIENTS)
def test_handler_gets_what_the_client_created(client: str, play: Callable[[str], Play]) -> None:
    """The handler gets each due task once, the failing one until it succeeds, with exactly the promised headers."""
    play(client).check_deliveries()

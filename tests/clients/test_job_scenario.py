"""Google's own clients of Cloud Scheduler, unmodified, play one scenario against a real server and a real handler.

Each client plays once; each step of its play is a test of its own, so that a failure names client and step.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.foreign import BUILD_TIMEOUT, PLAY_TIMEOUT
from tests.clients.job_players import CLIENTS, JobPlay
from tests.clients.job_scenario import STEPS
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

# Whichever test of a client comes first plays the scenario, and may have to build the client before.
pytestmark = pytest.mark.timeout(BUILD_TIMEOUT + PLAY_TIMEOUT)


@pytest.fixture(scope="session")
def play(server: ServerProcess, receiver: Receiver) -> Callable[[str], JobPlay]:
    """The play of a client, made when first asked for."""
    plays: dict[str, JobPlay] = {}

    def of(client: str) -> JobPlay:
        if client not in plays:
            plays[client] = JobPlay(client, server, receiver)
        return plays[client]

    return of


@pytest.mark.parametrize(("client", "step"), [(client, step) for client in CLIENTS for step in STEPS])
def test_client_sees_what_the_wire_rules_promise(client: str, step: str, play: Callable[[str], JobPlay]) -> None:
    """Every step shows the client exactly what the wire rules say."""
    play(client).check(step)


@pytest.mark.parametrize("client", CLIENTS)
def test_handler_gets_each_run(client: str, play: Callable[[str], JobPlay]) -> None:
    """The handler gets each run once, the failing one until it succeeds, with exactly the promised headers."""
    play(client).check_deliveries()

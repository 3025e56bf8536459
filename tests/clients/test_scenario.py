"""Google's own clients, unmodified, play one scenario against a real server and a real handler.

Each client plays once; each step of its play is a test of its own, so that a failure names client and step.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients import discovery, foreign, gapic
from tests.clients.scenario import STEPS, Given, check_deliveries, check_step, given_for
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

Facts = dict[str, Any]
Player = Callable[[Given, Facts], None]

CLIENTS: dict[str, Player] = {
    "python-grpc": lambda given, facts: gapic.play("grpc", given, facts),
    "python-asyncio": lambda given, facts: gapic.play("asyncio", given, facts),
    "python-rest": lambda given, facts: gapic.play("rest", given, facts),
    "python-discovery": discovery.play,
    "node-grpc": lambda given, facts: foreign.play_node("grpc", given, facts),
    "node-rest": lambda given, facts: foreign.play_node("rest", given, facts),
    "go-grpc": foreign.play_go,
}
# The Node client has neither batches nor the encryption key in its v2 surface.
LACKING = {
    client: {"get_cmek_config", "update_cmek_config", "get_cmek_config_again"}
    | {"batch_create", "batch_create_again", "batch_delete"}
    for client in ("node-grpc", "node-rest")
}
PLAYS = [(client, step) for client in CLIENTS for step in STEPS if step not in LACKING.get(client, ())]


class Play:
    """One client's play: what it was given, what it saw, and how it broke off if it did."""

    def __init__(self, client: str, server: ServerProcess, receiver: Receiver) -> None:
        """Play the scenario to its end or its first failure; the tests of the steps judge."""
        self.given = given_for(client, server.host, server.port, receiver.url)
        self.facts: Facts = {}
        self.broken = ""
        receiver.script(f"/{client}/flaky-1", 503, 404, 200)
        try:
            CLIENTS[client](self.given, self.facts)
        except Exception:  # noqa: BLE001 - whatever breaks a client off must become the message of its steps' tests
            self.broken = traceback.format_exc()


@pytest.fixture(scope="session")
def play(server: ServerProcess, receiver: Receiver) -> Callable[[str], Play]:
    """The play of a client, made when first asked for."""
    plays: dict[str, Play] = {}

    def of(client: str) -> Play:
        if client not in plays:
            plays[client] = Play(client, server, receiver)
        return plays[client]

    return of


@pytest.mark.timeout(foreign.BUILD_TIMEOUT + foreign.PLAY_TIMEOUT)
@pytest.mark.parametrize(("client", "step"), PLAYS)
def test_client_sees_what_the_contract_promises(client: str, step: str, play: Callable[[str], Play]) -> None:
    """Every step shows the client exactly what the wire rules say."""
    played = play(client)
    if step not in played.facts and played.broken:
        pytest.fail(f"{client} broke off before {step}:\n{played.broken}", pytrace=False)
    check_step(step, played.facts, played.given)


@pytest.mark.timeout(foreign.BUILD_TIMEOUT + foreign.PLAY_TIMEOUT)
@pytest.mark.parametrize("client", CLIENTS)
def test_handler_gets_what_the_client_created(client: str, play: Callable[[str], Play], receiver: Receiver) -> None:
    """The handler gets each due task once, the failing one until it succeeds, with exactly the promised headers."""
    played = play(client)
    if "held_task_finished" not in played.facts:
        pytest.fail(f"{client} broke off:\n{played.broken}", pytrace=False)
    check_deliveries(played.facts, played.given, receiver)

"""The clients by name, and one client's play of the scenario."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

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
    "go-grpc": lambda given, facts: foreign.play_go("grpc", given, facts),
    "go-rest": lambda given, facts: foreign.play_go("rest", given, facts),
}
# The Node client has neither batches nor the encryption key in its v2 surface.
_NODE_LACKS = {"get_cmek_config", "update_cmek_config", "get_cmek_config_again"} | {
    "batch_create",
    "batch_create_again",
    "batch_delete",
}
LACKING = {"node-grpc": _NODE_LACKS, "node-rest": _NODE_LACKS}


def steps_of(client: str) -> list[str]:
    """The steps that a client can play."""
    return [step for step in STEPS if step not in LACKING.get(client, ())]


class Play:
    """One client's play: what it was given, what it saw, and how it broke off if it did."""

    def __init__(self, client: str, server: ServerProcess, receiver: Receiver) -> None:
        """Play the scenario to its end or its first failure; judging comes later, step by step."""
        self.given = given_for(client, server.host, server.port, receiver.url)
        self._receiver = receiver
        self._facts: Facts = {}
        self._broken = ""
        receiver.script(f"/{client}/flaky-1", 503, 404, 200)
        try:
            CLIENTS[client](self.given, self._facts)
        except Exception:  # noqa: BLE001 - whatever breaks a client off becomes the message of the steps it did not reach
            self._broken = traceback.format_exc()

    def check(self, step: str) -> None:
        """Judge one step."""
        self._reached(step)
        check_step(step, self._facts, self.given)

    def check_deliveries(self) -> None:
        """Judge what the handler got."""
        self._reached("held_task_finished")
        check_deliveries(self._facts, self.given, self._receiver)

    def _reached(self, step: str) -> None:
        last = next(reversed(self._facts), "none")
        assert step in self._facts, f"broke off before {step}, last step {last}:\n{self._broken[-4000:]}"

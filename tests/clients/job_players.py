"""The clients of Cloud Scheduler by name, and one client's play of the scenario for jobs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from tests.clients import discovery_jobs, foreign, gapic_jobs
from tests.clients.job_scenario import JobGiven, check_deliveries, check_step, given_for
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

Facts = dict[str, Any]
Player = Callable[[JobGiven, Facts], None]

CLIENTS: dict[str, Player] = {
    "python-grpc": lambda given, facts: gapic_jobs.play("grpc", given, facts),
    "python-asyncio": lambda given, facts: gapic_jobs.play("asyncio", given, facts),
    "python-rest": lambda given, facts: gapic_jobs.play("rest", given, facts),
    "python-discovery": discovery_jobs.play,
    "node-grpc": lambda given, facts: foreign.play_node("grpc", given, facts, script="jobs.mjs"),
    "node-rest": lambda given, facts: foreign.play_node("rest", given, facts, script="jobs.mjs"),
    "go-grpc": lambda given, facts: foreign.play_go("grpc", given, facts, scenario="jobs"),
    "go-rest": lambda given, facts: foreign.play_go("rest", given, facts, scenario="jobs"),
}


class JobPlay:
    """One client's play: what it was given, what it saw, and how it broke off if it did."""

    def __init__(self, client: str, server: ServerProcess, receiver: Receiver) -> None:
        """Play the scenario to its end or its first failure; judging comes later, step by step."""
        self.given = given_for(client, server.host, server.port, receiver.url)
        self._receiver = receiver
        self._facts: Facts = {}
        self._broken = ""
        path = self.given.handler.removeprefix(receiver.url)
        receiver.script(f"{path}/flaky-1", 500, 503, 200)
        receiver.script(f"{path}/failing-1", 500)
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
        self._reached("run_paused_finished")
        check_deliveries(self.given, self._receiver)

    def _reached(self, step: str) -> None:
        last = next(reversed(self._facts), "none")
        assert step in self._facts, f"broke off before {step}, last step {last}:\n{self._broken[-4000:]}"

"""Where the usual server has no wheel, hypercorn serves the same application: the same scenario holds there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.players import Play, steps_of
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess


@pytest.mark.parametrize("client", ["python-grpc", "python-rest"])
def test_scenario_on_hypercorn(client: str, tmp_path: Path) -> None:
    """Trailers for gRPC, and REST beside it, to the end of the scenario."""
    with ServerProcess(tmp_path, "--server", "hypercorn") as server, Receiver() as receiver:
        play = Play(client, server, receiver)
        for step in steps_of(client):
            play.check(step)
        play.check_deliveries()

"""gcloud-tasks-emulator from PyPI: in memory, one thread a queue; started as its README says, fed over gRPC."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench.peers.install import ROLES, python_environment
from bench.peers.measure import Peer
from bench.place import Place
from bench.processes import Child, free_port, wait_for_port


def python(place: Place) -> Path:
    """The interpreter that has the emulator."""
    return python_environment(place, "gcloud-tasks-emulator-venv", "gcloud-tasks-emulator", "setuptools<81")


def install(place: Place) -> None:
    """From PyPI."""
    python(place)


@contextlib.contextmanager
def broker(place: Place) -> Iterator[str]:
    """A fresh emulator; gives its address."""
    port = free_port()
    command = [str(python(place).with_name("gcloud-tasks-emulator")), "start", "--port", str(port), "--quiet"]
    command += ["--target-host", "127.0.0.1", "--target-port", str(place.handler.port)]
    with Child(command, place.log("gcloud-tasks-emulator")):
        wait_for_port(port, 20)
        yield f"127.0.0.1:{port}"


def command(role: str, place: Place, address: str) -> list[str]:
    """A process in one of the two roles of `gcloud_emulator_client.py`."""
    script = ROLES / "gcloud_emulator_client.py"
    return [str(python(place)), str(script), role, address, place.handler.url]


PEER = Peer(
    name="gcloud-tasks-emulator",
    settings=(
        "Emulator: in memory (nothing survives it), 24 queues, so 24 dispatching threads",
        "Producer: one process, CreateTask over gRPC one task a call, 64 in flight",
    ),
    about=700,
    install=install,
    broker=broker,
    worker=lambda place, address: command("worker", place, address),
    producer=lambda place, address: command("producer", place, address),
)

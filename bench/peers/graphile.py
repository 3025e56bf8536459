"""graphile-worker on PostgreSQL, with the settings of its own performance page."""

from __future__ import annotations

from bench.peers import postgres
from bench.peers.install import node_modules, node_script
from bench.peers.measure import Peer
from bench.place import Place


def install(place: Place) -> None:
    """PostgreSQL, graphile-worker and undici (the POST)."""
    node_modules(place, "graphile-worker", "undici")
    postgres.install(place)


def command(role: str, place: Place, address: str) -> list[str]:
    """A node process in one of the two roles of `graphile.mjs`."""
    return ["node", str(node_script(place, "graphile.mjs")), role, address, place.handler.url]


PEER = Peer(
    name="graphile-worker",
    settings=(
        postgres.SETTINGS,
        "Worker: one process, concurrentJobs 24, maxPoolSize 25, localQueue.size 500, complete/failJobBatchDelay 0",
        "Worker: no logging per job, POST by undici on 64 connections",
        "Producer: one process, addJob one job a call, 64 in flight on a pool of 25",
    ),
    about=1_500,
    install=install,
    broker=postgres.broker,
    worker=lambda place, address: command("worker", place, address),
    producer=lambda place, address: command("producer", place, address),
)

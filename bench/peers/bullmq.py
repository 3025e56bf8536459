"""BullMQ on Redis: one worker process with a high concurrency, as its guide advises for jobs that wait on HTTP.

Of 50, 100 and 200, 100 delivered most end to end when this was written.
"""

from __future__ import annotations

import json

from bench.peers import redis
from bench.peers.install import node_modules, node_script
from bench.peers.measure import Peer
from bench.place import Place

PACKAGES = ("bullmq", "ioredis", "undici")


def install(place: Place) -> None:
    """Redis from the system; BullMQ, its Redis client and undici (the POST) from npm."""
    redis.install(place)
    node_modules(place, *PACKAGES)


def versions(place: Place) -> str:
    """What npm installed."""
    folder = place.folder / "node" / "node_modules"
    found = (json.loads((folder / name / "package.json").read_text())["version"] for name in PACKAGES)
    return ", ".join(f"{name} {version}" for name, version in zip(PACKAGES, found, strict=True))


def command(role: str, place: Place, address: str) -> list[str]:
    """A node process in one of the two roles of `bullmq.mjs`."""
    return ["node", str(node_script(place, "bullmq.mjs")), role, address, place.handler.url]


PEER = Peer(
    name="bullmq",
    settings=(
        redis.SETTINGS,
        "Worker: one process, concurrency 100, finished jobs removed, POST by undici on 64 connections",
        "Producer: one process, queue.add one job a call, 64 in flight",
    ),
    about=5_000,
    install=install,
    broker=redis.broker,
    worker=lambda place, address: command("worker", place, address),
    producer=lambda place, address: command("producer", place, address),
)

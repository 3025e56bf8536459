"""Celery on Redis: the prefork pool with a process a core, and the large prefetch its guide advises for short tasks."""

from __future__ import annotations

from pathlib import Path

from bench.peers import redis
from bench.peers.install import ROLES, python_environment
from bench.peers.measure import Peer
from bench.place import Place


def python(place: Place) -> Path:
    """The interpreter that has Celery."""
    return python_environment(place, "celery-venv", "celery[redis]", "urllib3")


def install(place: Place) -> None:
    """Redis from the system, Celery from PyPI."""
    redis.install(place)
    python(place)


def command(role: str, place: Place, address: str) -> list[str]:
    """A process in one of the two roles of `celery_app.py`."""
    return [str(python(place)), str(ROLES / "celery_app.py"), role, address, place.handler.url]


PEER = Peer(
    name="celery",
    settings=(
        redis.SETTINGS,
        "Worker: prefork, one process a core, worker_prefetch_multiplier 64, task_ignore_result true, POST by urllib3",
        "Worker: without gossip, mingle and heartbeat; acknowledges before the task runs (Celery's default)",
        "Producer: one process, task.delay in a loop",
    ),
    about=500,
    install=install,
    broker=redis.broker,
    worker=lambda place, address: command("worker", place, address),
    producer=lambda place, address: command("producer", place, address),
)

"""Every part of the benchmark, in the order in which a round measures them."""

from __future__ import annotations

from bench.floor import Engine, Noop, Post
from bench.jobs import Herd, Resting
from bench.ours import Backlog, Creates, EndToEnd, Idle
from bench.peers import bullmq, celery, gcloud_emulator, graphile
from bench.place import Part

PARTS: tuple[Part, ...] = (
    Noop(),
    Post(),
    Engine(),
    Creates(),
    EndToEnd(),
    Idle(),
    Herd(),
    Resting(),
    bullmq.PEER,
    graphile.PEER,
    celery.PEER,
    gcloud_emulator.PEER,
    Backlog(),
)


def chosen(words: tuple[str, ...]) -> list[Part]:
    """The parts whose names begin with one of the words; all of them when there are none."""
    return [part for part in PARTS if not words or part.name.startswith(words)]

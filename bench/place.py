"""Where and how large a benchmark runs: the temporary folder, the handler, and the sizes of each part."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.handler import Handler
from bench.stats import Round


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each part does in one round. Full sizes keep a rate running for some seconds."""

    calls: int
    posts: int
    engine_tasks: int
    creates: int
    deliveries: int
    idle_calls: int
    backlogs: tuple[int, ...]
    peer_seconds: float
    herd: int
    """Jobs that fire on one minute."""
    resting_jobs: int


FULL = Sizes(
    calls=96_000,
    posts=60_000,
    engine_tasks=60_000,
    creates=48_000,
    deliveries=24_000,
    idle_calls=200,
    backlogs=(1_000, 100_000, 1_000_000),
    peer_seconds=6,
    herd=10_000,
    resting_jobs=100_000,
)
QUICK = Sizes(
    calls=12_000,
    posts=8_000,
    engine_tasks=8_000,
    creates=6_000,
    deliveries=4_800,
    idle_calls=30,
    backlogs=(1_000, 20_000),
    peer_seconds=1.5,
    herd=500,
    resting_jobs=5_000,
)


@dataclass(frozen=True, slots=True)
class Place:
    """What every part is given."""

    folder: Path
    handler: Handler
    sizes: Sizes

    def log(self, name: str) -> Path:
        """The log of one part's processes."""
        return self.folder / f"{name}.log"


@contextlib.contextmanager
def fresh_folder(place: Place, prefix: str) -> Iterator[Path]:
    """An empty folder on the benchmark's own disk, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place.folder))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Part(Protocol):
    """One thing that is measured. `name` selects it (`--only`); `settings` are printed beside its figures."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> tuple[str, ...]: ...

    def prepare(self, place: Place) -> None:
        """Install or fill what it needs, once; raises Unavailable with the reason when it cannot."""

    def measure(self, place: Place) -> Round:
        """Measure once."""

"""Cloud Scheduler's share: a herd of jobs on one minute, many jobs that rest, and a start with them."""

from __future__ import annotations

import math
import shutil
import sys
import time
from pathlib import Path

from bench.jobs_alone import FIRES_AN_HOUR, HANDFUL
from bench.ours import running_server
from bench.place import Place, fresh_folder
from bench.processes import Failed, run, say
from bench.stats import Round, percentile

MINUTE = 60
# Between the decision on a minute and its begin: the store is filled and the server starts, on a slow machine too.
LEAD = 15
# How long after the herd another arrival of the same minute would have shown.
AFTERMATH = 1.0


def alone(place: Place, *words: str) -> str:
    """What `bench.jobs_alone` prints."""
    return run([sys.executable, "-m", "bench.jobs_alone", *words], place.log("jobs"), 600)


class Herd:
    """How late jobs start that all fire on the minute, and how long the herd takes."""

    name = "jobs-herd"
    settings = (
        "Herd: 10 000 jobs `* * * * *` (quick: 500), POST of 100 bytes each, on a fresh server",
        "Herd: created through the engine's own contract (bench/jobs_alone.py); then a real minute comes",
        "Herd: late: arrival at the handler minus the minute; the rate counts from the minute to the last arrival",
    )

    def prepare(self, place: Place) -> None:
        """Nothing: each round has a store of its own."""

    def measure(self, place: Place) -> Round:
        """One minute."""
        size = place.sizes.herd
        minute = math.ceil((time.time() + LEAD) / MINUTE) * MINUTE
        with fresh_folder(place, "herd-") as folder:
            store = folder / "taskbell.db"
            alone(place, "herd", f"sqlite:{store}", str(size), place.handler.url, str(minute))
            with running_server(place, store) as server:
                place.handler.reset(record=True)
                before = server.usage()
                if time.time() > minute - 1:
                    raise Failed("filling the store and starting took until the minute itself")
                # Nothing is asked of the handler while it waits or the herd arrives.
                time.sleep(minute + 1 - time.time())
                place.handler.wait_for(size, MINUTE - 5)
                time.sleep(AFTERMATH)
                after = server.usage()
                arrivals = place.handler.times()
        if len(arrivals) != size:
            raise Failed(f"{size} jobs made {len(arrivals)} requests in one minute")
        # Both clocks run on; what lies between them is the same all along but for what the system's clock is slewed.
        start = minute * 10**9 - (time.time_ns() - time.monotonic_ns())
        late = [(arrival - start) / 1e6 for arrival in arrivals]
        took = max(late) / 1e3
        p50, p99 = percentile(late, 0.5), percentile(late, 0.99)
        say(f"jobs: a herd of {size} started {p50:.0f} ms late (p50), {p99:.0f} ms (p99), done in {took:.2f} s")
        return {
            "jobs.late_first": min(late),
            "jobs.late_p50": p50,
            "jobs.late_p99": p99,
            "jobs.herd_s": took,
            "jobs.herd_rate": size / took,
            "jobs.herd_cpu_us": (after.cpu_s - before.cpu_s) / size * 1e6,
        }


class Resting:
    """What many jobs cost that do not fire: CPU while time passes, and time and memory at the start."""

    name = "jobs-resting"
    settings = (
        "Resting: 100 000 jobs (quick: 5 000) of four kinds, about 28 000 distinct schedules and zones, all far away",
        f"Resting: but {HANDFUL} of them fire every 15 minutes; created through the engine's own contract",
        "Resting: time to ready and memory are those of `taskbell serve`",
        "Resting: CPU of an hour: the whole application in one process, its manual clock moved 3 600 times by a second",
        "Resting: moving the clock is part of that figure, which is why the empty store stands beside it",
    )

    def prepare(self, place: Place) -> None:
        """Fill the store; instants are counted from now, so an older one will not do."""
        store = self.filled(place)
        store.unlink(missing_ok=True)
        say(f"filling a store with {place.sizes.resting_jobs} jobs")
        alone(place, "sparse", f"sqlite:{store}", str(place.sizes.resting_jobs))

    def measure(self, place: Place) -> Round:
        """An empty store, then the full one; each on a copy, for jobs that fire are moved on."""
        found: Round = {}
        for label, size in (("empty", 0), ("many", place.sizes.resting_jobs)):
            found |= self.measure_hour(place, label, size)
            with fresh_folder(place, "resting-") as folder:
                store = self.copy(place, folder, size)
                with running_server(place, store) as server:
                    found[f"jobs.ready_{label}"] = server.ready_s
                    found[f"jobs.memory_{label}"] = server.usage().peak_mb
        say(
            f"jobs: {place.sizes.resting_jobs} at rest: {found['jobs.hour_cpu_many']:.2f} s of CPU an hour "
            f"({found['jobs.hour_cpu_empty']:.2f} empty), ready in {found['jobs.ready_many']:.2f} s "
            f"({found['jobs.ready_empty']:.2f})"
        )
        return found

    def measure_hour(self, place: Place, label: str, size: int) -> Round:
        """The CPU of an hour; every instant of it must have its row."""
        with fresh_folder(place, "hour-") as folder:
            store = self.copy(place, folder, size)
            spent, fired = alone(place, "hour", f"sqlite:{store}", str(size)).split()
        wanted = min(size, HANDFUL) * FIRES_AN_HOUR
        if int(fired) != wanted:
            raise Failed(f"{fired} executions in an hour that has {wanted} instants")
        return {f"jobs.hour_cpu_{label}": float(spent)}

    def filled(self, place: Place) -> Path:
        """The store that copies are made of."""
        return place.folder / "resting-jobs.db"

    def copy(self, place: Place, folder: Path, size: int) -> Path:
        """A store with the jobs, or one that does not exist yet."""
        store = folder / "taskbell.db"
        if size:
            shutil.copy(self.filled(place), store)
        return store

"""The floor: what the parts cost alone. Together they bound what any build on them can reach.

- `noop`: the server answering a unary call that does nothing;
- `post`: the HTTP client posting to the handler in a loop;
- `engine`: the embedded engine writing tasks and removing them, through its public contract, group commit included.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from bench.load import IDLE_GAP, call_at_full_speed, call_when_idle, median_ms
from bench.noop import METHOD
from bench.peers.install import tool
from bench.place import Place, fresh_folder
from bench.processes import Child, free_port, run, say, wait_for_port
from bench.stats import Round, composite

# As many as the queues of ours.py, so that floor and creates are loaded alike.
LANES = 24


class Noop:
    """(a) Calls a second, and the median of a lonely one."""

    name = "floor-noop"
    settings = (
        f"No-op: bench/noop.py under pyvoy; h2load, {LANES} processes of one connection with 32 calls in flight",
    )

    def prepare(self, place: Place) -> None:
        """Have the load generator."""
        tool(place, "h2load", "nghttp2-client")

    def measure(self, place: Place) -> Round:
        """Both figures from one server."""
        with running_noop(place) as port:
            call_at_full_speed(place, port, METHOD, [b""] * LANES, LANES * 50)
            rate = call_at_full_speed(place, port, METHOD, [b""] * LANES, place.sizes.calls).rate
            alone = median_ms(call_when_idle(port, METHOD, b"", place.sizes.idle_calls, lambda: None))
        say(f"floor: {rate:.0f} no-op calls/s, {alone:.2f} ms alone")
        return {"floor.noop": rate, "floor.noop_idle_p50": alone}


@contextlib.contextmanager
def running_noop(place: Place) -> Iterator[int]:
    """The server that does nothing; gives its port."""
    port = free_port()
    with Child([sys.executable, "-m", "bench.noop", str(port)], place.log("noop")):
        wait_for_port(port, 30)
        yield port


class Post:
    """(b) Posts a second, and the median of a lonely one."""

    name = "floor-post"
    settings = ("POST: pyreqwest in a process of its own, 64 workers, 100-byte bodies",)

    def prepare(self, place: Place) -> None:
        """Nothing: the client is the product's own."""

    def measure(self, place: Place) -> Round:
        """Both figures."""
        command = [sys.executable, "-m", "bench.poster"]
        url, log = place.handler.url, place.log("poster")
        rate = float(run([*command, "busy", url, str(place.sizes.posts)], log, 120))
        alone = float(run([*command, "idle", url, str(place.sizes.idle_calls), str(IDLE_GAP)], log, 120))
        say(f"floor: {rate:.0f} posts/s, {alone:.2f} ms alone")
        return {"floor.post": rate, "floor.post_idle_p50": alone}


class Engine:
    """(c) Tasks a second written and removed again, each on disk before its verb returned."""

    name = "floor-engine"
    settings = (
        "Engine: create_tasks and settle on sqlite:, lists of 32 from 16 callers at once (h2load keeps 768 in flight)",
    )

    def prepare(self, place: Place) -> None:
        """Nothing: the engine is the product's own."""

    def measure(self, place: Place) -> Round:
        """Writes, removals, and the two in turn."""
        with fresh_folder(place, "engine-") as folder:
            command = [sys.executable, "-m", "bench.engine_alone", "rate", f"sqlite:{folder}/engine.db"]
            printed = run([*command, str(place.sizes.engine_tasks)], place.log("engine"), 120)
        writes, removals = (float(word) for word in printed.split())
        say(f"floor: the engine alone writes {writes:.0f} and removes {removals:.0f} tasks/s")
        both = composite(writes, removals)
        return {"floor.engine_writes": writes, "floor.engine_removals": removals, "floor.engine": both}

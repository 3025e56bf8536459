"""A Redis of our own: loopback, a free port, a throw-away folder, and every write on disk before its answer."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator

from bench.peers.install import tool
from bench.place import Place
from bench.processes import Child, free_port, wait_for_port

SETTINGS = 'Redis: appendonly yes, appendfsync always, save "", maxmemory-policy noeviction'


def install(place: Place) -> None:
    """Have `redis-server`."""
    tool(place, "redis-server", "redis-server")


@contextlib.contextmanager
def broker(place: Place) -> Iterator[str]:
    """A fresh, empty Redis; gives its URL."""
    port = free_port()
    folder = tempfile.mkdtemp(prefix="redis-", dir=place.folder)
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": folder,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    command = ["redis-server", *(word for key, value in options.items() for word in (f"--{key}", value))]
    try:
        with Child(command, place.log("redis")):
            wait_for_port(port, 10)
            yield f"redis://127.0.0.1:{port}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)

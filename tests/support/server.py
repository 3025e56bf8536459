"""`taskbell serve` as a process of its own, on a store and a port that belong to the test.

Tests that must see the whole program (Google's clients, crashes, the command line) start it here. Port and store stay
the same over `restart`, so what a client knew before a crash is still right after it.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

READY_TIMEOUT = 30.0
STOP_TIMEOUT = 30.0


class ServerFailedError(AssertionError):
    """The server did not become ready, or did not stop; the message carries the end of its log."""


def free_port() -> int:
    """A loopback port that nobody listens on; the caller binds it soon, before the system hands it out again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _exit_code(process: subprocess.Popen[bytes], timeout: float) -> int | None:
    """How a process ended, as soon as it does; None when it still runs after the timeout."""
    try:
        return process.wait(timeout=timeout)
    except subprocess.TimeoutExpired:
        return None


class ServerProcess:
    """One server; `start` waits until it is ready, leaving the `with` statement stops it for good."""

    def __init__(self, folder: Path, *arguments: str, port: int | None = None) -> None:
        """Prepare a server whose store and log lie in `folder`; `arguments` end its command line."""
        self.host = "127.0.0.1"
        self.port = port or free_port()
        self.store = folder / "t.db"
        self.log_path = folder / "serve.log"
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`HOST:PORT`, as gRPC channels want it."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The root URL, without a slash at its end."""
        return f"http://{self.address}"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def command(self) -> list[str]:
        """The command line, as a person would type it."""
        where = ["--store", f"sqlite:{self.store}", "--host", self.host, "--port", str(self.port)]
        return [sys.executable, "-m", "taskbell", "serve", *where, *self._arguments]

    def start(self) -> Self:
        """Start the process and wait until `/readyz` answers 200."""
        assert self._process is None, "the server is running already"
        with self.log_path.open("ab") as log:
            # A process group of its own: what the server starts can be ended with it, however it was ended itself.
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        deadline = time.monotonic() + READY_TIMEOUT
        while not self._is_ready():
            code = _exit_code(self._process, timeout=0.02)
            if code is not None or time.monotonic() > deadline:
                self.kill()
                raise ServerFailedError(f"not ready (exit code {code}): {' '.join(self.command())}\n{self.log_tail()}")
        return self

    def kill(self) -> None:
        """SIGKILL the server and everything that it started, and wait until it is gone."""
        if self._process is None:
            return
        self._kill_group(self._process.pid)
        self._process.wait(timeout=STOP_TIMEOUT)
        self._process = None

    def terminate(self, timeout: float = STOP_TIMEOUT) -> int:
        """SIGTERM the server, as an init system does, and return its exit code."""
        assert self._process is not None, "the server is not running"
        process = self._process
        process.terminate()
        code = _exit_code(process, timeout)
        if code is None:
            self.kill()
            raise ServerFailedError(f"still running {timeout} s after SIGTERM\n{self.log_tail()}")
        self._kill_group(process.pid)
        self._process = None
        return code

    def restart(self) -> Self:
        """Stop the server with SIGTERM if it runs, and start it again on the same port and store."""
        if self._process is not None:
            self.terminate()
        return self.start()

    def log_tail(self, lines: int = 60) -> str:
        """The end of what the server printed, for a failure's message."""
        if not self.log_path.exists():
            return "(no log)"
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        """Start unless started."""
        return self if self._process is not None else self.start()

    def __exit__(self, *exc: object) -> None:
        """Stop without ceremony: a test that cares how the server stops has stopped it already."""
        self.kill()

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    @staticmethod
    def _kill_group(pid: int) -> None:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

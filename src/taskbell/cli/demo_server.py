"""The server of `taskbell demo`: `taskbell serve` as a child process that can be killed and started again."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

READY_SECONDS = 20.0
STOP_SECONDS = 15.0


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ServerFailedError(Exception):
    """The server did not become ready; the message says what it printed."""


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold signals back, so that none falls between a process's start and our knowing of it."""
    noted: list[int] = []
    before = {each: signal.signal(each, lambda number, _frame: noted.append(number)) for each in ENDING_SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    for number in noted:
        signal.raise_signal(number)


class ServerChild:
    """One server on one store; use it in a `with` statement, which ends it whatever happens."""

    def __init__(self, folder: Path, store: str, port: int, server: str) -> None:
        """Prepare only. `folder` takes the log and is where the process runs, so that no `taskbell.toml` is read."""
        self.port = port
        self.log_path = folder / "serve.log"
        self._folder = folder
        self._command = [
            *(sys.executable, "-m", "taskbell", "serve", "--store", store, "--host", "127.0.0.1"),
            *("--port", str(port), "--server", server, "--log-level", "warning"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`HOST:PORT`, as gRPC channels want it."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        """Start, wait until it takes calls, and return how many seconds that took."""
        began = time.monotonic()
        said_before = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log, _uninterrupted():
            # A session of its own: Ctrl-C is for the demo, which ends the server in good order.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while not self._is_ready():
            if self._process.poll() is not None:
                raise ServerFailedError(self._last_words(said_before))
            if time.monotonic() - began > READY_SECONDS:
                raise ServerFailedError(f"the server was not ready after {READY_SECONDS:g} s; see {self.log_path}")
            time.sleep(0.02)
        return time.monotonic() - began

    def kill(self) -> None:
        """SIGKILL, as a power failure would end it, and wait until it is gone."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # It may have ended by itself.
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STOP_SECONDS)
        self._process = None

    def stop(self) -> int | None:
        """SIGTERM, and the exit code; None when it had to be killed."""
        if self._process is None:
            return None
        self._process.terminate()
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def __enter__(self) -> Self:
        """Start; what does not become ready, or is interrupted on the way, is ended as well."""
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        """End it without ceremony."""
        self.kill()

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _last_words(self, start: int) -> str:
        """The server's one clear line, without its prefix, when it gave one."""
        said = self.log_path.read_bytes()[start:].decode(errors="replace").strip().splitlines()
        return said[-1].removeprefix("taskbell: ") if said else "the server ended without a word"

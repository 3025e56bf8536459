"""Child processes: started in their own group, stopped with it, and measured through /proc.

Everything that the benchmarks start goes through `Child`, so that nothing outlives them: a `with` block stops the group
on any way out, Ctrl-C included, and `__main__` turns SIGTERM into the same way out.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ROOT = Path(__file__).resolve().parent.parent


class Unavailable(Exception):
    """A part cannot be measured on this machine; the text says why and how to get what is missing."""


class Failed(Exception):
    """A measurement went wrong; the text says what was seen."""


def say(text: str) -> None:
    """Progress, on stderr, so that stdout carries the tables alone."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def free_port() -> int:
    """A loopback port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_until(holds: Callable[[], bool], timeout: float, what: str, every: float = 0.02) -> None:
    """Poll until the condition holds; fails with a sentence when the time is over."""
    end = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > end:
            msg = f"waited {timeout:.0f} s in vain for {what}"
            raise Failed(msg)
        time.sleep(every)


def wait_for_port(port: int, timeout: float) -> None:
    """Wait until something accepts connections on the loopback port."""

    def open_now() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(open_now, timeout, f"a server on port {port}")


# The groups that run: what an interrupted clean-up (a second Ctrl-C) left is killed at exit.
_LIVE: set[int] = set()


@atexit.register
def kill_left_over() -> None:
    """Kill every group that was not stopped in order."""
    for group in _LIVE:
        signal_group(group, signal.SIGKILL)


class Child:
    """A process in a session of its own: whatever it starts is stopped and measured with it."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
        pipe: bool = False,
    ) -> None:
        self.command = list(command)
        self.log = log
        self.env = {**os.environ, **(env or {})}
        self.cwd = cwd
        self.pipe = pipe

    def __enter__(self) -> Self:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE if self.pipe else subprocess.DEVNULL,
                stdout=subprocess.PIPE if self.pipe else out,
                stderr=out,
                env=self.env,
                cwd=self.cwd,
                start_new_session=True,
            )
        _LIVE.add(self.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process, which also names its group and session."""
        return self.process.pid

    def read_line(self, start: str, timeout: float) -> str:
        """The first line of its output that begins with `start`; fails when the process ends without one."""
        out = self.process.stdout
        assert out is not None, "only a piped child can be read"
        with alarm(timeout, f"{self.command[0]} to print {start!r}"):
            for line in iter(out.readline, b""):
                text = line.decode(errors="replace").strip()
                if text.startswith(start):
                    return text
        msg = f"{' '.join(self.command[:4])} ended without printing {start!r}; see {tail(self.log)}"
        raise Failed(msg)

    def stop(self, grace: float = 10) -> None:
        """Ask the group to end, wait, and then make it."""
        for pipe in (self.process.stdin, self.process.stdout):
            close(pipe)
        if self.process.poll() is None:
            signal_group(self.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace)
        signal_group(self.pid, signal.SIGKILL)
        self.process.wait()
        _LIVE.discard(self.pid)

    def usage(self) -> Usage | None:
        """CPU time and peak memory of its whole session; None where there is no /proc."""
        return session_usage(self.pid)


def close(pipe: IO[bytes] | None) -> None:
    """Close a pipe whose other end may be gone."""
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal a process group that may have ended already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def tail(log: Path, lines: int = 5) -> str:
    """The last lines of a log, for an error's sentence."""
    text = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return " | ".join(text[-lines:]) or "(an empty log)"


@contextlib.contextmanager
def alarm(timeout: float, what: str) -> Iterator[None]:
    """Bound a blocking read by the process's alarm clock (main thread only)."""

    def ring(_number: int, _frame: object) -> None:
        msg = f"waited {timeout:.0f} s in vain for {what}"
        raise Failed(msg)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a session has used so far: CPU seconds, and the sum of its processes' peak resident memory in MB."""

    cpu_s: float
    peak_mb: float


def session_usage(session: int) -> Usage | None:
    """Add up every process of a session."""
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    cpu = peak_kb = 0.0
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        # A process may end between the listing and the reading.
        with contextlib.suppress(OSError, ValueError):
            # The command is in brackets and may hold spaces: fields are counted after the closing one.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) != session:
                continue
            cpu += (int(fields[11]) + int(fields[12])) / ticks
            peak_kb += resident_peak_kb((folder / "status").read_text())
    return Usage(cpu, peak_kb / 1024)


def resident_peak_kb(status: str) -> float:
    """VmHWM of a /proc status page; 0 for a process that has no memory of its own any more."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1])
    return 0.0


def run(command: Sequence[str], log: Path, timeout: float, *, cwd: Path = ROOT) -> str:
    """Run a command to its end, in its own group, and return what it printed; fails with the end of its log."""
    started = time.monotonic()
    with Child(command, log, cwd=cwd, pipe=True) as child:
        assert child.process.stdout is not None
        assert child.process.stdin is not None
        child.process.stdin.close()
        with alarm(timeout, f"{' '.join(command[:4])} to end"):
            printed = child.process.stdout.read().decode(errors="replace")
            code = child.process.wait()
    if code != 0:
        spent = time.monotonic() - started
        msg = f"{' '.join(command[:4])} failed with {code} after {spent:.0f} s: {tail(log)}"
        raise Failed(msg)
    return printed

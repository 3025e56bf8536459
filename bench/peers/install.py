"""Install what the peers need into the benchmark's own folder, away from the project and the system's Python.

The exception is what comes from Debian (`redis-server`, `nghttp2-client`): installed with apt when running as root,
otherwise the parts that need it are skipped with the command that would install it.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path

from bench.place import Place
from bench.processes import Failed, Unavailable, run, say

# Scripts that run in the peers' own environments, so they import nothing of the project. They are kept in a folder of
# their own because Python puts a script's folder on its path, and ours has a celery.py.
ROLES = Path(__file__).with_name("roles")


def tool(place: Place, program: str, package: str) -> str:
    """The path of a system program, installing its Debian package when that is possible."""
    if not shutil.which(program):
        install_debian(place, package)
    found = shutil.which(program)
    if not found:
        msg = f"{program} is not on the PATH; on Debian: apt-get install {package}"
        raise Unavailable(msg)
    return found


def install_debian(place: Place, package: str) -> None:
    """Install a Debian package as root, without letting it start a service."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        msg = f"{package} is not installed; as root on Debian: apt-get install {package}"
        raise Unavailable(msg)
    say(f"apt-get install {package}")
    # RUNLEVEL=1 makes invoke-rc.d start nothing: the benchmarks run their own servers on their own ports.
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "-qq", "-y"]
    attempt(place, [*apt, "update"], 120)
    attempt(place, [*apt, "install", "--no-install-recommends", package], 300)


def attempt(place: Place, command: list[str], timeout: float, cwd: Path | None = None) -> None:
    """Run an install step; a failure makes the part unavailable instead of ending the benchmark."""
    try:
        run(command, place.log("install"), timeout, cwd=cwd or place.folder)
    except (Failed, OSError) as error:
        raise Unavailable(str(error)) from error


@functools.cache
def node_modules(place: Place, *packages: str) -> Path:
    """A folder whose `node_modules` holds the packages; scripts copied into it find them."""
    if not shutil.which("node") or not shutil.which("npm"):
        msg = "node and npm are not on the PATH; install Node.js 20 or newer"
        raise Unavailable(msg)
    folder = place.folder / "node"
    folder.mkdir(exist_ok=True)
    missing = [name for name in packages if not (folder / "node_modules" / name).exists()]
    if missing:
        say(f"npm install {' '.join(missing)}")
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        attempt(place, ["npm", "install", "--prefix", str(folder), *quiet, *packages], 300, folder)
    return folder


def node_script(place: Place, name: str) -> Path:
    """A script of ours, copied to where its imports resolve."""
    copy = place.folder / "node" / name
    shutil.copyfile(ROLES / name, copy)
    return copy


@functools.cache
def python_environment(place: Place, name: str, *packages: str) -> Path:
    """The interpreter of a virtual environment of its own that holds the packages."""
    folder = place.folder / name
    python = folder / "bin" / "python"
    done = folder / "installed"
    if not done.exists():
        say(f"pip install {' '.join(packages)}")
        attempt(place, [sys.executable, "-m", "venv", str(folder)], 120)
        attempt(place, [str(python), "-m", "pip", "install", "--quiet", *packages], 600)
        done.write_text("\n".join(packages))
    return python


def python_versions(place: Place, python: Path, *packages: str) -> str:
    """The installed versions, for the settings that are printed."""
    code = "import sys, importlib.metadata as m; print(*(f'{p} {m.version(p)}' for p in sys.argv[1:]), sep=', ')"
    return run([str(python), "-c", code, *packages], place.log("install"), 30).strip()

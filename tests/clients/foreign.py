"""Tools and programs of other languages: find them, install what they need once, run them, read what they print."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

HERE = Path(__file__).parent
NODE = HERE / "node"
GO = HERE / "go"
# The first build of the Go client compiles all of gRPC.
BUILD_TIMEOUT = 600
PLAY_TIMEOUT = 90


def tool(name: str, advice: str) -> str:
    """The path of a tool. Without it the test is skipped with the advice; in CI, where it must be, the test fails."""
    found = shutil.which(name)
    if found is None:
        sentence = f"{name} is not on PATH: {advice}"
        if os.environ.get("CI"):
            pytest.fail(sentence)
        pytest.skip(sentence)
    return found


class Givens(Protocol):
    """What a scenario gives to its drivers."""

    def as_json(self) -> str:
        """The form in which foreign drivers take it."""


def play_node(transport: str, given: Givens, facts: dict[str, Any], script: str = "scenario.mjs") -> None:
    """Play a scenario with Node, over "grpc" or "rest"."""
    node = install_node_modules()
    _play([node, script, transport, given.as_json()], NODE, facts)


def play_go(transport: str, given: Givens, facts: dict[str, Any], scenario: str = "tasks") -> None:
    """Build the Go driver (quick when the build cache is warm) and play a scenario over "grpc" or "rest"."""
    go = tool("go", "install Go 1.26 or newer from your system's packages or go.dev.")
    built = GO / "build"
    built.mkdir(exist_ok=True)
    program = built / "scenario"
    environment = os.environ | {"GOFLAGS": "-mod=mod -buildvcs=false"}
    with _alone(built):
        _run([go, "build", "-o", str(program), "."], GO, BUILD_TIMEOUT, environment)
    _play([str(program), scenario, transport, given.as_json()], GO, facts)


def install_node_modules() -> str:
    """The path of node, once the packages that `package.json` pins are in place."""
    node = tool("node", "install Node.js 20 or newer, with npm, from your system's packages or nodejs.org.")
    npm = tool("npm", "install npm, which comes with Node.js.")
    modules = NODE / "node_modules"
    stamp = modules / ".installed"
    wanted = (NODE / "package.json").read_text()
    modules.mkdir(exist_ok=True)
    with _alone(modules):
        if not stamp.exists() or stamp.read_text() != wanted:
            quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
            _run([npm, "install", *quiet], NODE, BUILD_TIMEOUT, dict(os.environ))
            stamp.write_text(wanted)
    return node


def run_node(script: str, *arguments: str) -> str:
    """What a script beside `package.json` prints; it must succeed."""
    return _run([install_node_modules(), script, *arguments], NODE, PLAY_TIMEOUT, dict(os.environ))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep two test runs in one checkout from installing into one folder at once."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], folder: Path, timeout: float, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, (
        f"{command[:3]} exited {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


def _play(command: list[str], folder: Path, facts: dict[str, Any]) -> None:
    """Run a driver and gather its facts; also those that it printed before it failed."""
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PLAY_TIMEOUT, check=False
    )
    for line in done.stdout.splitlines():
        step = json.loads(line)
        facts[step["step"]] = step["fact"]
    assert done.returncode == 0, f"the driver exited {done.returncode}:\n{done.stderr[-4000:]}"

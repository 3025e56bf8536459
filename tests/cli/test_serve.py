"""`taskbell serve` as a process: how it starts, what it refuses in one line, how it ends."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from taskbell import __version__
from taskbell.cli.main import taskbell
from taskbell.settings import CONFIG_FILE
from taskbell.testing.handler import Answer, ScriptedHandler, Wire, response, stall
from tests.support.server import ServerProcess, free_port

PARENT = "projects/p/locations/us-central1"
SERVERS = ("pyvoy", "hypercorn")


def command(*arguments: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "taskbell", "serve", *arguments]


def refusal(
    folder: Path,
    *arguments: str,
    environment: dict[str, str] | None = None,
    before_exec: Callable[[], None] | None = None,
) -> str:
    """What a start that fails says: one line on stderr, nothing on stdout, and not exit code 0."""
    done = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=before_exec,
    )
    assert (done.returncode, done.stdout) == (1, ""), done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("taskbell: ")
    return line.removeprefix("taskbell: ")


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and the first line that it printed."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


def call(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """A REST call: GET, or POST with a body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return dict(json.load(answer))


# --- Ready ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_says_when_and_where_it_is_ready(tmp_path: Path, host: str, server: str) -> None:
    """One line on stdout with version, address and store; calls work as soon as it is out; SIGTERM ends it with 0."""
    port = free_port()
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    with serving(tmp_path, "--host", host, "--port", str(port), "--server", server) as (process, line):
        readiness = urllib.request.urlopen(f"{url}/readyz", timeout=20).read()
        places = call(f"{url}/v2/projects/p/locations")
        process.terminate()
        rest, err = process.communicate(timeout=30)

    where = f"{url} (gRPC and REST), store sqlite:taskbell.db, metrics at {url}/metrics"
    assert line == f"Taskbell {__version__} is ready at {where}\n"
    assert readiness == b"ready\n"
    assert places["locations"][0]["locationId"] == "us-central1"
    slower = "taskbell: serving with hypercorn, which is slower than pyvoy\n"
    assert (process.returncode, rest, err) == (0, "", slower if server == "hypercorn" else "")
    assert (tmp_path / "taskbell.db").exists()


def test_takes_settings_from_the_file_in_its_folder(tmp_path: Path) -> None:
    """`taskbell.toml` of the current folder, then the environment, then the flags."""
    port = free_port()
    (tmp_path / CONFIG_FILE).write_text(f'port = {port}\nstore = "sqlite:from-file.db"\nlocations = ["eu-1", "eu-2"]\n')

    with serving(tmp_path, "--store", "memory:") as (_, line):
        places = call(f"http://127.0.0.1:{port}/v2/projects/p/locations")

    assert "store memory:" in line
    assert [each["locationId"] for each in places["locations"]] == ["eu-1", "eu-2"]


def test_ctrl_c_ends_it_in_good_order(tmp_path: Path) -> None:
    """SIGINT is as good as SIGTERM."""
    with serving(tmp_path, "--port", str(free_port()), "--store", "memory:") as (process, _):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

    assert process.returncode == 0


# --- Ending -----------------------------------------------------------------------------------------------------------


def create_task(server: ServerProcess, url: str) -> str:
    """A queue with one task for `url`; returns the task's name."""
    call(f"{server.url}/v2/{PARENT}/queues", {"name": f"{PARENT}/queues/q"})
    task = call(f"{server.url}/v2/{PARENT}/queues/q/tasks", {"task": {"httpRequest": {"url": url}}})
    return str(task["name"])


def waiting(server: ServerProcess) -> list[str]:
    """Names of the tasks that the queue holds."""
    listed = call(f"{server.url}/v2/{PARENT}/queues/q/tasks")
    return [each["name"] for each in listed.get("tasks", [])]


@pytest.mark.parametrize("server", SERVERS)
async def test_sigterm_lets_attempts_end_within_the_grace(tmp_path: Path, server: str) -> None:
    """An attempt that is out when SIGTERM comes is answered, settled and not made again; the exit code is 0."""
    answering = asyncio.Event()

    async def act(wire: Wire) -> None:
        await answering.wait()
        await wire.send(response(200))

    async with ScriptedHandler() as handler:
        handler.script("/slow", Answer(act))
        with ServerProcess(tmp_path, "--server", server) as running:
            await asyncio.to_thread(create_task, running, f"{handler.url}/slow")
            await handler.wait_for(1, "/slow", timeout=20)
            ending = asyncio.create_task(asyncio.to_thread(running.terminate))
            with pytest.raises(TimeoutError):  # It waits for the answer as long as there is none.
                await asyncio.wait_for(asyncio.shield(ending), 1)
            answering.set()
            assert await ending == 0

            await asyncio.to_thread(running.start)
            assert await asyncio.to_thread(waiting, running) == []
        assert len(handler.received("/slow")) == 1


@pytest.mark.parametrize("server", SERVERS)
async def test_sigterm_keeps_what_does_not_end_within_the_grace(tmp_path: Path, server: str) -> None:
    """An attempt that outlasts the grace is cut, and its task stays and is delivered after the next start."""
    async with ScriptedHandler() as handler:
        handler.script("/stuck", stall())
        with ServerProcess(tmp_path, "--server", server, "--grace", "300ms") as running:
            name = await asyncio.to_thread(create_task, running, f"{handler.url}/stuck")
            await handler.wait_for(1, "/stuck", timeout=20)
            assert await asyncio.to_thread(running.terminate) == 0

            await asyncio.to_thread(running.start)
            assert await asyncio.to_thread(waiting, running) == [name]
            await handler.wait_for(2, "/stuck", timeout=20)


# --- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", SERVERS)
def test_refuses_a_port_that_is_taken(tmp_path: Path, server: str) -> None:
    """Also by a server that would share it, as Envoy does by itself."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        port = taken.getsockname()[1]

        said = refusal(tmp_path, "--port", str(port), "--server", server)

    assert said == f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port"
    assert list(tmp_path.iterdir()) == []


def test_refuses_what_a_running_server_holds(tmp_path: Path) -> None:
    """Neither its port nor its store is shared."""
    with ServerProcess(tmp_path) as running:
        same_port = refusal(tmp_path, "--port", str(running.port), "--store", "memory:")
        same_store = refusal(tmp_path, "--port", str(free_port()), "--store", f"sqlite:{running.store}")

    assert same_port.startswith(f"cannot listen on 127.0.0.1 port {running.port}: ")
    assert str(running.store) in same_store
    assert "in use" in same_store


def obey_permissions() -> None:
    """Take away what lets root write anywhere; an ordinary user has none of it to lose."""
    if os.geteuid() == 0:
        drop_from_bounding_set, override, read_search = 24, 1, 2
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (override, read_search):
            if libc.prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
                os._exit(99)


def test_refuses_a_folder_that_it_may_not_write(tmp_path: Path) -> None:
    """The line names the file."""
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)

    said = refusal(
        tmp_path, "--store", f"sqlite:{locked}/t.db", "--port", str(free_port()), before_exec=obey_permissions
    )

    assert said.startswith(f"The store {locked}/t.db cannot be opened: ")


def test_refuses_a_file_that_it_may_not_write(tmp_path: Path) -> None:
    """A store that can only be read would lose what it acknowledges."""
    with ServerProcess(tmp_path) as once:
        store = once.store
        assert once.terminate() == 0
    store.chmod(0o444)

    said = refusal(tmp_path, "--store", f"sqlite:{store}", "--port", str(free_port()), before_exec=obey_permissions)

    assert str(store) in said


@pytest.mark.parametrize("what", ["missing/t.db", "file/t.db", "folder"])
def test_refuses_a_store_that_cannot_be_a_file(tmp_path: Path, what: str) -> None:
    """A folder that is not there, a file in place of the folder, a folder in place of the file."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()

    said = refusal(tmp_path, "--store", f"sqlite:{tmp_path / what}", "--port", str(free_port()))

    assert said.startswith(f"The store {tmp_path / what} cannot be opened: ")


def test_refuses_a_file_that_is_no_database(tmp_path: Path) -> None:
    """And leaves it as it was."""
    text = "Dear diary, this is not a database. " * 100
    (tmp_path / "diary").write_text(text)

    said = refusal(tmp_path, "--store", "sqlite:diary", "--port", str(free_port()))

    assert said == "diary is not a Taskbell store: it is not an SQLite database."
    assert (tmp_path / "diary").read_text() == text


def test_refuses_somebody_elses_database(tmp_path: Path) -> None:
    """An SQLite file of another program is not written to."""
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.commit()
    connection.close()

    said = refusal(tmp_path, "--store", "sqlite:other.db", "--port", str(free_port()))

    assert said.startswith("other.db is not a Taskbell store")


def test_refuses_a_newer_schema(tmp_path: Path) -> None:
    """A store that a newer Taskbell has moved on is left to it."""
    with ServerProcess(tmp_path) as once:
        store = once.store
        assert once.terminate() == 0
    connection = sqlite3.connect(store)
    connection.execute("PRAGMA user_version = 9999")
    connection.close()

    said = refusal(tmp_path, "--store", f"sqlite:{store}", "--port", str(free_port()))

    assert said.startswith(f"The store {store} has schema 9999, made by a newer Taskbell")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--port", "abc"), "--port is 'abc': expected a number"),
        (("--port", "0"), "--port is '0': expected a whole number from 1 to 65535"),
        (("--grace", "10"), "--grace is '10': expected a number with a unit, such as 250ms, 30s, 10m, 24h or 7d"),
        (("--log-level", "loud"), "--log-level is 'loud': expected one of debug, info, warning, error"),
        (("--server", "apache"), "--server is 'apache': expected one of auto, pyvoy, hypercorn"),
        (("--store", "redis:x"), "No engine is known for the store 'redis:x'; accepted are: memory:, sqlite:PATH."),
        (("--store", "sqlite:"), "The store sqlite: needs a file, as in sqlite:taskbell.db."),
        (("--config", "none.toml"), "none.toml cannot be read: No such file or directory"),
    ],
)
def test_refuses_wrong_flags(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """Which one, what it was, and what was expected."""
    assert refusal(tmp_path, *arguments) == said


def test_refuses_an_unknown_flag(tmp_path: Path) -> None:
    """In the way of all commands: usage and the nearest flag, exit code 2."""
    done = subprocess.run(command("--prot", "1"), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert "No such option '--prot'" in done.stderr
    assert "--port" in done.stderr


def test_refuses_wrong_values_of_the_environment_and_the_file(tmp_path: Path) -> None:
    """The line says which of them is wrong."""
    (tmp_path / "bad.toml").write_text("prot = 1\n")

    from_environment = refusal(tmp_path, environment={"TASKBELL_PORT": "x"})
    from_file = refusal(tmp_path, "--config", "bad.toml")

    assert from_environment == "environment variable TASKBELL_PORT is 'x': expected a number"
    assert from_file.startswith("bad.toml: there is no setting 'prot'; expected one of ")


def test_refuses_to_let_strangers_in(tmp_path: Path) -> None:
    """An address that others reach needs --insecure, and has what it asked for with it."""
    port = free_port()

    said = refusal(tmp_path, "--host", "0.0.0.0", "--port", str(port))

    assert said.startswith("host '0.0.0.0' is not a loopback address and callers are not checked: pass --insecure")
    with serving(tmp_path, "--host", "0.0.0.0", "--port", str(port), "--store", "memory:", "--insecure") as (_, line):
        assert f"is ready at http://0.0.0.0:{port} " in line


def test_localhost_is_an_address(tmp_path: Path) -> None:
    """A name of this machine works as its address does."""
    port = free_port()

    with serving(tmp_path, "--host", "localhost", "--port", str(port), "--store", "memory:") as (_, line):
        assert re.search(rf"is ready at http://\S+:{port} ", line)


# --- Help -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], *([name] for name in sorted(taskbell.commands))])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_explains_itself(words: list[str], flag: str, tmp_path: Path) -> None:
    """Help is printed, and nothing else happens."""
    done = subprocess.run(
        [sys.executable, "-m", "taskbell", *words, flag],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: taskbell {' '.join([*words, ''])}[OPTIONS]")
    assert list(tmp_path.iterdir()) == []


def test_says_its_version(tmp_path: Path) -> None:
    """`--version` prints it."""
    done = subprocess.run([sys.executable, "-m", "taskbell", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"taskbell, version {__version__}\n"

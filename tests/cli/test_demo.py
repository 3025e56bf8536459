"""`taskbell demo` as a person runs it: real processes, few tasks."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.server import ServerProcess

QUICK = ("--tasks", "20")
PROMISES = (
    "ok    20 of 20 acknowledged tasks were delivered",
    "ok    0 tasks are left in the queue",
    "ok    0 of 2 tasks that were scheduled for later came too early",
    "names of finished tasks are refused when used again",
    "ok    each delivery of one task carried the same Idempotency-Key",
)


def begin(folder: Path, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """The demo in a session of its own, with its temporary folders under `folder`."""
    return subprocess.Popen(
        [sys.executable, "-m", "taskbell", "demo", *arguments],
        env=os.environ | {"TMPDIR": str(folder)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The demo, to its end."""
    process = begin(folder, *arguments)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def servers(said: str) -> list[int]:
    """The process ids of the servers that the demo said it started."""
    return [int(pid) for pid in re.findall(r"\(pid (\d+)\)", said)]


def is_running(pid: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_tells_a_whole_story_and_leaves_nothing(tmp_path: Path) -> None:
    """The server is killed on the way, every promise is checked, and neither process nor folder remains."""
    done = run(tmp_path, *QUICK)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert [each for each in PROMISES if each not in done.stdout] == []
    assert "FAIL" not in done.stdout
    first, second = servers(done.stdout)
    assert f"kill -9 {first}: the server is gone" in done.stdout
    assert not is_running(second)
    assert list(tmp_path.iterdir()) == []
    assert "127.0.0.1:8123" in done.stdout


def test_runs_with_closed_stdin(tmp_path: Path) -> None:
    """A closed standard input, as some supervisors leave it, is nothing special."""
    command = [sys.executable, "-m", "taskbell", "demo", "--tasks", "5", "--no-crash"]
    closed = f"exec {' '.join(command)} <&-"

    done = subprocess.run(["sh", "-c", closed], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "5 of 5 acknowledged tasks were delivered" in done.stdout


def test_shows_a_bar_on_a_terminal(tmp_path: Path) -> None:
    """A terminal sees a bar that moves; the story and the promises stay as lines."""
    ours, theirs = pty.openpty()
    process = begin(tmp_path, "--tasks", "5", "--no-crash", stdout=theirs)
    os.close(theirs)

    shown = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # How Linux says that the other side has closed.
            break
        if not more:
            break
        shown += more
    os.close(ours)

    assert process.wait(timeout=60) == 0
    assert process.communicate()[1] == ""
    assert "━".encode() in shown
    assert b"5 of 5 acknowledged tasks were delivered" in shown


def test_works_on_hypercorn_and_in_memory(tmp_path: Path) -> None:
    """The other server, and a store that would not survive a kill."""
    done = run(tmp_path, "--tasks", "5", "--no-crash", "--store", "memory:", "--server", "hypercorn")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "kill -9" not in done.stdout


def test_keeps_a_store_that_serves_again(tmp_path: Path) -> None:
    """`--store` names a file that stays; a second demo finds its names taken and goes on with another queue."""
    store = tmp_path / "kept.db"

    first = run(tmp_path, "--tasks", "5", "--no-crash", "--store", "sqlite:kept.db")
    second = run(tmp_path, "--tasks", "5", "--no-crash", "--store", f"sqlite:{store}")

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "queues/demo\n" in first.stdout
    assert "queues/demo-2\n" in second.stdout
    assert f"serve --store sqlite:{store}" in first.stdout
    assert [path for path in tmp_path.iterdir() if path.name.startswith("taskbell-demo")] == []


def test_keeps_its_folder_when_asked(tmp_path: Path) -> None:
    """`--keep` leaves the store and the server's log, and says where."""
    done = run(tmp_path, "--tasks", "5", "--no-crash", "--keep")

    (folder,) = tmp_path.iterdir()
    assert done.returncode == 0, done.stderr
    assert {"taskbell.db", "serve.log"} <= {path.name for path in folder.iterdir()}
    assert f"serve --store sqlite:{folder}/taskbell.db" in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_cleans_up_when_interrupted(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C, an init system and a closed terminal end it in good order."""
    process = begin(tmp_path, "--tasks", "200")
    assert process.stdout is not None
    said = ""
    while "created the queue" not in said:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        said += line

    process.send_signal(number)
    rest, err = process.communicate(timeout=30)

    assert process.returncode == code
    assert err == "taskbell demo: interrupted; the server is stopped\n"
    assert [pid for pid in servers(said + rest) if is_running(pid)] == []
    assert list(tmp_path.iterdir()) == []


def running_under(folder: Path) -> list[int]:
    """Processes whose temporary folder is this one: the demo and what it has started."""
    wanted = f"TMPDIR={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes through /proc: run it on Linux")
def test_cleans_up_when_interrupted_before_the_server_is_ready(tmp_path: Path) -> None:
    """The server is a process of its own from its first moment on."""
    process = begin(tmp_path, "--tasks", "200")
    waiting = threading.Event()
    while len(running_under(tmp_path)) < 2:
        assert process.poll() is None
        waiting.wait(0.005)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, out) == (130, "")
    assert err == "taskbell demo: interrupted; the server is stopped\n"
    assert running_under(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_ignores_proxies_and_settings_of_its_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a proxy nor a settings file of the current folder is its business."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("grpc_proxy", "http://127.0.0.1:9")
    (tmp_path / "taskbell.toml").write_text("not even TOML")

    done = run(tmp_path, "--tasks", "5", "--no-crash")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_says_that_its_port_is_taken(tmp_path: Path) -> None:
    """The server's own clear line comes through, once."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = run(tmp_path, *QUICK, "--port", str(port))

    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"taskbell demo: cannot listen on 127\.0\.0\.1 port {port}: .+\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_says_that_its_store_is_in_use(tmp_path: Path) -> None:
    """A store that another server holds is refused by name."""
    with ServerProcess(tmp_path) as server:
        done = run(tmp_path, *QUICK, "--store", f"sqlite:{server.store}")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("taskbell demo: ")
    assert str(server.store) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--tasks", "0"), "0 is not in the range"),
        (("--tasks", "many"), "'many' is not a valid integer"),
        (("--port", "70000"), "70000 is not in the range"),
        (("--failure-rate", "1"), "1.0 is not in the range"),
        (("--server", "apache"), "'apache' is not one of"),
        (("--store", "memory:"), "a store in memory does not survive a kill: add --no-crash, or leave out --store"),
    ],
)
def test_refuses_wrong_options(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    """What cannot work is refused before anything is started."""
    done = run(tmp_path, *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr

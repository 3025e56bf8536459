"""Every snippet of README.md does what it says, against a real server and a real handler."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clients.foreign import install_node_modules, tool
from tests.docs.blocks import ROOT, Block, blocks, read_hcl
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess, free_port

PAGE = ROOT / "README.md"
SERVER = "127.0.0.1:8123"
HANDLER = "http://127.0.0.1:8080"
QUEUES = "projects/my-project/locations/us-central1/queues"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server that the snippets talk to."""
    with ServerProcess(tmp_path_factory.mktemp("readme")) as running:
        yield running


@pytest.fixture(scope="module")
def handler() -> Iterator[Receiver]:
    """The handler of the snippets."""
    with Receiver() as running:
        yield running


def block(heading: str) -> Block:
    """The one block under a heading."""
    (found,) = (each for each in blocks(PAGE) if each.heading == heading)
    return found


def placed(text: str, server: ServerProcess, handler: Receiver) -> str:
    """A snippet with the addresses of this test in place of those that it names."""
    assert HANDLER in text
    return text.replace(HANDLER, handler.url).replace(SERVER, server.address)


def run(command: list[str], environment: dict[str, str], folder: Path) -> str:
    """What a program prints; it must succeed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block_is_run_by_a_test_of_this_file() -> None:
    """A new snippet needs a test; this is the list of those that have one."""
    assert [(each.heading, each.language) for each in blocks(PAGE)] == [
        ("Try it", "sh"),
        ("Run it", "sh"),
        ("Python, gRPC", "python"),
        ("Python, asyncio", "python"),
        ("Python, REST", "python"),
        ("Node", "js"),
        ("gcloud", "sh"),
        ("Terraform", "hcl"),
    ]


def test_the_first_commands_are_targets() -> None:
    """They are known to make; what they do has tests of its own (running the tests from a test would not end)."""
    commands = block("Try it").text.splitlines()

    assert commands == ["make demo", "make test"]
    for command in commands:
        done = subprocess.run([*command.split(), "-n"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_serve_command_serves_where_it_says(tmp_path: Path) -> None:
    """As typed, but for the interpreter, the folder and the port."""
    (command,) = block("Run it").text.splitlines()
    assert command == ".venv/bin/taskbell serve"
    port = free_port()

    process = subprocess.Popen(
        [sys.executable, "-m", "taskbell", *command.split()[1:]],
        env=os.environ | {"TASKBELL_PORT": str(port)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
    finally:
        process.terminate()
        process.communicate(timeout=30)

    assert f"is ready at http://127.0.0.1:{port} (gRPC and REST), store sqlite:taskbell.db" in line
    assert (tmp_path / "taskbell.db").exists()


@pytest.mark.parametrize(
    ("heading", "path"),
    [
        ("Python, gRPC", "/python-grpc"),
        ("Python, asyncio", "/python-asyncio"),
        ("Python, REST", "/python-rest"),
    ],
)
def test_python(heading: str, path: str, server: ServerProcess, handler: Receiver, tmp_path: Path) -> None:
    """The snippet prints the task's name, and the handler gets the task."""
    program = placed(block(heading).text, server, handler)

    printed = run([sys.executable, "-c", program], dict(os.environ), tmp_path)

    (received,) = handler.wait(path, 1)
    assert (received.method, received.body) == ("POST", b"hello")
    assert printed == f"{QUEUES}{path}/tasks/{received.header('X-CloudTasks-TaskName')}\n"


def test_node(server: ServerProcess, handler: Receiver, tmp_path: Path) -> None:
    """The same through Google's Node client."""
    node = install_node_modules()
    (tmp_path / "node_modules").symlink_to(ROOT / "tests" / "clients" / "node" / "node_modules")
    text = block("Node").text
    assert 'apiEndpoint: "127.0.0.1"' in text
    assert "port: 8123," in text
    text = text.replace("port: 8123,", f"port: {server.port},")
    (tmp_path / "snippet.mjs").write_text(placed(text, server, handler))

    printed = run([node, "snippet.mjs"], dict(os.environ), tmp_path)

    (received,) = handler.wait("/node", 1)
    assert received.body == b"hello"
    assert printed == f"{QUEUES}/node/tasks/{received.header('X-CloudTasks-TaskName')}\n"


def test_gcloud(server: ServerProcess, handler: Receiver, tmp_path: Path) -> None:
    """As typed into a shell, with a configuration of its own that has never seen a login."""
    tool("gcloud", "install the Google Cloud CLI from cloud.google.com/sdk or your system's packages.")
    quiet = {
        "CLOUDSDK_CONFIG": str(tmp_path),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    }
    script = "set -eu\n" + placed(block("gcloud").text, server, handler)

    printed = run(["sh", "-c", script], {**os.environ, **quiet}, tmp_path)

    (received,) = handler.wait("/gcloud", 1)
    assert received.body == b"hello"
    assert f"name: {QUEUES}/gcloud" in printed
    assert "maxAttempts: 5" in printed


def test_terraform(server: ServerProcess) -> None:
    """What the block asks for is what the provider's requests create, read back and destroy.

    The provider itself is a download of its own; its sequence of requests is that of tests/clients/test_terraform.py.
    """
    page = read_hcl(block("Terraform").text)
    provider, queue = page["provider google"], page["resource google_cloud_tasks_queue errands"]
    assert provider.keys() == {"project", "access_token", "cloud_tasks_custom_endpoint"}
    assert provider["cloud_tasks_custom_endpoint"] == f"http://{SERVER}/v2/"
    endpoint = urlsplit(provider["cloud_tasks_custom_endpoint"].replace(SERVER, server.address))
    parent = f"projects/{provider['project']}/locations/{queue['location']}"
    wanted: dict[str, Any] = {
        "name": f"{parent}/queues/{queue['name']}",
        "rateLimits": _camel(queue["rate_limits"]),
        "retryConfig": _camel(queue["retry_config"]),
    }
    # The provider's schema for this resource: what it does not know, terraform refuses.
    assert queue.keys() == {"name", "location", "rate_limits", "retry_config"}
    assert wanted["rateLimits"].keys() <= {"maxDispatchesPerSecond", "maxConcurrentDispatches"}
    known = {"maxAttempts", "maxRetryDuration", "minBackoff", "maxBackoff", "maxDoublings"}
    assert wanted["retryConfig"].keys() <= known

    def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(endpoint.netloc, timeout=10)
        content = None if body is None else json.dumps(body)
        connection.request(method, f"{endpoint.path}{path}?alt=json", content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        status, said = answer.status, json.loads(answer.read())
        connection.close()
        return status, said

    status, created = ask("POST", f"{parent}/queues", wanted)
    assert status == 200, created
    for group in ("rateLimits", "retryConfig"):
        assert wanted[group].items() <= created[group].items()
    assert ask("GET", wanted["name"]) == (200, created)
    assert ask("DELETE", wanted["name"]) == (200, {})
    assert ask("GET", wanted["name"])[0] == 404


def _camel(settings: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("_(.)", lambda found: found[1].upper(), key): value for key, value in settings.items()}


def test_never_promises_what_no_network_can_keep() -> None:
    """At least once is what is said."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split())

    assert "at least once" in text
    assert re.search(r"exactly[\s-]+once", text, re.IGNORECASE) is None

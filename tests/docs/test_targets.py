"""The pages on App Engine and Pub/Sub targets: their settings are taken, and their commands do what is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from taskbell.settings import resolve
from tests.clients.foreign import tool
from tests.docs.blocks import ROOT, blocks
from tests.support.pubsub import Message, pubsub_emulator
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

APP_ENGINE = ROOT / "docs" / "how-to" / "app-engine-targets.md"
PUBSUB = ROOT / "docs" / "how-to" / "pubsub-targets.md"
SERVER = "127.0.0.1:8123"
EMULATOR = "127.0.0.1:8085"


def texts(page: Path) -> list[str]:
    """The blocks of a page, in order."""
    return [each.text for each in blocks(page)]


def shell(script: str, folder: Path) -> None:
    """Run a block as typed, with a gcloud that has never seen a login."""
    tool("gcloud", "install the Google Cloud CLI from cloud.google.com/sdk or your system's packages.")
    tool("curl", "install curl from your system's packages.")
    environment = {
        **os.environ,
        "CLOUDSDK_CONFIG": str(folder),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    }
    done = subprocess.run(
        ["sh", "-c", "set -eu\n" + script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_app_engine_targets(tmp_path: Path) -> None:
    """The page's mapping, with the address of this test's handler; the task arrives where the page says."""
    toml, commands = texts(APP_ENGINE)
    assert SERVER in commands
    with Receiver() as handler:
        address = "http://127.0.0.1:8082"
        assert toml.count(address) == 1
        config = tmp_path / "some.toml"
        config.write_text(toml.replace(address, handler.url))
        with ServerProcess(tmp_path, "--config", str(config)) as server:
            shell(commands.replace(SERVER, server.address), tmp_path)
            (received,) = handler.wait("/v2/tasks/report", 1)

    assert (received.method, received.body) == ("POST", b"hello")
    assert received.header("X-AppEngine-QueueName") == "reports"


def test_the_wildcard_of_the_page_is_taken(tmp_path: Path) -> None:
    """It stands in the text, and in no block."""
    entry = "*=http://{service}.internal:8080"
    assert f"`{entry}`" in APP_ENGINE.read_text(encoding="utf-8")
    config = tmp_path / "some.toml"
    config.write_text(f'app_engine = ["{entry}"]\n')

    assert resolve({}, config).app_engine == (entry,)


def test_pubsub_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator is found by its variable, and gets what the page's job publishes."""
    toml, serve, commands = texts(PUBSUB)
    config = tmp_path / "some.toml"
    config.write_text(toml)
    assert resolve({"pubsub_emulator_host": ""}, config).pubsub_url == "https://us-central1-pubsub.googleapis.com"
    assert serve == f"PUBSUB_EMULATOR_HOST={EMULATOR} taskbell serve\n"
    assert SERVER in commands
    assert EMULATOR in commands
    subscription = "projects/my-project/subscriptions/nightly"
    with pubsub_emulator(tmp_path) as emulator:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", emulator.address)
        create_topic, rest = commands.split("gcloud scheduler jobs create", 1)
        with ServerProcess(tmp_path) as server:

            def placed(script: str) -> str:
                return script.replace(SERVER, server.address).replace(EMULATOR, emulator.address)

            shell(placed(create_topic), tmp_path)
            # A subscription gets what is published after it was made.
            emulator.subscribe("projects/my-project/topics/nightly", subscription)
            variables = "\n".join(line for line in create_topic.splitlines() if line.startswith("export "))
            shell(placed(f"{variables}\ngcloud scheduler jobs create{rest}"), tmp_path)

        assert emulator.pull(subscription, 10) == [Message(b"hello", {"kind": "backup"})]

"""Google's Pub/Sub emulator as a process of its own, and the few calls that a test makes of it.

It comes with gcloud (`gcloud components install pubsub-emulator`, or a package of that name) and runs on Java.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import free_port
from tests.support.waiting import wait_until

ADVICE = "install gcloud with its component pubsub-emulator, and Java 11 or newer"


@dataclass(frozen=True, slots=True)
class Message:
    """What a subscriber got."""

    data: bytes
    attributes: dict[str, str]


class PubsubEmulator:
    """A running emulator."""

    def __init__(self, address: str) -> None:
        """`address` is HOST:PORT, as PUBSUB_EMULATOR_HOST has it."""
        self.address = address

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            return self._call("GET", "projects/p/topics")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def create_topic(self, topic: str, subscription: str) -> None:
        """A topic (its full name) with one subscription, which gets what is published from now on."""
        self._expect("PUT", topic, {})
        self.subscribe(topic, subscription)

    def subscribe(self, topic: str, subscription: str) -> None:
        """A subscription to a topic that is there."""
        self._expect("PUT", subscription, {"topic": topic, "ackDeadlineSeconds": 60})

    def pull(self, subscription: str, count: int = 1) -> list[Message]:
        """At most `count` messages, as soon as there is one; the emulator waits for it."""
        value = self._expect("POST", f"{subscription}:pull", {"maxMessages": count})
        messages = [received["message"] for received in value.get("receivedMessages", ())]
        return [Message(base64.b64decode(each.get("data", "")), each.get("attributes", {})) for each in messages]

    def _expect(self, verb: str, path: str, value: object) -> Any:
        status, answer = self._call(verb, path, value)
        assert status == 200, f"{verb} {path}: {status} {answer!r}"
        return json.loads(answer)

    def _call(self, verb: str, path: str, value: object = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=10)
        body = None if value is None else json.dumps(value)
        connection.request(verb, f"/v1/{path}", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        status, content = answer.status, answer.read()
        connection.close()
        return status, content


@contextmanager
def pubsub_emulator(folder: Path) -> Iterator[PubsubEmulator]:
    """Run the emulator; without it the test is skipped with advice, in CI it fails."""
    launcher, port = _launcher(), free_port()
    with (folder / "pubsub.log").open("ab") as log:
        process = subprocess.Popen(
            [launcher, "--host=127.0.0.1", f"--port={port}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        emulator = PubsubEmulator(f"127.0.0.1:{port}")
        wait_until(lambda: emulator.is_ready() or process.poll() is not None, "the Pub/Sub emulator is ready", 60)
        assert process.poll() is None, (folder / "pubsub.log").read_text(errors="replace")[-2000:]
        yield emulator
    finally:
        # What it may have started goes with it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _launcher() -> str:
    gcloud, java = shutil.which("gcloud"), shutil.which("java")
    if gcloud is not None and java is not None:
        root = subprocess.run(
            [gcloud, "info", "--format=value(installation.sdk_root)"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.strip()
        launcher = Path(root, "platform", "pubsub-emulator", "bin", "cloud-pubsub-emulator")
        if launcher.exists():
            return str(launcher)
    sentence = f"Google's Pub/Sub emulator is not installed: {ADVICE}."
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)

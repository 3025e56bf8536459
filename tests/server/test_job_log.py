"""What the log says of the attempts of jobs: each that failed, and with `debug` all; nothing of what they carried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.receiver import Receiver
from tests.support.rest import RestClient
from tests.support.server import ServerProcess
from tests.support.waiting import wait_until

PARENT = "projects/p/locations/us-central1"
JOB = f"{PARENT}/jobs/j"
SECRET = "s3cret"


@pytest.mark.parametrize(("level", "levels"), [("debug", ["info", "debug"]), ("info", ["info"])])
def test_a_line_for_each_attempt_or_each_failed_one(tmp_path: Path, level: str, levels: list[str]) -> None:
    """With what came of it and when the next one is."""
    job = {
        "name": JOB,
        "schedule": "0 0 1 1 *",
        "retryConfig": {"retryCount": 1, "minBackoffDuration": "0.2s"},
    }
    with Receiver() as receiver, ServerProcess(tmp_path, "--log-level", level, "--log-format", "json") as server:
        receiver.script(f"/w?{SECRET}", 500, 200)
        job["httpTarget"] = {"uri": f"{receiver.url}/w?{SECRET}", "headers": {"X-Secret": SECRET}}
        with RestClient(server.address) as client:
            client.expect("POST", f"/v1/{PARENT}/jobs", job)
            client.expect("POST", f"/v1/{JOB}:run", {})
            wait_until(lambda: client.expect("GET", f"/v1/{JOB}")["status"] == {}, "the run has succeeded")
        text = server.log_path.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    lines = [line for line in lines if line["event"] == "execution.attempted"]

    assert [line["level"] for line in lines] == levels
    failed = lines[0]
    assert (failed["job"], failed["outcome"], failed["progress"]) == (JOB, "forced", "open")
    assert (failed["attempt"], failed["status"]) == (1, 500)
    assert failed["next_time"] > failed["instant"]
    assert SECRET not in text

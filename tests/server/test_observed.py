"""What the server says about itself: metrics that add up with what was done, and log lines that keep secrets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskbell.testing.handler import ScriptedHandler, respond
from tests.support.rest import RestClient, http_task, queue_name, task_name
from tests.support.server import ServerProcess
from tests.support.waiting import until, wait_until

SECRETS = {
    "body": "s3cret-in-the-body",
    "header": "s3cret-in-a-header",
    "answer": "s3cret-in-the-answer",
    "answered header": "s3cret-answered",
    "password": "s3cret-password",
}
HEALTHY, FLAKY, EXHAUSTED, DELETED, WAITING = 12, 4, 3, 2, 5


@pytest.fixture(params=["debug", "info"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of this log level."""
    with ServerProcess(tmp_path, "--log-level", request.param, "--log-format", "json") as running:
        yield running


async def _story(client: RestClient, handler: ScriptedHandler) -> None:
    """Tasks of every fate; returns when nothing moves any more."""
    answer = SECRETS["answer"].encode()
    headers = (("X-Secret", SECRETS["answered header"]),)
    handler.script("/flaky", *[respond(500, headers, answer)] * FLAKY, respond(200, headers, answer))
    handler.script("/exhausted", respond(404, headers, answer))
    client.create_queue("a", retryConfig={"minBackoff": "0.1s"})
    client.create_queue("b", retryConfig={"maxAttempts": 2, "minBackoff": "0.05s"})
    client.create_queue("waiting")
    client.do("pause", queue_name("waiting"))
    for queue_id, path, count in (("a", "/healthy", HEALTHY), ("a", "/flaky", FLAKY), ("b", "/exhausted", EXHAUSTED)):
        for _ in range(count):
            task = http_task(
                f"http://ann:{SECRETS['password']}@{handler.authority}{path}", body=SECRETS["body"].encode()
            )
            task["httpRequest"]["headers"] = {"X-Key": SECRETS["header"]}
            if path != "/healthy":
                task["httpRequest"]["oidcToken"] = {"serviceAccountEmail": "robot@example.com"}
            client.create_task(queue_id, task)
    for n in range(DELETED + WAITING):
        client.create_task("waiting", http_task(f"{handler.url}/x", name=task_name("waiting", f"t{n}")))
    for n in range(DELETED):
        client.expect("DELETE", f"/v2/{task_name('waiting', f't{n}')}")
    await handler.wait_for(HEALTHY + 2 * FLAKY + 2 * EXHAUSTED)
    await until(lambda: not [*client.tasks("a"), *client.tasks("b")], "all have ended")


def _lines(server: ServerProcess) -> list[dict[str, Any]]:
    """The log: JSON but for the ready line."""
    lines = server.log_path.read_text().splitlines()
    return [json.loads(line) for line in lines if not line.startswith("Taskbell ")]


async def test_metrics_and_log(server: ServerProcess) -> None:
    """Creates, dispatches, outcomes, depth, lateness and commits; a line for each attempt or each failed one."""
    async with ScriptedHandler() as handler:
        with RestClient(server.address) as client:
            await _story(client, handler)
            # The last attempts are counted just after their rows are gone.
            wait_until(lambda: _finished(client.metrics()) == len(handler.requests), "all attempts are counted")
            metrics = client.metrics()
        tokens = {str(request.header("Authorization")).partition(" ")[2] for request in handler.requests}
    a, b, waiting = (f'queue="{queue_name(queue_id)}"' for queue_id in ("a", "b", "waiting"))
    dispatched = HEALTHY + 2 * FLAKY + 2 * EXHAUSTED

    def outcome(queue: str, result: str, status: int) -> float | None:
        return metrics.get(f'taskbell_attempts_total{{{queue},result="{result}",status="{status}"}}')

    assert metrics[f"taskbell_tasks_created_total{{{a}}}"] == HEALTHY + FLAKY
    assert metrics[f"taskbell_tasks_created_total{{{b}}}"] == EXHAUSTED
    assert metrics[f"taskbell_tasks_created_total{{{waiting}}}"] == DELETED + WAITING
    assert metrics[f"taskbell_dispatches_total{{{a}}}"] == HEALTHY + 2 * FLAKY
    assert metrics[f"taskbell_dispatches_total{{{b}}}"] == 2 * EXHAUSTED
    assert f"taskbell_dispatches_total{{{waiting}}}" not in metrics
    assert outcome(a, "completed", 200) == HEALTHY + FLAKY
    assert outcome(a, "retry", 500) == FLAKY
    assert outcome(b, "retry", 404) == outcome(b, "exhausted", 404) == EXHAUSTED
    assert _finished(metrics) == dispatched
    depth = {queue: metrics[f"taskbell_queue_depth{{{queue}}}"] for queue in (a, b, waiting)}
    assert depth == {a: 0, b: 0, waiting: WAITING}
    assert metrics["taskbell_dispatch_lateness_seconds_count"] == dispatched
    assert metrics['taskbell_dispatch_lateness_seconds_bucket{le="+Inf"}'] == dispatched
    assert 0 <= metrics["taskbell_dispatch_lateness_seconds_sum"] < dispatched
    assert metrics["taskbell_attempt_duration_seconds_count"] == dispatched
    # Each create, settlement and delete is an operation, and so are three queues and a pause.
    operations = HEALTHY + FLAKY + EXHAUSTED + 2 * DELETED + WAITING + dispatched + 4
    assert metrics["taskbell_commit_operations_sum"] >= operations
    assert 0 < metrics["taskbell_commit_operations_count"] <= metrics["taskbell_commit_operations_sum"]
    assert metrics["taskbell_commit_duration_seconds_count"] == metrics["taskbell_commit_operations_count"]

    attempts = [line for line in _lines(server) if line["event"] == "attempt.finished"]
    failed = FLAKY + 2 * EXHAUSTED
    is_debug = "debug" in server.command()
    assert Counter(line["level"] for line in attempts) == Counter(
        {"info": failed, "debug": HEALTHY + FLAKY} if is_debug else {"info": failed}
    )
    assert {line["result"] for line in attempts if line["level"] == "info"} == {"retry", "exhausted"}
    keys = [(line["task"], line["attempt"]) for line in attempts]
    assert len(set(keys)) == len(keys)
    text = server.log_path.read_text()
    # Credentials of the URL, and ID tokens of two audiences; those of one second may be equal.
    assert len(tokens - {""}) >= 3
    assert {what for what, secret in SECRETS.items() if secret in text} == set()
    assert [token for token in tokens if token and token in text] == []


def _finished(metrics: dict[str, float]) -> float:
    """Attempts that have ended, of all queues and outcomes."""
    return sum(value for name, value in metrics.items() if name.startswith("taskbell_attempts_total{"))

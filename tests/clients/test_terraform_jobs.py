"""What Terraform's Google provider and Firebase's deploy send for jobs, replayed request by request.

The provider's sequence for `google_cloud_scheduler_job`: paths under its custom endpoint `http://HOST:PORT/v1/`,
`alt=json`, a PATCH of the whole job without a mask, `paused` through :pause and :resume. A plan stays empty only while
every answer says exactly what was sent, and says it the same way each time.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.job_scenario import AGENT, APP_ENGINE_AGENT
from tests.clients.scenario import LOCATION
from tests.support.server import ServerProcess

PARENT = f"projects/terraform-user/locations/{LOCATION}"
Answer = dict[str, Any]
DEFAULTS = {"maxRetryDuration": "0s", "minBackoffDuration": "5s", "maxBackoffDuration": "3600s", "maxDoublings": 5}
BODY = base64.b64encode(b'{"foo":"bar"}').decode()
OCTETS = "application/octet-stream"

HTTP: Answer = {
    "attemptDeadline": "320s",
    "description": "test http job",
    "httpTarget": {
        "body": BODY,
        "headers": {"Content-Type": "application/json", "User-Agent": "curl/8"},
        "httpMethod": "POST",
        "oidcToken": {"audience": "https://example.com/", "serviceAccountEmail": "sa@example.com"},
        "uri": "https://example.com/ping",
    },
    "retryConfig": DEFAULTS | {"maxDoublings": 2, "retryCount": 3},
    "schedule": "*/8 * * * *",
    "timeZone": "America/New_York",
}
APP_ENGINE: Answer = {
    "attemptDeadline": "320s",
    "appEngineHttpTarget": {
        "appEngineRouting": {"instance": "my-instance-001", "service": "web", "version": "prod"},
        "body": BODY,
        "headers": {"X-Kind": "a"},
        "httpMethod": "POST",
        "relativeUri": "/ping",
    },
    "retryConfig": DEFAULTS | {"retryCount": 1},
    "schedule": "every 4 hours synchronized",
    "timeZone": "Europe/London",
}
PUBSUB: Answer = {
    "pubsubTarget": {"attributes": {"a": "1"}, "data": BODY, "topicName": "projects/terraform-user/topics/job-topic"},
    "schedule": "*/2 * * * *",
    "timeZone": "Etc/UTC",
}
# What the server adds to what was sent; the provider ignores such headers, and its schema computes the host.
SHOWN: dict[str, Answer] = {
    "http": {
        "httpTarget": HTTP["httpTarget"] | {"headers": {"Content-Type": "application/json", "User-Agent": AGENT}},
    },
    "app-engine": {
        "appEngineHttpTarget": APP_ENGINE["appEngineHttpTarget"]
        | {
            "appEngineRouting": APP_ENGINE["appEngineHttpTarget"]["appEngineRouting"]
            | {"host": "my-instance-001.prod.web.terraform-user.appspot.com"},
            "headers": {"X-Kind": "a", "User-Agent": APP_ENGINE_AGENT, "Content-Type": OCTETS, "Content-Length": "13"},
        },
    },
    "pubsub": {"retryConfig": DEFAULTS},
}
JOBS = {"http": HTTP, "app-engine": APP_ENGINE, "pubsub": PUBSUB}
# The fields of each answer that nobody sends.
OUTPUT_ONLY = {"state", "status", "scheduleTime", "userUpdateTime"}


class Provider:
    """A client that asks as the provider does."""

    def __init__(self, server: ServerProcess) -> None:
        """Keep one connection, as the provider's HTTP client would."""
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=10)

    def ask(self, method: str, path: str, body: Answer | None = None) -> tuple[int, bytes]:
        """Status and bytes of one answer."""
        headers = {"Content-Type": "application/json", "User-Agent": "Terraform/1.11 terraform-provider-google/6"}
        content = None if body is None else json.dumps(body) + "\n"
        self._connection.request(method, f"/v1/{path}?alt=json", body=content, headers=headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def job(self, method: str, path: str, body: Answer | None = None) -> Answer:
        """The job in an answer, which must be one."""
        status, content = self.ask(method, path, body)
        assert status == 200, content
        answer: Answer = json.loads(content)
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@pytest.fixture
def provider(server: ServerProcess) -> Iterator[Provider]:
    """A provider that talks to the server."""
    provider = Provider(server)
    yield provider
    provider.close()


def without_time(content: bytes | Answer) -> Answer:
    """A job without the one field that an update moves."""
    answer = json.loads(content) if isinstance(content, bytes) else content
    return {name: value for name, value in answer.items() if name != "userUpdateTime"}


@pytest.mark.parametrize("kind", JOBS)
def test_job_from_create_to_destroy(kind: str, provider: Provider) -> None:
    """Apply, plan, change, pause, resume and destroy see what they sent, and nothing that would make a plan differ."""
    name = f"{PARENT}/jobs/tf-{kind}"
    sent = JOBS[kind] | {"name": name}
    created = provider.job("POST", f"{PARENT}/jobs", sent)

    assert {field: value for field, value in created.items() if field not in OUTPUT_ONLY} == sent | SHOWN[kind]
    assert {field for field in created if field not in sent and field not in SHOWN[kind]} == OUTPUT_ONLY
    assert (created["state"], created["status"]) == ("ENABLED", {"code": -1})
    # The provider reads at once, and again for each plan.
    assert provider.job("GET", name) == created
    assert provider.ask("GET", name) == provider.ask("GET", name)

    changed = sent | {"description": "changed", "schedule": "7 * * * *"}
    patched = provider.job("PATCH", name, changed)
    assert (patched["description"], patched["schedule"]) == ("changed", "7 * * * *")
    assert without_time(patched) == without_time(created) | {
        "description": "changed",
        "schedule": "7 * * * *",
        "scheduleTime": patched["scheduleTime"],
    }
    # What was removed from the configuration is not in the body, and is back to its default.
    bare = {field: value for field, value in sent.items() if field not in {"retryConfig", "attemptDeadline"}}
    patched = provider.job("PATCH", name, bare)
    assert patched["retryConfig"] == DEFAULTS
    assert patched.get("attemptDeadline") == ("180s" if kind == "http" else None)

    assert provider.job("POST", f"{name}:pause", {})["state"] == "PAUSED"
    # A paused job can be changed, and stays paused.
    assert provider.job("PATCH", name, changed)["state"] == "PAUSED"
    assert provider.job("GET", name)["state"] == "PAUSED"
    assert provider.job("POST", f"{name}:resume", {})["state"] == "ENABLED"

    assert provider.ask("DELETE", name)[0] == 200
    status, content = provider.ask("GET", name)
    assert status == 404
    assert json.loads(content)["error"] == {"code": 404, "message": "Job not found.", "status": "NOT_FOUND"}


@pytest.mark.parametrize("kind", JOBS)
def test_an_identical_patch_changes_nothing_but_the_time_of_the_update(kind: str, provider: Provider) -> None:
    """GET after POST equals GET after the same job was PATCHed without a mask, byte for byte; so does its echo."""
    name = f"{PARENT}/jobs/drift-{kind}"
    # Far away, so that no instant passes between the two.
    sent = JOBS[kind] | {"name": name, "schedule": "0 0 1 1 *"}
    provider.job("POST", f"{PARENT}/jobs", sent)
    status, first = provider.ask("GET", name)
    assert status == 200

    provider.job("PATCH", name, sent)
    status, second = provider.ask("GET", name)
    provider.job("PATCH", name, json.loads(second))
    status, third = provider.ask("GET", name)

    assert status == 200
    times = [json.loads(content)["userUpdateTime"].encode() for content in (first, second, third)]
    bare = [content.replace(time, b"") for content, time in zip((first, second, third), times, strict=True)]
    assert bare[0] == bare[1] == bare[2]
    assert times == sorted(times)


def test_firebase_deploys_a_scheduled_function(provider: Provider) -> None:
    """A missing job is 404 and is created; an equal one is left alone; another is patched; a bad schedule is told."""
    name = f"{PARENT}/jobs/firebase-schedule-tick-{LOCATION}"
    job: Answer = {
        "name": name,
        "schedule": "every 5 minutes",
        "timeZone": "America/Los_Angeles",
        "pubsubTarget": {
            "topicName": "projects/terraform-user/topics/firebase-schedule-tick",
            "attributes": {"scheduled": "true"},
        },
    }
    status, content = provider.ask("GET", name)
    assert (status, json.loads(content)["error"]["status"]) == (404, "NOT_FOUND")
    created = provider.job("POST", f"{PARENT}/jobs", job)

    found = provider.job("GET", name)
    # The deploy compares these, and sends nothing while they are equal.
    assert {field: found[field] for field in job} == job
    assert found == created

    changed = job | {"schedule": "every day 08:00", "retryConfig": {"retryCount": 3}}
    patched = provider.job("PATCH", name, changed)
    assert (patched["name"], patched["schedule"]) == (name, "every day 08:00")
    assert patched["retryConfig"] == DEFAULTS | {"retryCount": 3}

    for method, path in (("PATCH", name), ("POST", f"{PARENT}/jobs")):
        status, content = provider.ask(method, path, job | {"schedule": "every 1 minute"})
        error = json.loads(content)["error"]
        assert (status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
        assert error["message"].startswith("Schedule or time zone is invalid.")
    assert provider.job("GET", name) == patched
    assert provider.ask("DELETE", name) == (200, b"{}")

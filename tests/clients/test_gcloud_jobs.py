"""`gcloud scheduler`, unmodified and without a login: jobs of each kind of target from create to delete.

A call takes gcloud a second, so each test tells a whole story. `--location` is always given: without it gcloud asks
App Engine, which nobody plays here.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.clients.gcloud import Gcloud
from tests.clients.job_scenario import AGENT, APP_ENGINE_AGENT, NO_JOB, ZONE, new_year
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

Job = dict[str, Any]
YEARLY = "--schedule=0 0 1 1 *"
UNTOUCHED = {"minBackoffDuration": "5s", "maxBackoffDuration": "3600s", "maxRetryDuration": "0s", "maxDoublings": 5}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[ServerProcess]:
    """A server whose App Engine services and whose Pub/Sub are the receiver."""
    services = f"default={receiver.url}/default,worker={receiver.url}/worker"
    place = ["--app-engine", services, "--pubsub-emulator-host", receiver.url.removeprefix("http://")]
    with ServerProcess(tmp_path_factory.mktemp("gcloud"), *place) as running:
        yield running


@pytest.fixture
def gcloud(server: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest) -> Gcloud:
    """A gcloud that talks to the server, in a project of its own."""
    return Gcloud("scheduler", server, tmp_path, project=request.node.name.replace("_", "-"))


def steady(job: Job) -> Job:
    """A job without the time of its last update, which must be a recent one."""
    age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(job["userUpdateTime"])
    assert dt.timedelta() <= age < dt.timedelta(minutes=2)
    return {name: value for name, value in job.items() if name != "userUpdateTime"}


def printed(content: str) -> str:
    """Bytes as gcloud prints them, whichever alphabet the server used."""
    return base64.urlsafe_b64encode(content.encode()).decode()


def wire_time(zone: str) -> str:
    """Next New Year as the wire writes it."""
    return new_year(zone).astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.timeout(300)
def test_http_jobs(gcloud: Gcloud, receiver: Receiver) -> None:
    """Headers are added, removed and cleared, the token too; run, pause, resume and delete do what they say."""
    body = "weight=3 kg & up; übergroß"
    uri = f"{receiver.url}/gcloud-jobs/http"
    retry = ["--max-retry-attempts=2", "--min-backoff=1s", "--max-backoff=10s", "--max-doublings=1"]
    gcloud.ask(
        *("jobs", "create", "http", "errand", YEARLY, f"--uri={uri}", "--http-method=put", f"--message-body={body}"),
        *("--headers=X-One=1,X-Two=2", f"--time-zone={ZONE}", "--description=An errand", "--attempt-deadline=30s"),
        *("--oidc-service-account-email=a@example.com", "--oidc-token-audience=https://a.example", *retry),
    )
    headers = {"X-One": "1", "X-Two": "2", "User-Agent": AGENT, "Content-Type": "application/octet-stream"}
    token = {"serviceAccountEmail": "a@example.com", "audience": "https://a.example"}
    target = {"uri": uri, "httpMethod": "PUT", "headers": headers, "body": printed(body), "oidcToken": token}
    wanted: Job = {
        "name": f"{gcloud.parent}/jobs/errand",
        "description": "An errand",
        "schedule": "0 0 1 1 *",
        "timeZone": ZONE,
        "state": "ENABLED",
        "status": {"code": -1},
        "attemptDeadline": "30s",
        "scheduleTime": wire_time(ZONE),
        "httpTarget": target,
        "retryConfig": {
            "retryCount": 2,
            "maxRetryDuration": "0s",
            "minBackoffDuration": "1s",
            "maxBackoffDuration": "10s",
            "maxDoublings": 1,
        },
    }
    assert steady(gcloud.ask("jobs", "describe", "errand")) == wanted
    again = gcloud.refusal("jobs", "create", "http", "errand", YEARLY, f"--uri={uri}")
    assert again.startswith(f"ALREADY_EXISTS: Job {wanted['name']} already exists.")

    changes = ["--update-headers=X-Two=two,X-Three=3", "--remove-headers=X-One", "--clear-max-retry-attempts"]
    gcloud.ask("jobs", "update", "http", "errand", *changes)
    del headers["X-One"]
    headers |= {"X-Two": "two", "X-Three": "3"}
    del wanted["retryConfig"]["retryCount"]
    assert steady(gcloud.ask("jobs", "describe", "errand")) == wanted

    gcloud.ask("jobs", "update", "http", "errand", "--clear-headers", "--clear-auth-token", "--clear-time-zone")
    del target["oidcToken"]
    target["headers"] = {"User-Agent": AGENT, "Content-Type": "application/octet-stream"}
    wanted |= {"timeZone": "Etc/UTC", "scheduleTime": wire_time("UTC")}
    (listed,) = gcloud.ask("jobs", "list")
    assert steady(listed) == wanted
    assert gcloud.refusal("jobs", "update", "http", "errand", "--schedule=0 0 31 2 *").startswith(
        "INVALID_ARGUMENT: Schedule or time zone is invalid."
    )

    gcloud.ask("jobs", "pause", "errand")
    assert steady(gcloud.ask("jobs", "describe", "errand")) == wanted | {"state": "PAUSED"}
    gcloud.ask("jobs", "resume", "errand")
    gcloud.ask("jobs", "run", "errand")
    (delivery,) = receiver.wait("/gcloud-jobs/http", 1)
    assert (delivery.method, delivery.body, delivery.header("authorization")) == ("PUT", body.encode(), None)
    ran = steady(gcloud.ask("jobs", "describe", "errand"))
    assert dt.datetime.fromisoformat(ran.pop("lastAttemptTime")) <= dt.datetime.now(dt.UTC)
    assert ran == wanted | {"status": {}}

    gcloud.ask("jobs", "delete", "errand")
    missing = f"{NO_JOB['code']}: {NO_JOB['message']}"
    assert gcloud.refusal("jobs", "describe", "errand").startswith(missing)
    assert gcloud.refusal("jobs", "run", "errand").startswith(missing)


@pytest.mark.timeout(300)
def test_app_engine_jobs(gcloud: Gcloud, receiver: Receiver) -> None:
    """A job goes to the service that it names, and to the default one when that is cleared."""
    project = gcloud.parent.split("/")[1]
    words = ["--service=worker", "--relative-url=/wash?cold=1", "--headers=X-Kind=dishes", "--message-body=plates"]
    gcloud.ask("jobs", "create", "app-engine", "dishes", YEARLY, *words)
    headers = {
        "X-Kind": "dishes",
        "User-Agent": APP_ENGINE_AGENT,
        "Content-Type": "application/octet-stream",
        "Content-Length": "6",
    }
    wanted: Job = {
        "name": f"{gcloud.parent}/jobs/dishes",
        "schedule": "0 0 1 1 *",
        "timeZone": "Etc/UTC",
        "state": "ENABLED",
        "status": {"code": -1},
        "scheduleTime": wire_time("UTC"),
        "retryConfig": UNTOUCHED,
        "appEngineHttpTarget": {
            "httpMethod": "POST",
            "relativeUri": "/wash?cold=1",
            "headers": headers,
            "body": printed("plates"),
            "appEngineRouting": {"service": "worker", "host": f"worker.{project}.appspot.com"},
        },
    }
    assert steady(gcloud.ask("jobs", "describe", "dishes")) == wanted
    gcloud.ask("jobs", "run", "dishes")
    (first,) = receiver.wait("/worker/wash?cold=1", 1)
    assert (first.body, first.header("x-kind"), first.header("user-agent")) == (b"plates", "dishes", APP_ENGINE_AGENT)

    gcloud.ask("jobs", "update", "app-engine", "dishes", "--clear-service", "--clear-relative-url", "--clear-headers")
    target = gcloud.ask("jobs", "describe", "dishes")["appEngineHttpTarget"]
    # To gcloud, no service means this one by its name.
    default = {"service": "default", "host": f"default.{project}.appspot.com"}
    assert (target["relativeUri"], target["appEngineRouting"]) == ("/", default)
    assert target["headers"] == {name: value for name, value in headers.items() if name != "X-Kind"}
    gcloud.ask("jobs", "run", "dishes")
    (second,) = receiver.wait("/default/", 1)
    assert (second.method, second.body) == ("POST", b"plates")
    gcloud.ask("jobs", "delete", "dishes")
    assert gcloud.ask("jobs", "list") == []


@pytest.mark.timeout(300)
def test_pubsub_jobs(gcloud: Gcloud, receiver: Receiver) -> None:
    """Attributes are added, removed and cleared; what is published is what the job holds."""
    topic = f"projects/{gcloud.parent.split('/')[1]}/topics/news"
    words = ["--topic=news", "--message-body=hello", "--attributes=one=1,two=2"]
    gcloud.ask("jobs", "create", "pubsub", "paper", "--schedule=every day of january 07:00", *words)
    target = {"topicName": topic, "data": printed("hello"), "attributes": {"one": "1", "two": "2"}}
    found = gcloud.ask("jobs", "describe", "paper")
    assert (found["pubsubTarget"], found["schedule"]) == (target, "every day of january 07:00")

    gcloud.ask("jobs", "update", "pubsub", "paper", "--update-attributes=two=zwei", "--remove-attributes=one")
    assert gcloud.ask("jobs", "describe", "paper")["pubsubTarget"] == target | {"attributes": {"two": "zwei"}}
    gcloud.ask("jobs", "run", "paper")
    (published,) = receiver.wait(f"/v1/{quote(topic)}:publish", 1)
    data = base64.b64encode(b"hello").decode()
    assert json.loads(published.body) == {"messages": [{"data": data, "attributes": {"two": "zwei"}}]}

    gcloud.ask("jobs", "update", "pubsub", "paper", "--clear-attributes")
    del target["attributes"]
    assert gcloud.ask("jobs", "describe", "paper")["pubsubTarget"] == target
    gcloud.ask("jobs", "delete", "paper")
    assert gcloud.refusal("jobs", "describe", "paper").startswith("NOT_FOUND: ")

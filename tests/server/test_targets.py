"""App Engine and Pub/Sub targets of tasks and jobs, through the whole server: what is created over REST arrives."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.pubsub import Message, PubsubEmulator, pubsub_emulator
from tests.support.receiver import Received, Receiver
from tests.support.rest import LOCATION, RestClient
from tests.support.server import ServerProcess

JOBS = f"/v1/{LOCATION}/jobs"
AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"
YEARLY = {"schedule": "0 0 1 1 *", "timeZone": "Etc/UTC"}
QUICK = {"minBackoff": "0.01s", "maxBackoff": "0.01s"}


@pytest.fixture(scope="module")
def main() -> Iterator[Receiver]:
    """The default service."""
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def worker() -> Iterator[Receiver]:
    """Another service, with a version that has a path of its own."""
    with Receiver() as running:
        yield running


@pytest.fixture
def receivers(main: Receiver, worker: Receiver) -> dict[str, Receiver]:
    """Both, by name."""
    return {"main": main, "worker": worker}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, main: Receiver, worker: Receiver) -> Iterator[ServerProcess]:
    """A server that knows both."""
    services = f"default={main.url},worker={worker.url};manual,worker:v1={worker.url}/v1,worker:v1:0={worker.url}/v1-0"
    with ServerProcess(tmp_path_factory.mktemp("targets"), "--app-engine", services) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[RestClient]:
    """A REST client of that server."""
    with RestClient(server.address) as rest:
        yield rest


def app_engine_task(uri: str, **routing: str) -> dict[str, Any]:
    """A task for a service, with a body."""
    body = base64.b64encode(b"hello").decode()
    return {"appEngineHttpRequest": {"relativeUri": uri, "appEngineRouting": routing, "body": body}}


@pytest.mark.parametrize(
    ("routing", "place", "host"),
    [
        ({}, "main", "p.appspot.com"),
        ({"service": "worker"}, "worker", "worker.p.appspot.com"),
        ({"service": "worker", "version": "v1"}, "worker/v1", "v1.worker.p.appspot.com"),
        ({"service": "worker", "version": "v1", "instance": "0"}, "worker/v1-0", "0.v1.worker.p.appspot.com"),
        ({"service": "worker", "version": "v2"}, "worker", "v2.worker.p.appspot.com"),
        ({"service": "absent"}, "main", "absent.p.appspot.com"),
    ],
)
def test_h21_every_routing_reaches_its_service_and_shows_its_host(
    client: RestClient, receivers: dict[str, Receiver], routing: dict[str, str], place: str, host: str
) -> None:
    """Two services, versions, instances; what is not mapped goes to the default."""
    service, _, base = place.partition("/")
    queue_id = "-".join(["h21", *routing.values()])
    client.create_queue(queue_id)
    path = f"/v2/{LOCATION}/queues/{queue_id}/tasks"

    created = client.expect("POST", path, {"task": app_engine_task(f"/{queue_id}", **routing)})

    shown = created["appEngineHttpRequest"]
    assert shown["appEngineRouting"] == {**routing, "host": host}
    (received,) = receivers[service].wait(f"/{base}/{queue_id}".replace("//", "/"), 1)
    assert received.body == b"hello"
    assert received.header("host") == receivers[service].url.removeprefix("http://")


def test_h21_a_relative_uri_begins_with_a_slash(client: RestClient) -> None:
    """Or is empty, which means one."""
    client.create_queue("h21-slash")

    answer = client.call("POST", f"/v2/{LOCATION}/queues/h21-slash/tasks", {"task": app_engine_task("tasks/x")})

    assert (answer.status, answer.code) == (400, "INVALID_ARGUMENT")


def test_h22_a_503_is_retried_with_app_engines_headers(client: RestClient, main: Receiver) -> None:
    """Exactly the recorded ones, by their names on the wire in any case; and none of Cloud Tasks."""
    client.create_queue("h22", retryConfig=QUICK)
    main.script("/h22", 503, 200)

    name = client.create_task("h22", app_engine_task("/h22"))
    first, second = main.wait("/h22", 2)

    always = {
        "user-agent": AGENT,
        "content-type": "application/octet-stream",
        "content-length": "5",
        "host": main.url.removeprefix("http://"),
        "x-appengine-queuename": "h22",
        "x-appengine-taskname": name.rpartition("/")[2],
    }
    assert steady(first) == {
        **always,
        "x-appengine-taskretrycount": "0",
        "x-appengine-taskexecutioncount": "0",
    }
    assert steady(second) == {
        **always,
        "x-appengine-taskretrycount": "1",
        "x-appengine-taskexecutioncount": "1",
        "x-appengine-taskpreviousresponse": "503",
        "x-appengine-taskretryreason": "App Error",
    }


def steady(received: Received) -> dict[str, str]:
    """The headers but for those with a value of their own each time, which must be there."""
    headers = received.lowered()
    for name in ("x-appengine-tasketa", "idempotency-key"):
        assert headers.pop(name)
    return headers


def test_the_queues_routing_is_shown_and_wins(client: RestClient, worker: Receiver) -> None:
    """With its host, after a create and after an update of a part."""
    created = client.create_queue("override", appEngineRoutingOverride={"service": "worker", "version": "v2"})
    assert created["appEngineRoutingOverride"]["host"] == "v2.worker.p.appspot.com"

    path = f"/v2/{LOCATION}/queues/override?updateMask=appEngineRoutingOverride"
    updated = client.expect("PATCH", path, {"appEngineRoutingOverride": {"service": "worker", "version": "v1"}})
    client.create_task("override", app_engine_task("/override", service="absent"))

    assert updated["appEngineRoutingOverride"]["host"] == "v1.worker.p.appspot.com"
    assert worker.wait("/v1/override", 1)[0].body == b"hello"


def test_a_job_calls_its_service(client: RestClient, worker: Receiver) -> None:
    """By force, since its schedule is far away; with its host shown, and Scheduler's headers."""
    target = {**app_engine_task("/job", service="worker")["appEngineHttpRequest"], "httpMethod": "PUT"}
    job = client.expect("POST", JOBS, {"name": f"{LOCATION}/jobs/app-engine", "appEngineHttpTarget": target, **YEARLY})
    client.expect("POST", f"/v1/{job['name']}:run", {})

    (received,) = worker.wait("/job", 1)
    assert job["appEngineHttpTarget"]["appEngineRouting"] == {"service": "worker", "host": "worker.p.appspot.com"}
    assert (received.method, received.body) == ("PUT", b"hello")
    headers = received.lowered()
    assert headers["user-agent"] == AGENT
    assert headers["x-cloudscheduler-jobname"] == "app-engine"
    assert headers["content-length"] == "5"
    assert not any(name.startswith(("x-appengine-", "x-cloudtasks-")) for name in headers)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PubsubEmulator]:
    """Google's own emulator."""
    with pubsub_emulator(tmp_path_factory.mktemp("pubsub")) as running:
        yield running


def test_a_job_publishes_to_googles_emulator(
    tmp_path_factory: pytest.TempPathFactory, emulator: PubsubEmulator
) -> None:
    """The very bytes and attributes that the job holds, once for each forced run."""
    topic, subscription = "projects/p/topics/jobs", "projects/p/subscriptions/jobs"
    emulator.create_topic(topic, subscription)
    every_byte = bytes(range(256))
    target = {"topicName": topic, "data": base64.b64encode(every_byte).decode(), "attributes": {"a": "ü"}}
    folder = tmp_path_factory.mktemp("publishing")
    with (
        ServerProcess(folder, "--pubsub-emulator-host", emulator.address) as server,
        RestClient(server.address) as client,
    ):
        job = client.expect("POST", JOBS, {"name": f"{LOCATION}/jobs/publish", "pubsubTarget": target, **YEARLY})
        client.expect("POST", f"/v1/{job['name']}:run", {})

        assert emulator.pull(subscription, 10) == [Message(every_byte, {"a": "ü"})]

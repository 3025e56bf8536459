"""`gcloud tasks`, unmodified and without a login, through its endpoint override.

A call takes gcloud a second, so each test tells a whole story. `--location` is always given: without it gcloud asks
App Engine, which nobody plays here, and ends by asking for the flag.
"""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path

import pytest

from tests.clients.gcloud import Gcloud
from tests.clients.scenario import FINISHED, LOCATION, NO_QUEUE, NOT_FOUND
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess


@pytest.fixture
def gcloud(server: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest) -> Gcloud:
    """A gcloud that talks to the server, in a project of its own."""
    return Gcloud("tasks", server, tmp_path, project=request.node.name.replace("_", "-"))


@pytest.mark.timeout(300)
def test_queues(gcloud: Gcloud) -> None:
    """Queues are created, described, updated, listed, paused, resumed, purged and deleted, and errors exit 1."""
    created = gcloud.ask("queues", "create", "errands", "--max-dispatches-per-second=10", "--max-attempts=5")
    rate_limits = {"maxDispatchesPerSecond": 10, "maxBurstSize": 10, "maxConcurrentDispatches": 1000}
    retry_config = {"maxAttempts": 5, "minBackoff": "0.100s", "maxBackoff": "3600s", "maxDoublings": 16}
    name = f"{gcloud.parent}/queues/errands"
    wanted = {"name": name, "state": "RUNNING", "rateLimits": rate_limits, "retryConfig": retry_config}
    # gcloud prints the queue for create only in some releases; what describe shows is what counts.
    assert created in (None, wanted)
    assert gcloud.ask("queues", "describe", "errands") == wanted
    assert gcloud.refusal("queues", "create", "errands").startswith("ALREADY_EXISTS: Queue already exists")

    gcloud.ask("queues", "update", "errands", "--max-concurrent-dispatches=7", "--max-backoff=10s", "--min-backoff=1s")
    wanted["rateLimits"] = rate_limits | {"maxConcurrentDispatches": 7}
    wanted["retryConfig"] = retry_config | {"maxBackoff": "10s", "minBackoff": "1s"}
    assert gcloud.ask("queues", "list") == [wanted]
    gcloud.ask("queues", "pause", "errands")
    assert gcloud.ask("queues", "describe", "errands") == wanted | {"state": "PAUSED"}
    gcloud.ask("queues", "resume", "errands")
    assert gcloud.ask("queues", "describe", "errands") == wanted

    gcloud.ask("queues", "purge", "errands")
    purged = gcloud.ask("queues", "describe", "errands")
    age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(purged.pop("purgeTime"))
    assert purged == wanted
    assert dt.timedelta() < age < dt.timedelta(minutes=1)

    gcloud.ask("queues", "delete", "errands")
    assert gcloud.refusal("queues", "describe", "errands").startswith(f"NOT_FOUND: {NO_QUEUE}")
    assert gcloud.ask("queues", "list") == []


@pytest.mark.timeout(300)
def test_tasks(gcloud: Gcloud, receiver: Receiver) -> None:
    """HTTP tasks are created, listed, described in both views, run and deleted, and errors exit 1."""
    gcloud.ask("queues", "create", "parcels")
    queue = f"{gcloud.parent}/queues/parcels"
    future = (dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    place = "--queue=parcels"
    body = "weight=3 kg & up; übergroß"
    words = ["--method=PUT", f"--body-content={body}", "--header=Content-Type: text/plain", "--header=X-Kind:large"]
    gcloud.ask(
        "create-http-task", "now-1", place, f"--url={receiver.url}/gcloud/now", *words, f"--schedule-time={future}"
    )
    gcloud.ask("create-http-task", "late-1", place, f"--url={receiver.url}/gcloud/late", f"--schedule-time={future}")

    found = gcloud.ask("describe", "now-1", place, "--response-view=full")
    assert dt.datetime.fromisoformat(found.pop("createTime")) <= dt.datetime.now(dt.UTC)
    headers = {"Content-Type": "text/plain", "X-Kind": "large", "User-Agent": "Google-Cloud-Tasks"}
    request = {"url": f"{receiver.url}/gcloud/now", "httpMethod": "PUT", "headers": headers}
    full = {
        "name": f"{queue}/tasks/now-1",
        # gcloud prints bytes in the alphabet for URLs, whichever the server used.
        "httpRequest": request | {"body": base64.urlsafe_b64encode(body.encode()).decode()},
        "scheduleTime": future,
        "dispatchDeadline": "600s",
        "view": "FULL",
    }
    assert found == full
    basic = gcloud.ask("describe", "now-1", place)
    assert (basic["view"], basic["httpRequest"]) == ("BASIC", request)
    listed = gcloud.ask("list", place)
    assert sorted(task["name"] for task in listed) == [f"{queue}/tasks/late-1", f"{queue}/tasks/now-1"]

    gcloud.ask("run", "now-1", place)
    (delivery,) = receiver.wait("/gcloud/now", 1)
    assert (delivery.method, delivery.body, delivery.header("x-kind")) == ("PUT", body.encode(), "large")
    gcloud.ask("delete", "late-1", place)
    assert gcloud.ask("list", place) == []
    finished = f"{FINISHED['code']}: {FINISHED['message']}"
    assert gcloud.refusal("describe", "late-1", place).startswith(finished)
    missing = f"{NOT_FOUND['code']}: {NOT_FOUND['message']}"
    assert gcloud.refusal("run", "never", place).startswith(missing)
    assert receiver.requests("/gcloud/late") == []


def test_locations(gcloud: Gcloud) -> None:
    """Locations are listed, each with the label that gcloud reads its default from."""
    places = gcloud.ask("locations", "list")
    (place,) = [place for place in places if place["locationId"] == LOCATION]
    assert place["labels"]["cloud.googleapis.com/region"] == LOCATION
    assert next(iter(places[0]["labels"].values())) == places[0]["locationId"]

"""Where clients and servers meet their limits: error details, and bodies near the largest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport, CloudTasksRestTransport
from google.protobuf.json_format import MessageToDict

from tests.clients.scenario import LOCATION
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

PARENT = f"projects/edges/locations/{LOCATION}"
# The largest task that the real service takes, serialized as it is stored (wire rules, section 13).
LARGEST = 1_048_569


@pytest.fixture(params=["grpc", "rest"])
def client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[tasks_v2.CloudTasksClient]:
    """The Python client over either transport."""
    transport: CloudTasksGrpcTransport | CloudTasksRestTransport
    if request.param == "grpc":
        transport = CloudTasksGrpcTransport(channel=grpc.insecure_channel(server.address))
    else:
        credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
        transport = CloudTasksRestTransport(host=server.address, url_scheme="http", credentials=credentials)
    with tasks_v2.CloudTasksClient(transport=transport) as client:
        yield client


@pytest.fixture
def queue(client: tasks_v2.CloudTasksClient) -> str:
    """A queue for this test and transport."""
    name = f"{PARENT}/queues/{client.transport.kind.replace('_', '-')}"
    if name not in {each.name for each in client.list_queues(parent=PARENT)}:
        client.create_queue(parent=PARENT, queue=tasks_v2.Queue(name=name))
    return name


def _help_links(error: exceptions.GoogleAPICallError) -> list[str]:
    """The descriptions of the links that an error brings: messages over gRPC, JSON objects over REST."""
    details: list[Any] = error.details
    helps = [each if isinstance(each, dict) else MessageToDict(each) for each in details]
    return [link["description"] for each in helps for link in each["links"]]


def test_errors_bring_their_help(client: tasks_v2.CloudTasksClient, queue: str) -> None:
    """A bad name is refused with a link to its definition, where the client keeps such details."""
    bad_task = tasks_v2.Task(name=f"{queue}/tasks/not valid", http_request={"url": "http://127.0.0.1:9/"})
    with pytest.raises(exceptions.BadRequest) as refused:
        client.create_task(parent=queue, task=bad_task)
    assert _help_links(refused.value) == ["Definition of task ID"]
    with pytest.raises(exceptions.BadRequest) as refused:
        client.create_queue(parent=PARENT, queue=tasks_v2.Queue(name=f"{PARENT}/queues/under_score"))
    assert _help_links(refused.value) == ["Definition of queue name"]


def test_largest_task(client: tasks_v2.CloudTasksClient, queue: str, receiver: Receiver) -> None:
    """A task of exactly the largest size passes whole to the handler; one byte more is refused."""
    path = f"/edges/{queue.rsplit('/', 1)[1]}"
    # A time that is fixed keeps the rest of the stored task at one size, whatever the clock says.
    future = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).replace(microsecond=0)

    def create(task_id: str, body: bytes) -> tasks_v2.Task:
        request = tasks_v2.HttpRequest(url=receiver.url + path, body=body)
        task = tasks_v2.Task(name=f"{queue}/tasks/{task_id}", http_request=request, schedule_time=future)
        return client.create_task(request={"parent": queue, "task": task, "response_view": tasks_v2.Task.View.FULL})

    size = 1_040_000
    probe = create("a", bytes(size))
    size += LARGEST - tasks_v2.Task.pb(probe).ByteSize()

    largest = create("b", b"\xff" * size)

    assert tasks_v2.Task.pb(largest).ByteSize() == LARGEST
    client.run_task(name=largest.name)
    (delivery,) = receiver.wait(path, 1)
    assert delivery.body == b"\xff" * size
    with pytest.raises(exceptions.BadRequest, match="Task size too large"):
        create("c", b"\xff" * (size + 1))

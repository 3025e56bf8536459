"""What one client wrote, every other reads the same: gRPC and both JSON dialects show one truth."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport, CloudTasksRestTransport
from google.protobuf.json_format import MessageToDict
from googleapiclient.discovery import build

from tests.clients.scenario import BODY, LOCATION
from tests.support.server import ServerProcess

PARENT = f"projects/agreement/locations/{LOCATION}"
URL = "http://127.0.0.1:9/caf%C3%A9?q=1&q=2"
# Microseconds are what the service keeps; a JSON clock with milliseconds, or a float on the way, would lose them.
FUTURE_TIME = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=2)).replace(microsecond=123457)

Message = dict[str, Any]


@pytest.fixture(scope="module")
def grpc_client(server: ServerProcess) -> Iterator[tasks_v2.CloudTasksClient]:
    """The Python client over gRPC."""
    channel = grpc.insecure_channel(server.address)
    with tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel)) as client:
        yield client


@pytest.fixture(scope="module")
def rest_client(server: ServerProcess) -> Iterator[tasks_v2.CloudTasksClient]:
    """The Python client over REST, which speaks integer enums."""
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    transport = CloudTasksRestTransport(host=server.address, url_scheme="http", credentials=credentials)
    with tasks_v2.CloudTasksClient(transport=transport) as client:
        yield client


@pytest.fixture(scope="module")
def tasks(server: ServerProcess) -> Iterator[Any]:
    """The tasks collection of googleapiclient, which speaks enum names."""
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    with build("cloudtasks", "v2", client_options={"api_endpoint": server.url}, credentials=credentials) as service:
        yield service.projects().locations().queues().tasks()


def _task(queue: str) -> tasks_v2.Task:
    return tasks_v2.Task(
        name=f"{queue}/tasks/one",
        http_request=tasks_v2.HttpRequest(
            url=URL,
            http_method=tasks_v2.HttpMethod.PUT,
            headers={"x-lower": "1", "X-UPPER": "b, 2"},
            body=BODY,
            oidc_token=tasks_v2.OidcToken(service_account_email="a@example.com", audience="https://a.example"),
        ),
        schedule_time=FUTURE_TIME,
        dispatch_deadline=dt.timedelta(seconds=20, milliseconds=250),
        retry_config=tasks_v2.RetryConfig(max_attempts=3, min_backoff=dt.timedelta(seconds=2)),
    )


def _as_json(task: tasks_v2.Task) -> Message:
    return MessageToDict(tasks_v2.Task.pb(task))


@pytest.mark.parametrize("writer", ["grpc", "rest", "discovery"])
def test_every_client_reads_what_one_wrote(
    writer: str, grpc_client: tasks_v2.CloudTasksClient, rest_client: tasks_v2.CloudTasksClient, tasks: Any
) -> None:
    """Each field of a task survives each way in and each way out: bytes, microseconds, header case, enums."""
    queue = f"{PARENT}/queues/written-by-{writer}"
    grpc_client.create_queue(parent=PARENT, queue=tasks_v2.Queue(name=queue))
    task = _task(queue)
    full = tasks_v2.Task.View.FULL
    request = tasks_v2.CreateTaskRequest(parent=queue, task=task, response_view=full)
    create: dict[str, Callable[[], Message]] = {
        "grpc": lambda: _as_json(grpc_client.create_task(request=request)),
        "rest": lambda: _as_json(rest_client.create_task(request=request)),
        "discovery": lambda: tasks.create(
            parent=queue, body={"task": _as_json(task), "responseView": "FULL"}
        ).execute(),
    }

    created = create[writer]()

    sent = _as_json(task)
    sent["httpRequest"]["headers"]["User-Agent"] = "Google-Cloud-Tasks"
    # A task's own retry settings replace the queue's whole, so what was left out of them shows its default.
    sent["retryConfig"] |= {"maxBackoff": "3600s", "maxDoublings": 16}
    # Output only: the second of the creation, and the view that was asked for.
    assert dt.datetime.fromisoformat(created["createTime"]).microsecond == 0
    assert created == sent | {"createTime": created["createTime"], "view": "FULL"}
    get = tasks_v2.GetTaskRequest(name=task.name, response_view=full)
    assert _as_json(grpc_client.get_task(request=get)) == created
    assert _as_json(rest_client.get_task(request=get)) == created
    assert tasks.get(name=task.name, responseView="FULL").execute() == created
    assert [_as_json(each) for each in rest_client.list_tasks(request={"parent": queue, "response_view": full})] == [
        created
    ]

"""A11: the battery of recorded errors, through Google's own client against a server process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.server import ServerProcess

LOCATION = "projects/p/locations/us-central1"
EXISTING, MISSING, DELETED = (f"{LOCATION}/queues/{name}" for name in ("existing", "missing", "deleted"))
QUEUE_MISSING = (
    "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize."
)
ENTITY_MISSING = "Requested entity was not found."
INVALID, GONE, TAKEN, STATE = (
    exceptions.InvalidArgument,
    exceptions.NotFound,
    exceptions.AlreadyExists,
    exceptions.FailedPrecondition,
)

Client = Any
"""Google's client takes dicts where its annotations ask for messages."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Google's client; the server has a paused queue with tasks, and one that was deleted."""
    with ServerProcess(tmp_path_factory.mktemp("battery")) as server:
        channel = grpc.insecure_channel(server.address)
        client: Client = tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))
        for name in (EXISTING, DELETED):
            client.create_queue(parent=LOCATION, queue={"name": name})
        client.pause_queue(name=EXISTING)
        client.delete_queue(name=DELETED)
        client.create_task(parent=EXISTING, task=make_task(f"{EXISTING}/tasks/live"))
        client.create_task(parent=EXISTING, task=make_task(f"{EXISTING}/tasks/gone"))
        client.delete_task(name=f"{EXISTING}/tasks/gone")
        yield client
        channel.close()


def make_task(name: str = "", **fields: Any) -> dict[str, Any]:
    """A task."""
    return {"name": name, "http_request": {"url": "http://127.0.0.1:9/"}, **fields}


def create(name: str = "", parent: str = EXISTING, **fields: Any) -> Callable[[Client], object]:
    """A CreateTask call."""
    return lambda client: client.create_task(parent=parent, task=make_task(name, **fields))


FAR = Timestamp(seconds=253_402_300_799)
BAD_ID = (
    'Task ID "not a valid id" can contain only letters ([A-Za-z]), numbers ([0-9]), hyphens (-), or underscores (_). '
    "Task ID must between 1 and 500 characters."
)
NAME_FORM = 'Queue name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>".'
Case = tuple[Callable[[Client], object], type[exceptions.GoogleAPICallError], str]
BATTERY: dict[str, Case] = {
    "queue/create/exists": (
        lambda c: c.create_queue(parent=LOCATION, queue={"name": EXISTING}),
        TAKEN,
        "Queue already exists",
    ),
    "queue/create/deleted": (
        lambda c: c.create_queue(parent=LOCATION, queue={"name": DELETED}),
        STATE,
        "The queue cannot be created because a queue with this name existed too recently.",
    ),
    "queue/create/malformed": (
        lambda c: c.create_queue(parent=LOCATION, queue={"name": f"{LOCATION}/queues/a_b"}),
        INVALID,
        NAME_FORM,
    ),
    "queue/create/rate": (
        lambda c: c.create_queue(
            parent=LOCATION, queue={"name": MISSING, "rate_limits": {"max_dispatches_per_second": 501}}
        ),
        INVALID,
        "RateLimits.maxDispatchesPerSecond must be less than or equal to 500.",
    ),
    "queue/get/missing": (lambda c: c.get_queue(name=MISSING), GONE, QUEUE_MISSING),
    "queue/get/deleted": (lambda c: c.get_queue(name=DELETED), GONE, QUEUE_MISSING),
    "queue/pause/missing": (lambda c: c.pause_queue(name=MISSING), GONE, QUEUE_MISSING),
    "queue/resume/missing": (lambda c: c.resume_queue(name=MISSING), GONE, QUEUE_MISSING),
    "queue/purge/missing": (lambda c: c.purge_queue(name=MISSING), GONE, QUEUE_MISSING),
    "queue/delete/missing": (lambda c: c.delete_queue(name=MISSING), GONE, ENTITY_MISSING),
    "task/create/queue-missing": (create(parent=MISSING), GONE, QUEUE_MISSING),
    "task/create/queue-deleted": (create(parent=DELETED), GONE, QUEUE_MISSING),
    "task/create/queue-mismatch": (
        create(f"{MISSING}/tasks/t"),
        INVALID,
        (
            f"The queue name from request ('{EXISTING}') must be the same as the queue name in the named task "
            f"('{MISSING}')."
        ),
    ),
    "task/create/exists": (create(f"{EXISTING}/tasks/live"), TAKEN, "Requested entity already exists"),
    "task/create/recently": (
        create(f"{EXISTING}/tasks/gone"),
        TAKEN,
        "The task cannot be created because a task with this name existed too recently.",
    ),
    "task/create/bad-id": (create(f"{EXISTING}/tasks/not a valid id"), INVALID, BAD_ID),
    "task/create/too-far": (
        create(schedule_time=FAR),
        INVALID,
        (
            "The Task.scheduleTime, 9999-12-31T15:59:59-08:00, is too far in the future. "
            "Schedule time must be no more than 720h in the future."
        ),
    ),
    "task/create/deadline": (
        create(dispatch_deadline={"seconds": 5}),
        INVALID,
        "Task.dispatchDeadline must be between [15s, 30m].",
    ),
    "task/create/size": (
        create(http_request={"url": "http://127.0.0.1:9/", "body": bytes(1_048_569)}),
        INVALID,
        "Task size too large",
    ),
    "task/get/missing": (lambda c: c.get_task(name=f"{EXISTING}/tasks/never"), GONE, ENTITY_MISSING),
    "task/get/deleted": (
        lambda c: c.get_task(name=f"{EXISTING}/tasks/gone"),
        GONE,
        (
            "The task no longer exists, though a task with this name existed recently. "
            "The task either successfully completed or was deleted."
        ),
    ),
    "task/delete/missing": (lambda c: c.delete_task(name=f"{EXISTING}/tasks/never"), GONE, ENTITY_MISSING),
    "task/delete/deleted": (lambda c: c.delete_task(name=f"{EXISTING}/tasks/gone"), GONE, ENTITY_MISSING),
    "task/run/missing": (lambda c: c.run_task(name=f"{EXISTING}/tasks/never"), GONE, ENTITY_MISSING),
}


@pytest.mark.parametrize("case", BATTERY)
def test_a11_the_recorded_error(client: Client, case: str) -> None:
    """Code and text as the client's exception has them."""
    call, kind, text = BATTERY[case]
    with pytest.raises(kind) as caught:
        call(client)

    message = caught.value.message
    assert message.startswith(text) if case == "task/create/recently" else message == text


@pytest.mark.parametrize(
    ("case", "description"),
    [("queue/create/malformed", "Definition of queue name"), ("task/create/bad-id", "Definition of task ID")],
)
def test_a11_help_reaches_the_client_as_a_detail(client: Client, case: str, description: str) -> None:
    """google.rpc.Help, as the client unpacks it."""
    call, kind, _ = BATTERY[case]
    with pytest.raises(kind) as caught:
        call(client)

    (help_,) = caught.value.details
    (link,) = help_.links
    assert link.description == description
    assert link.url.startswith("https://cloud.google.com/tasks/docs/")


def test_a11_nothing_of_the_battery_was_stored(client: Client) -> None:
    """One queue, one task."""
    for call, kind, _ in BATTERY.values():
        with pytest.raises(kind):
            call(client)

    assert [queue.name for queue in client.list_queues(parent=LOCATION)] == [EXISTING]
    assert [task.name for task in client.list_tasks(parent=EXISTING)] == [f"{EXISTING}/tasks/live"]

"""Batches: operations that are done when they are answered (wire.md section 4.11)."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import tasks_v2

from tests.conformance.wire import LOCATION, QUEUE, TASK, URL, Refused, Wire

CreateMetadata: Any = tasks_v2.BatchCreateTasksMetadata.pb()
DeleteMetadata: Any = tasks_v2.BatchDeleteTasksMetadata.pb()
CreateResponse: Any = tasks_v2.BatchCreateTasksResponse.pb()
SUCCEEDED = {"create": 2, "delete": 2}
PARTIALLY = {"create": 5, "delete": 3}
FAILED = {"create": 3, "delete": 4}


def item(task_id: str = "", *, parent: str = QUEUE, url: str = URL, view: int = 0) -> dict[str, Any]:
    """One request of a batch."""
    task: dict[str, Any] = {"http_request": {"url": url, "body": b"x"}}
    if task_id:
        task["name"] = f"{QUEUE}/tasks/{task_id}"
    return {"parent": parent, "task": task, "response_view": view}


def unpacked(packed: Any, kind: Any) -> Any:
    """What an Any holds."""
    message = kind()
    assert packed.Unpack(message)
    return message


async def test_batch_create_all_succeed(wire: Wire) -> None:
    """Done at once, with the tasks in the order of the requests, each in its view."""
    await wire.create_paused_queue()
    operation = await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item("a"), item("b", view=2), item()])

    assert operation.done
    assert operation.name.startswith(f"{LOCATION}/operations/")
    metadata = unpacked(operation.metadata, CreateMetadata)
    assert metadata.state == SUCCEEDED["create"]
    assert metadata.HasField("start_time")
    assert metadata.HasField("end_time")
    assert not metadata.failed_requests
    tasks = unpacked(operation.response, CreateResponse).tasks
    assert [task.name for task in tasks[:2]] == [f"{QUEUE}/tasks/a", f"{QUEUE}/tasks/b"]
    assert [task.http_request.body for task in tasks] == [b"", b"x", b""]
    assert len((await wire.call("ListTasks", parent=QUEUE)).tasks) == 3


async def test_batch_create_some_fail(wire: Wire) -> None:
    """Each failure by its index, with the code and text that a single create has."""
    await wire.create_paused_queue()
    await wire.create_task(name=TASK)
    requests = [item("t"), item("new"), item("a b"), item("new"), item(url="x")]
    operation = await wire.call("BatchCreateTasks", parent=QUEUE, requests=requests)

    metadata = unpacked(operation.metadata, CreateMetadata)
    assert metadata.state == PARTIALLY["create"]
    failed = {index: (status.code, status.message) for index, status in metadata.failed_requests.items()}
    assert {index: code for index, (code, _) in failed.items()} == {0: 6, 2: 3, 3: 6, 4: 3}
    assert failed[0][1] == "Requested entity already exists"
    assert failed[4][1] == "HttpTarget.url must start with 'http://' or 'https://'."
    assert [task.name for task in unpacked(operation.response, CreateResponse).tasks] == [f"{QUEUE}/tasks/new"]


@pytest.mark.parametrize("kind", ["create", "delete"])
async def test_a_batch_of_which_nothing_succeeds(wire: Wire, kind: str) -> None:
    """ABORTED, with a text that points to the metadata."""
    await wire.create_paused_queue()
    if kind == "create":
        operation = await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item("a b")])
    else:
        operation = await wire.call("BatchDeleteTasks", parent=QUEUE, names=[TASK])

    metadata = unpacked(operation.metadata, CreateMetadata if kind == "create" else DeleteMetadata)
    assert metadata.state == FAILED[kind]
    assert set(metadata.failed_requests) == {0}
    assert operation.done
    assert operation.error.code == 10
    assert operation.error.message == (
        f"None of the requests succeeded, refer to Batch{kind.capitalize()}TasksMetadata.failed_requests "
        "for individual error details"
    )


async def test_batch_create_queue_missing(wire: Wire) -> None:
    """Every request fails as its create would."""
    operation = await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item(), item()])

    metadata = unpacked(operation.metadata, CreateMetadata)
    assert {index: status.code for index, status in metadata.failed_requests.items()} == {0: 5, 1: 5}


async def test_batch_delete_some_fail(wire: Wire) -> None:
    """Missing ones, and names of another queue."""
    await wire.create_paused_queue()
    other = f"{LOCATION}/queues/other"
    await wire.create_paused_queue(other)
    for queue in (QUEUE, other):
        await wire.create_task(parent=queue, name=f"{queue}/tasks/t")
    names = [TASK, f"{QUEUE}/tasks/missing", f"{other}/tasks/t", TASK]
    operation = await wire.call("BatchDeleteTasks", parent=QUEUE, names=names)

    metadata = unpacked(operation.metadata, DeleteMetadata)
    assert metadata.state == PARTIALLY["delete"]
    assert {index: status.code for index, status in metadata.failed_requests.items()} == {1: 5, 2: 3, 3: 5}
    assert not (await wire.call("ListTasks", parent=QUEUE)).tasks
    assert len((await wire.call("ListTasks", parent=other)).tasks) == 1


@pytest.mark.parametrize("count", [0, 101])
async def test_batch_create_size(wire: Wire, count: int) -> None:
    """One to a hundred; nothing is stored otherwise."""
    await wire.create_paused_queue()

    refusal = await wire.refused("BatchCreateTasks", parent=QUEUE, requests=[item() for _ in range(count)])
    assert refusal.code == "INVALID_ARGUMENT"
    assert not (await wire.call("ListTasks", parent=QUEUE)).tasks


@pytest.mark.parametrize("count", [0, 1001])
async def test_batch_delete_size(wire: Wire, count: int) -> None:
    """One to a thousand."""
    await wire.create_paused_queue()

    refusal = await wire.refused("BatchDeleteTasks", parent=QUEUE, names=[f"{QUEUE}/tasks/{n}" for n in range(count)])
    assert refusal.code == "INVALID_ARGUMENT"


async def test_the_largest_batches_go_through(wire: Wire) -> None:
    """A hundred creates at a time, a thousand deletes."""
    await wire.create_paused_queue()
    for start in range(0, 1000, 100):
        requests = [item(f"t{number}") for number in range(start, start + 100)]
        operation = await wire.call("BatchCreateTasks", parent=QUEUE, requests=requests)
        assert unpacked(operation.metadata, CreateMetadata).state == SUCCEEDED["create"]
    names = [f"{QUEUE}/tasks/t{number}" for number in range(1000)]
    operation = await wire.call("BatchDeleteTasks", parent=QUEUE, names=names)

    assert unpacked(operation.metadata, DeleteMetadata).state == SUCCEEDED["delete"]
    assert not (await wire.call("ListTasks", parent=QUEUE)).tasks


async def test_batch_create_with_another_parent_inside(wire: Wire) -> None:
    """The whole batch is refused."""
    await wire.create_paused_queue()
    other = f"{LOCATION}/queues/other"

    refusal = await wire.refused("BatchCreateTasks", parent=QUEUE, requests=[item(), item(parent=other)])
    assert refusal.code == "INVALID_ARGUMENT"
    assert not (await wire.call("ListTasks", parent=QUEUE)).tasks


async def test_a_repeated_request_id_is_answered_as_the_first_time(wire: Wire) -> None:
    """No second batch; another id, another queue or none is another batch."""
    await wire.create_paused_queue()
    first = await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item()], request_id="r")
    again = await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item()], request_id="r")
    other = await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item()], request_id="s")
    await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item()])
    await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item()])

    assert again == first
    assert other.name != first.name
    assert len((await wire.call("ListTasks", parent=QUEUE)).tasks) == 4


async def test_get_operation(wire: Wire) -> None:
    """As it was answered; an unknown one is not found."""
    await wire.create_paused_queue()
    operation = await wire.call("BatchCreateTasks", parent=QUEUE, requests=[item()])

    assert await wire.call("GetOperation", name=operation.name) == operation
    assert await wire.refused("GetOperation", name=f"{LOCATION}/operations/x") == Refused(
        "NOT_FOUND", "Requested entity was not found."
    )

"""GetTask, ListTasks, DeleteTask, RunTask: cases with the recorded codes and texts (wire.md sections 4.8 to 4.10)."""

from __future__ import annotations

import pytest

from taskbell.core.instant import HOUR, MINUTE
from tests.conformance.answers import EXISTED, NOT_FOUND, instant, timestamp
from tests.conformance.wire import LOCATION, QUEUE, TASK, URL, Refused, Wire


@pytest.mark.parametrize("rpc", ["GetTask", "DeleteTask", "RunTask"])
async def test_a11_a_task_that_never_existed(wire: Wire, rpc: str) -> None:
    """One text for the three."""
    await wire.create_queue()

    assert await wire.refused(rpc, name=TASK) == NOT_FOUND


@pytest.mark.parametrize(("rpc", "refusal"), [("GetTask", EXISTED), ("DeleteTask", NOT_FOUND), ("RunTask", NOT_FOUND)])
async def test_a11_a_task_that_existed_recently(wire: Wire, rpc: str, refusal: Refused) -> None:
    """GetTask alone says that there was one."""
    await wire.create_paused_queue()
    await wire.create_task(name=TASK)
    await wire.call("DeleteTask", name=TASK)

    assert await wire.refused(rpc, name=TASK) == refusal


@pytest.mark.parametrize("rpc", ["GetTask", "DeleteTask", "RunTask"])
async def test_a_malformed_task_name(grpc: Wire, rpc: str) -> None:
    """What no REST path can say."""
    assert (await grpc.refused(rpc, name=QUEUE)).message.startswith("Task name must be formatted: ")
    assert (await grpc.refused(rpc, name=f"{QUEUE}/tasks/a b")).help == ("Definition of task ID",)


async def test_a04_list_tasks_pages(wire: Wire) -> None:
    """Earliest first; the union of the pages is the set; sizes are clamped; tokens are bound to the queue."""
    await wire.create_paused_queue()
    names = []
    for number in range(25):
        stamp = timestamp(wire.clock.now() + (number * 7 % 25) * MINUTE)
        names.append((instant(stamp), (await wire.create_task(schedule_time=stamp)).name))
    for size in (1, 7, 10, 25, 26, 0, 2000):
        seen: list[str] = []
        token, pages = "", 0
        while pages == 0 or token:
            page = await wire.call("ListTasks", parent=QUEUE, page_size=size, page_token=token)
            seen += [task.name for task in page.tasks]
            assert len(page.tasks) == min(size or 1000, 25 - len(seen) + len(page.tasks))
            token, pages = page.next_page_token, pages + 1
        assert seen == [name for _, name in sorted(names)]
    token = (await wire.call("ListTasks", parent=QUEUE, page_size=1)).next_page_token
    await wire.create_queue(f"{LOCATION}/queues/other")
    for fields in (
        {"parent": QUEUE, "page_token": "nonsense"},
        {"parent": f"{LOCATION}/queues/other", "page_token": token},
        {"parent": QUEUE, "page_size": -5},
    ):
        assert (await wire.refused("ListTasks", **fields)).code == "INVALID_ARGUMENT"


async def test_a04_tasks_that_go_and_come_between_pages_neither_repeat_nor_hide_others(wire: Wire) -> None:
    """The token says where, not how many."""
    await wire.create_paused_queue()
    names = [(await wire.create_task(schedule_time=timestamp(wire.clock.now() + i * MINUTE))).name for i in range(1, 7)]
    page = await wire.call("ListTasks", parent=QUEUE, page_size=3)
    await wire.call("DeleteTask", name=names[0])
    await wire.call("DeleteTask", name=names[2])
    await wire.create_task()
    rest = await wire.call("ListTasks", parent=QUEUE, page_size=10, page_token=page.next_page_token)

    assert [task.name for task in (*page.tasks, *rest.tasks)] == names


async def test_delete_task_is_final(wire: Wire) -> None:
    """It is not listed any more."""
    await wire.create_paused_queue()
    await wire.create_task(name=TASK)
    await wire.call("DeleteTask", name=TASK)

    assert not (await wire.call("ListTasks", parent=QUEUE)).tasks
    assert await wire.refused("DeleteTask", name=TASK) == NOT_FOUND


@pytest.mark.parametrize("view", [0, 2])
async def test_run_task_answers_the_task_as_just_dispatched(wire: Wire, view: int) -> None:
    """One dispatch, no response yet, on a queue that is paused and a task that is due in an hour."""
    await wire.create_paused_queue()
    stamp = timestamp(wire.clock.now() + HOUR)
    request = {"url": URL, "body": b"x"}
    await wire.create_task(name=TASK, schedule_time=stamp, http_request=request)
    wire.clock.advance(MINUTE)
    task = await wire.call("RunTask", name=TASK, response_view=view)

    assert (task.dispatch_count, task.response_count) == (1, 0)
    assert instant(task.first_attempt.dispatch_time) == wire.clock.now()
    assert instant(task.last_attempt.dispatch_time) == wire.clock.now()
    assert not task.last_attempt.HasField("response_status")
    assert task.http_request.body == (b"x" if view == 2 else b"")
    assert task.view == max(view, 1)


@pytest.mark.parametrize(
    ("rpc", "fields"),
    [
        ("GetQueue", {"name": QUEUE}), ("PurgeQueue", {"name": QUEUE}), ("PauseQueue", {"name": QUEUE}),
        ("ResumeQueue", {"name": QUEUE}), ("DeleteQueue", {"name": QUEUE}), ("ListTasks", {"parent": QUEUE}),
        ("GetTask", {"name": TASK}), ("DeleteTask", {"name": TASK}), ("RunTask", {"name": TASK}),
        ("GetIamPolicy", {"resource": QUEUE}),
    ],
)  # fmt: skip
async def test_a11_everything_on_a_queue_that_never_existed_is_not_found(
    wire: Wire, rpc: str, fields: dict[str, str]
) -> None:
    """Whatever the text."""
    assert (await wire.refused(rpc, **fields)).code == "NOT_FOUND"

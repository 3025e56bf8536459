"""CreateTask: what it answers, and names (wire.md section 4.7)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from taskbell.core.instant import DAY, SECOND
from tests.conformance.answers import AGENT, EXISTED, GAE_AGENT, NOT_FOUND, QUEUE_MISSING, instant, one, timestamp
from tests.conformance.wire import LOCATION, QUEUE, TASK, URL, Refused, Wire

# CreateTask: what it answers.


async def test_create_task_answers_the_stored_task_in_basic_view(wire: Wire) -> None:
    """The create time in whole seconds, the schedule time in microseconds; POST, and ten minutes for an answer."""
    await wire.create_paused_queue()
    wire.clock.advance(123_456)
    task = await wire.create_task(http_request={"url": "http://w/h", "headers": {"a": "b"}, "body": b'{"a":1}'})

    assert task.name.startswith(f"{QUEUE}/tasks/")
    assert task.name.rpartition("/")[2].isdigit()
    assert task.view == 1
    assert instant(task.schedule_time) == wire.clock.now()
    assert instant(task.create_time) == wire.clock.now() - 123_456
    assert task.dispatch_deadline == Duration(seconds=600)
    assert task.http_request.http_method == 1
    assert task.http_request.body == b""
    assert dict(task.http_request.headers) == {"a": "b", "User-Agent": AGENT}
    assert {field.name for field, _ in task.ListFields()} == {
        "name", "http_request", "schedule_time", "create_time", "dispatch_deadline", "view",
    }  # fmt: skip
    assert await wire.call("GetTask", name=task.name) == task


async def test_a01_views_differ_by_the_body_alone(wire: Wire) -> None:
    """BASIC is the default everywhere; FULL has the body; each says which it is."""
    await wire.create_paused_queue()
    request = {"url": "http://w/h", "headers": {"a": "b"}, "body": b"\0\xff\xf0"}
    created = {view: await wire.create_task(http_request=request, view=view) for view in (0, 1, 2)}
    for view, task in created.items():
        got = await wire.call("GetTask", name=task.name, response_view=view)
        assert got == task
        assert got.view == max(view, 1)
        assert got.http_request.body == (b"\0\xff\xf0" if view == 2 else b"")
        assert got.http_request.url == "http://w/h"
        assert dict(got.http_request.headers) == {"a": "b", "User-Agent": AGENT}
        listed = await wire.call("ListTasks", parent=QUEUE, response_view=view)
        assert got in listed.tasks


HEADERS = {"content-type": "application/json", "X-Mixed-Case": "preserve-me"}
BODY = b"x" * 17


@pytest.mark.parametrize("view", [1, 2])
@pytest.mark.parametrize(
    ("kind", "headers", "body", "stored"),
    [
        ("http_request", HEADERS, BODY, {**HEADERS, "User-Agent": AGENT}),
        ("http_request", {}, BODY, {"User-Agent": AGENT}),
        ("http_request", {"user-agent": "mine"}, b"", {"User-Agent": AGENT}),
        (
            "app_engine_http_request",
            HEADERS,
            BODY,
            {**HEADERS, "User-Agent": GAE_AGENT, "Content-Length": "17"},
        ),
        (
            "app_engine_http_request",
            {},
            BODY,
            {"User-Agent": GAE_AGENT, "Content-Length": "17", "Content-Type": "application/octet-stream"},
        ),
        ("app_engine_http_request", {}, b"", {"User-Agent": GAE_AGENT}),
        ("app_engine_http_request", {"user-agent": "mine"}, b"", {"User-Agent": f"mine {GAE_AGENT}"}),
    ],
)
async def test_a02_headers_at_rest(
    wire: Wire, kind: str, headers: dict[str, str], body: bytes, *, stored: dict[str, str], view: int
) -> None:
    """Keys verbatim, with exactly what the service adds, in every view."""
    await wire.create_paused_queue()
    request: dict[str, Any] = {"headers": headers, "body": body}
    if kind == "http_request":
        request["url"] = URL
    task = await wire.create_task(view=view, **one(kind, request))

    assert dict(getattr(task, kind).headers) == stored


async def test_h09_reserved_headers_are_dropped_at_create(wire: Wire) -> None:
    """In any case of letters; no error."""
    await wire.create_paused_queue()
    forged = ["Host", "content-length", "X-CloudTasks-TaskName", "x-cloudtasks-queuename", "X-AppEngine-QueueName"]
    headers = {**dict.fromkeys(forged, "forged"), "x-GOOGLE-foo": "forged", "X-Mine": "1"}
    task = await wire.create_task(http_request={"url": URL, "headers": headers})

    assert dict(task.http_request.headers) == {"X-Mine": "1", "User-Agent": AGENT}


async def test_create_app_engine_task_defaults(wire: Wire) -> None:
    """The relative URI is the root, and no deadline is stored: the service's scaling decides."""
    await wire.create_paused_queue()
    task = await wire.create_task(app_engine_http_request={"app_engine_routing": {"service": "worker"}})

    assert task.app_engine_http_request.relative_uri == "/"
    assert task.app_engine_http_request.http_method == 1
    assert task.app_engine_http_request.app_engine_routing.service == "worker"
    assert not task.HasField("dispatch_deadline")


async def test_create_task_keeps_tokens_and_retry_settings(wire: Wire) -> None:
    """As sent, in every view; no bearer appears."""
    await wire.create_paused_queue()
    oidc = {"service_account_email": "a@p", "audience": "x"}
    task = await wire.create_task(http_request={"url": URL, "oidc_token": oidc}, retry_config={"max_attempts": 3})

    assert task.http_request.oidc_token.audience == "x"
    assert task.http_request.oidc_token.service_account_email == "a@p"
    assert task.retry_config.max_attempts == 3
    assert "authorization" not in {name.lower() for name in task.http_request.headers}


@pytest.mark.parametrize("kind", ["oidcToken", "oauthToken"])
async def test_o08_create_task_token_without_a_service_account(wire: Wire, kind: str) -> None:
    """Refused at create, since no attempt could be authorized."""
    await wire.create_queue()
    field = kind.replace("T", "_t")

    assert await wire.create_task_refused(http_request={"url": URL, field: {}}) == Refused(
        "INVALID_ARGUMENT", f"HttpRequest.{kind}.serviceAccountEmail is required."
    )


async def test_create_task_ignores_output_only_fields(wire: Wire) -> None:
    """Counters, attempts and the create time are the server's."""
    await wire.create_paused_queue()
    task = await wire.create_task(
        create_time=timestamp(0), dispatch_count=7, response_count=7, view=2,
        first_attempt={"dispatch_time": timestamp(1)},
    )  # fmt: skip

    assert (task.dispatch_count, task.response_count, task.HasField("first_attempt")) == (0, 0, False)
    assert instant(task.create_time) == wire.clock.now()


async def test_r12_a_queue_accepts_tasks_while_it_is_paused(wire: Wire) -> None:
    """Nothing is dispatched."""
    await wire.create_paused_queue()
    task = await wire.create_task()

    assert (await wire.call("GetTask", name=task.name)).dispatch_count == 0


async def test_n07_unnamed_tasks_get_names_of_their_own(wire: Wire) -> None:
    """Each of them can be read back."""
    await wire.create_paused_queue()
    names = [(await wire.create_task()).name for _ in range(50)]

    assert len(set(names)) == 50
    for name in names:
        assert (await wire.call("GetTask", name=name)).name == name


# CreateTask: names.


async def test_n08_create_task_exists(wire: Wire) -> None:
    """The recorded text, without a full stop; code 6 and 409."""
    await wire.create_paused_queue()
    task = await wire.create_task(name=TASK)

    assert task.name == TASK
    assert await wire.create_task_refused(name=TASK) == Refused("ALREADY_EXISTS", "Requested entity already exists")


@pytest.mark.parametrize("end", ["deleted", "purged"])
async def test_n01_a_name_is_blocked_for_a_day_after_its_task_is_gone(wire: Wire, end: str) -> None:
    """GetTask says that there was one; afterwards the name is free."""
    await wire.create_paused_queue()
    await wire.create_task(name=TASK)
    await (wire.call("DeleteTask", name=TASK) if end == "deleted" else wire.call("PurgeQueue", name=QUEUE))
    for span in (0, DAY - SECOND):
        wire.clock.advance(span)
        refusal = await wire.create_task_refused(name=TASK)
        assert refusal.code == "ALREADY_EXISTS"
        assert refusal.message.startswith(
            "The task cannot be created because a task with this name existed too recently."
        )
        assert await wire.refused("GetTask", name=TASK) == EXISTED
    wire.clock.advance(SECOND)
    assert await wire.refused("GetTask", name=TASK) == NOT_FOUND
    await wire.create_task(name=TASK)


@pytest.mark.parametrize("task_id", ["not a valid id", "ü", "a.b", "a" * 501])
async def test_create_task_bad_id(wire: Wire, task_id: str) -> None:
    """With help on the definition of a task id."""
    await wire.create_paused_queue()

    assert await wire.create_task_refused(name=f"{QUEUE}/tasks/{task_id}") == Refused(
        "INVALID_ARGUMENT",
        f'Task ID "{task_id}" can contain only letters ([A-Za-z]), numbers ([0-9]), hyphens (-), or underscores (_). '
        "Task ID must between 1 and 500 characters.",
        ("Definition of task ID",),
    )


async def test_create_task_malformed_name(wire: Wire) -> None:
    """The reported text, without a full stop."""
    await wire.create_paused_queue()

    assert await wire.create_task_refused(name="t") == Refused(
        "INVALID_ARGUMENT",
        "Task name must be formatted: "
        '"projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>/tasks/<TASK_ID>"',
    )


@pytest.mark.parametrize(
    "other",
    [
        f"{LOCATION}/queues/other",
        "projects/p/locations/europe-west1/queues/q",
        "projects/x/locations/us-central1/queues/q",
    ],
)
async def test_n09_create_task_name_of_another_queue(wire: Wire, other: str) -> None:
    """Another id, location or project; nothing is created anywhere."""
    await wire.create_paused_queue()
    await wire.create_paused_queue(other)

    assert await wire.create_task_refused(name=f"{other}/tasks/t") == Refused(
        "INVALID_ARGUMENT",
        f"The queue name from request ('{QUEUE}') must be the same as the queue name in the named task ('{other}').",
    )
    for queue in (QUEUE, other):
        assert not (await wire.call("ListTasks", parent=queue)).tasks


async def test_n06_create_task_queue_missing(wire: Wire) -> None:
    """And tombstoned; no queue appears."""
    assert await wire.create_task_refused() == Refused("NOT_FOUND", QUEUE_MISSING)
    assert not (await wire.call("ListQueues", parent=LOCATION)).queues
    await wire.create_queue()
    await wire.call("DeleteQueue", name=QUEUE)
    assert await wire.create_task_refused() == Refused("NOT_FOUND", QUEUE_MISSING)


async def test_create_task_malformed_parent(grpc: Wire) -> None:
    """What no REST path can say."""
    refusal = await grpc.create_task_refused(parent="q")

    assert (refusal.code, refusal.help) == ("INVALID_ARGUMENT", ("Definition of queue name",))

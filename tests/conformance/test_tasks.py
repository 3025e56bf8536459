"""Tasks: cases named by RPC and condition, with the recorded codes and texts (wire.md sections 4.7 to 4.10)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND, Instant
from tests.conformance.wire import LOCATION, QUEUE, TASK, URL, Refused, Wire

QUEUE_MISSING = (
    "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize."
)
NOT_FOUND = Refused("NOT_FOUND", "Requested entity was not found.")
EXISTED = Refused(
    "NOT_FOUND",
    "The task no longer exists, though a task with this name existed recently. "
    "The task either successfully completed or was deleted.",
)
AGENT = "Google-Cloud-Tasks"
GAE_AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"


def timestamp(instant: Instant) -> Timestamp:
    """A Timestamp."""
    return Timestamp(seconds=instant // SECOND, nanos=instant % SECOND * 1000)


def instant(stamp: Any) -> Instant:
    """The instant of a Timestamp of whole microseconds."""
    assert stamp.nanos % 1000 == 0
    return int(stamp.seconds) * SECOND + int(stamp.nanos) // 1000


def one(kind: str, request: dict[str, Any]) -> dict[str, Any]:
    """The payload of a task."""
    return {kind: request}


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


# CreateTask: time.


@pytest.mark.parametrize("ahead", [719 * HOUR + 59 * MINUTE, 720 * HOUR])
async def test_s01_create_task_within_the_horizon(wire: Wire, ahead: int) -> None:
    """Up to 720 hours, to the microsecond."""
    await wire.create_queue()
    task = await wire.create_task(schedule_time=timestamp(wire.clock.now() + ahead))

    assert instant(task.schedule_time) == wire.clock.now() + ahead


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        # The clock stands at 2027-01-15T08:00:00Z; 720 h 5 min later it is still winter in California.
        (1_800_000_000 + 720 * 3600 + 300, "2027-02-14T00:05:00-08:00"),
        (1_800_000_000 + 200 * 86400, "2027-08-03T01:00:00-07:00"),
        (253_402_300_799, "9999-12-31T15:59:59-08:00"),
    ],
)
async def test_s01_create_task_beyond_the_horizon(wire: Wire, stamp: int, text: str) -> None:
    """The text has the time in US Pacific's offset and the limit."""
    await wire.create_queue()

    assert await wire.create_task_refused(schedule_time=Timestamp(seconds=stamp)) == Refused(
        "INVALID_ARGUMENT",
        f"The Task.scheduleTime, {text}, is too far in the future. "
        "Schedule time must be no more than 720h in the future.",
    )
    assert not (await wire.call("ListTasks", parent=QUEUE)).tasks


@pytest.mark.parametrize("stamp", [None, 0, 1_800_000_000 - 86400, -62_135_596_800])
async def test_s03_create_task_in_the_past(wire: Wire, stamp: int | None) -> None:
    """Absent, 1970, yesterday and the year 1 all mean now."""
    await wire.create_paused_queue()
    fields: dict[str, Any] = {} if stamp is None else {"schedule_time": Timestamp(seconds=stamp)}
    task = await wire.create_task(**fields)

    assert instant(task.schedule_time) == wire.clock.now()


async def test_create_task_truncates_times_as_documented(wire: Wire) -> None:
    """The schedule time to microseconds, the deadline to milliseconds."""
    await wire.create_queue()
    stamp = Timestamp(seconds=1_800_000_100, nanos=123_456_789)
    task = await wire.create_task(schedule_time=stamp, dispatch_deadline=Duration(seconds=20, nanos=123_456_789))

    assert (task.schedule_time.nanos, task.dispatch_deadline.nanos) == (123_456_000, 123_000_000)


async def test_create_task_impossible_timestamps(grpc: Wire) -> None:
    """Outside the years 1 to 9999, or with a fraction that is none."""
    await grpc.create_queue()
    for stamp in (
        Timestamp(seconds=253_402_300_800),
        Timestamp(seconds=-62_135_596_801),
        Timestamp(seconds=1, nanos=-1),
        Timestamp(seconds=1, nanos=10**9),
        Timestamp(seconds=2**62),
    ):
        assert (await grpc.create_task_refused(schedule_time=stamp)).code == "INVALID_ARGUMENT"


HTTP_BOUNDS = "Task.dispatchDeadline must be between [15s, 30m]."
GAE_BOUNDS = "Task.dispatchDeadline must be between [15s, 24h15s]."


@pytest.mark.parametrize(
    ("kind", "deadline", "text"),
    [
        ("http_request", 0, HTTP_BOUNDS),
        ("http_request", 14.999999, HTTP_BOUNDS),
        ("http_request", 15, None),
        ("http_request", 1800, None),
        ("http_request", 1800.001, HTTP_BOUNDS),
        ("http_request", -1, HTTP_BOUNDS),
        ("app_engine_http_request", 14.9, GAE_BOUNDS),
        ("app_engine_http_request", 15, None),
        ("app_engine_http_request", 86415, None),
        ("app_engine_http_request", 86416, GAE_BOUNDS),
    ],
)
async def test_h16_create_task_dispatch_deadline(wire: Wire, kind: str, deadline: float, text: str | None) -> None:
    """15 s to 30 min over HTTP, to 24 h 15 s on App Engine."""
    await wire.create_paused_queue()
    request: dict[str, Any] = {"url": URL} if kind == "http_request" else {}
    duration = Duration(seconds=int(deadline), nanos=round((deadline - int(deadline)) * 1e9))
    fields: dict[str, Any] = {kind: request, "dispatch_deadline": duration}
    if text is None:
        assert (await wire.create_task(**fields)).dispatch_deadline == duration
    else:
        assert await wire.create_task_refused(**fields) == Refused("INVALID_ARGUMENT", text)


async def test_create_app_engine_task_deadline_zero_is_the_default(wire: Wire) -> None:
    """Explicit 0 leaves it to the service."""
    await wire.create_paused_queue()
    task = await wire.create_task(app_engine_http_request={}, dispatch_deadline=Duration())

    assert not task.HasField("dispatch_deadline")


# CreateTask: target.


async def test_a09_create_task_without_a_payload(wire: Wire) -> None:
    """None, and a URL that is missing; no row."""
    await wire.create_queue()

    assert await wire.create_task_refused(payload=None) == Refused("INVALID_ARGUMENT", "Task.payload_type is not set.")
    assert await wire.create_task_refused(http_request={}) == Refused(
        "INVALID_ARGUMENT", "HttpRequest.url is required."
    )
    assert not (await wire.call("ListTasks", parent=QUEUE)).tasks


@pytest.mark.parametrize("url", ["example.com", "ftp://example.com/", "//example.com", "HTTPX://h/"])
async def test_create_task_url_of_another_scheme(wire: Wire, url: str) -> None:
    """The recorded text names HttpTarget."""
    await wire.create_queue()

    assert await wire.create_task_refused(http_request={"url": url}) == Refused(
        "INVALID_ARGUMENT", "HttpTarget.url must start with 'http://' or 'https://'."
    )


@pytest.mark.parametrize("url", ["http://h/%zz", "HTTP://h/", "https://h", "http://[::1]:8080/x?y#z", "http://h/é x"])
async def test_create_task_keeps_the_url_as_it_was_given(wire: Wire, url: str) -> None:
    """A bad percent escape is accepted too: it fails when it is dispatched."""
    await wire.create_paused_queue()

    assert (await wire.create_task(http_request={"url": url})).http_request.url == url


async def test_create_task_url_length(wire: Wire) -> None:
    """2083 characters once encoded."""
    await wire.create_paused_queue()
    longest = "http://h/" + "a" * 2074
    assert (await wire.create_task(http_request={"url": longest})).http_request.url == longest
    for url in (longest + "a", "http://h/" + "é" * 346):
        assert (await wire.create_task_refused(http_request={"url": url})).code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("uri", ["tasks/x", "/a b", "/" + "a" * 2083, "http://h/"])
async def test_h21_create_app_engine_task_bad_relative_uri(wire: Wire, uri: str) -> None:
    """It begins with a slash, has no spaces, and is not too long."""
    await wire.create_queue()

    refusal = await wire.create_task_refused(app_engine_http_request={"relative_uri": uri})
    assert refusal.code == "INVALID_ARGUMENT"
    assert "relativeUri" in refusal.message


METHODS = {"POST": 1, "GET": 2, "HEAD": 3, "PUT": 4, "DELETE": 5, "PATCH": 6, "OPTIONS": 7}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("kind", "allowed"), [("http_request", {"POST", "PUT", "PATCH"}), ("app_engine_http_request", {"POST", "PUT"})]
)
async def test_h08_create_task_body_and_method(wire: Wire, kind: str, allowed: set[str], method: str) -> None:
    """A body only where the method may have one; without a body every method goes."""
    await wire.create_paused_queue()
    request: dict[str, Any] = {"http_method": METHODS[method]}
    if kind == "http_request":
        request["url"] = URL
    task = await wire.create_task(**one(kind, request))
    assert getattr(task, kind).http_method == METHODS[method]

    request["body"] = b"x"
    if method in allowed:
        await wire.create_task(**one(kind, request))
    else:
        refusal = await wire.create_task_refused(**one(kind, request))
        assert refusal.code == "INVALID_ARGUMENT"
        assert method in refusal.message


async def test_create_task_unknown_method(grpc: Wire) -> None:
    """An enum number that nobody knows."""
    await grpc.create_queue()

    assert (await grpc.create_task_refused(http_request={"url": URL, "http_method": 8})).code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(("size", "fits"), [(80 * 1024 - 1, True), (80 * 1024, False)])
async def test_a12_create_task_headers_size(wire: Wire, size: int, *, fits: bool) -> None:
    """Less than 80 KB, names and values together."""
    await wire.create_paused_queue()
    headers = {"X": "v" * (size - 1)}
    if fits:
        await wire.create_task(http_request={"url": URL, "headers": headers})
    else:
        refusal = await wire.create_task_refused(http_request={"url": URL, "headers": headers})
        assert refusal.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("headers", [{"": "x"}, {"a b": "x"}, {"é": "x"}, {"a": "x\r\ny: z"}, {"a": "\0"}, {"a:": "b"}])
async def test_create_task_headers_that_http_cannot_carry(wire: Wire, headers: dict[str, str]) -> None:
    """Refused now, rather than at every attempt."""
    await wire.create_queue()

    refusal = await wire.create_task_refused(http_request={"url": URL, "headers": headers})
    assert refusal.code == "INVALID_ARGUMENT"


async def body_for(wire: Wire, kind: str, size: int) -> bytes:
    """The body that makes a stored task exactly this large."""
    request: dict[str, Any] = {"url": URL} if kind == "http_request" else {}
    body = b"x" * 1_048_000
    task = await wire.create_task(view=2, name=f"{QUEUE}/tasks/probe", **one(kind, {**request, "body": body}))
    return body + b"x" * (size - int(task.ByteSize()))


@pytest.mark.parametrize("kind", ["http_request", "app_engine_http_request"])
async def test_a12_create_task_size(wire: Wire, kind: str) -> None:
    """1,048,569 bytes of the serialized stored task are accepted, one more is not."""
    await wire.create_paused_queue()
    request: dict[str, Any] = {"url": URL} if kind == "http_request" else {}
    body = await body_for(wire, kind, 1_048_569)
    task = await wire.create_task(view=2, name=f"{QUEUE}/tasks/exact", **one(kind, {**request, "body": body}))
    assert task.ByteSize() == 1_048_569
    assert getattr(task, kind).body == body

    assert await wire.create_task_refused(
        name=f"{QUEUE}/tasks/large", **one(kind, {**request, "body": body + b"x"})
    ) == Refused("INVALID_ARGUMENT", "Task size too large")


async def test_a12_create_task_size_counts_more_than_the_body(wire: Wire) -> None:
    """A token's audience of two megabytes is no way around it."""
    await wire.create_paused_queue()
    token = {"service_account_email": "a@p", "audience": "x" * 2_000_000}

    assert await wire.create_task_refused(http_request={"url": URL, "oidc_token": token}) == Refused(
        "INVALID_ARGUMENT", "Task size too large"
    )


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"max_attempts": -2}, "RetryConfig.maxAttempts must be greater or equal to -1."),
        ({"max_doublings": -1}, "RetryConfig.maxDoublings cannot be negative."),
    ],
)
async def test_create_task_retry_settings_out_of_range(wire: Wire, config: dict[str, int], text: str) -> None:
    """As for a queue."""
    await wire.create_queue()

    assert await wire.create_task_refused(retry_config=config) == Refused("INVALID_ARGUMENT", text)


# GetTask, ListTasks, DeleteTask, RunTask.


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

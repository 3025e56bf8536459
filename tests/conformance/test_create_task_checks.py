"""CreateTask: times, deadlines, targets and sizes (wire.md section 4.7)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from taskbell.core.instant import HOUR, MINUTE
from tests.conformance.answers import instant, one, timestamp
from tests.conformance.wire import QUEUE, URL, Refused, Wire

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

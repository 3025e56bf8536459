from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
import structlog.testing

from taskbell.api.methods import all_methods
from tests.api.rest_server import LOCATION, MAX_BYTES, QUEUE, RestServer, server_with_queue

TASKS = f"/v2/{QUEUE}/tasks"
TASK = {"httpRequest": {"url": "http://example.com/x", "body": "aGk="}, "scheduleTime": "2026-06-01T00:00:00.5Z"}


async def test_a_queue_is_created_read_and_deleted() -> None:
    """The bare resource is the body; proto3 JSON is the answer; delete answers an empty object."""
    server = RestServer()

    created = await server.call("POST", f"/v2/{LOCATION}/queues", {"name": QUEUE})
    read = await server.call("GET", f"/v2/{QUEUE}")
    deleted = await server.call("DELETE", f"/v2/{QUEUE}")

    assert (created.status, created.headers["content-type"]) == (200, "application/json; charset=UTF-8")
    assert created.headers["content-length"] == str(len(created.body))
    assert created.json == read.json == {
        "name": QUEUE,
        "rateLimits": {"maxDispatchesPerSecond": 500, "maxBurstSize": 100, "maxConcurrentDispatches": 1000},
        "retryConfig": {"maxAttempts": 100, "minBackoff": "0.100s", "maxBackoff": "3600s", "maxDoublings": 16},
        "state": "RUNNING",
    }  # fmt: skip
    assert (deleted.status, deleted.body) == (200, b"{}")
    assert server.dispatch.told == [f"changed {QUEUE}", f"deleted {QUEUE}"]


async def test_errors_are_googles_body_with_help_links() -> None:
    """Code, message, status and details, as clients of both families parse them."""
    answer = await RestServer().call("POST", f"/v2/{LOCATION}/queues", {"name": "nonsense"})

    assert answer.status == 400
    error = answer.json["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["message"].startswith("Queue name must be formatted: ")
    assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.Help"
    assert error["details"][0]["links"][0]["description"] == "Definition of queue name"


@pytest.mark.parametrize(
    ("query", "method", "view"),
    [("", "POST", "FULL"), ("&$alt=json;enum-encoding=int", 1, 2), ("&alt=json", "POST", "FULL")],
)
async def test_both_dialects_are_answered(query: str, method: Any, view: Any) -> None:
    """Enums by name, or as integers for those who ask so."""
    server = await server_with_queue()
    name = (await server.call("POST", TASKS, {"task": TASK})).json["name"]

    task = (await server.call("GET", f"/v2/{name}?responseView=FULL{query}")).json

    assert (task["httpRequest"]["httpMethod"], task["view"]) == (method, view)
    assert task["httpRequest"]["body"] == "aGk="
    assert task["scheduleTime"] == "2026-06-01T00:00:00.500Z"


@pytest.mark.parametrize(
    ("view", "has_body"),
    [("", False), ("?responseView=BASIC", False), ("?responseView=FULL", True), ("?responseView=2", True)],
)
async def test_views_are_asked_for_in_the_query(view: str, has_body: bool) -> None:  # noqa: FBT001 - a column
    """BASIC hides the body and keeps the rest (case A01)."""
    server = await server_with_queue()
    name = (await server.call("POST", TASKS, {"task": TASK})).json["name"]

    one = (await server.call("GET", f"/v2/{name}{view}")).json["httpRequest"]
    (listed,) = (await server.call("GET", f"{TASKS}{view}")).json["tasks"]

    assert ("body" in one, "body" in listed["httpRequest"]) == (has_body, has_body)
    assert one["url"] == "http://example.com/x"
    assert one["headers"] == {"User-Agent": "Google-Cloud-Tasks"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Task.payload_type is not set."),
        ({"task": {}}, "Task.payload_type is not set."),
        ({"task": {"httpRequest": {}}}, "HttpRequest.url is required."),
        ({"task": {"httpRequest": {"url": "http://x"}, "appEngineHttpRequest": {}}}, "oneof field 'message_type'"),
        ({"task": {**TASK, "scheduleTime": {"seconds": 1}}}, "'task.schedule_time'"),
        ({"task": {**TASK, "scheduleTime": "1671593022"}}, "'task.schedule_time'"),
        ({"task": {"httpRequest": {"url": "http://x", "body": "***"}}}, "'task.http_request.body' (TYPE_BYTES)"),
        ({"task": {"httpRequest": {"url": "http://x", "body": '"{}"'}}}, "'task.http_request.body' (TYPE_BYTES)"),
        (b"", "Task.payload_type is not set."),
        (b"[]", "Root element must be a message."),
        (b'{"task":', "Invalid JSON payload received."),
        (b'{"a":' * 200_000, "nested too deeply"),
    ],
)
async def test_a_refused_create_leaves_no_task(body: Any, message: str) -> None:
    """Cases A09, S06 and H06: 400 that says what is wrong, and nothing is stored."""
    server = await server_with_queue()

    answer = await server.call("POST", TASKS, body)

    status, code, text = answer.refusal
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert message in text
    assert (await server.call("GET", TASKS)).json == {}


async def test_batches_answer_finished_operations_whose_types_resolve() -> None:
    """The operation carries its metadata and response as JSON with their types."""
    server = await server_with_queue()

    created = (await server.call("POST", f"{TASKS}:batchCreate", {"requests": [{"task": TASK}, {}]})).json
    names = [task["name"] for task in created["response"]["tasks"]]
    deleted = (await server.call("POST", f"{TASKS}:batchDelete?fields=done,metadata/state", {"names": names})).json
    again = (await server.call("GET", f"/v2/{created['name']}")).json

    assert created["done"] is True
    assert created["metadata"]["@type"] == "type.googleapis.com/google.cloud.tasks.v2.BatchCreateTasksMetadata"
    assert created["metadata"]["failedRequests"] == {"1": {"code": 3, "message": "Task.payload_type is not set."}}
    assert created["response"]["@type"] == "type.googleapis.com/google.cloud.tasks.v2.BatchCreateTasksResponse"
    assert deleted == {"done": True, "metadata": {"state": "SUCCEEDED"}}
    assert again == created


@pytest.mark.parametrize(
    "mask", ["rateLimits.maxDispatchesPerSecond", "rate_limits.max_dispatches_per_second", "rateLimits%2CretryConfig"]
)
async def test_masks_come_in_either_case(mask: str) -> None:
    """The path's name wins over the body's, and the mask says what is laid over."""
    server = await server_with_queue()
    sent = {"name": "projects/other/locations/l/queues/q", "rateLimits": {"maxDispatchesPerSecond": 3}}

    queue = (await server.call("PATCH", f"/v2/{QUEUE}?updateMask={mask}", sent)).json

    assert (queue["name"], queue["rateLimits"]["maxDispatchesPerSecond"]) == (QUEUE, 3)


async def test_a_wrong_mask_is_refused() -> None:
    """A mask that names no field has no effect."""
    answer = await (await server_with_queue()).call("PATCH", f"/v2/{QUEUE}?updateMask=colour", {})

    assert answer.refusal == (400, "INVALID_ARGUMENT", "Invalid mask for Queue: colour")


async def test_lists_are_filtered() -> None:
    """ListQueues takes its filter from the query, escaped."""
    server = await server_with_queue()
    await server.call("POST", f"/v2/{QUEUE}:pause")

    async def names(text: str) -> list[str]:
        answer = await server.call("GET", f"/v2/{LOCATION}/queues?{urlencode({'filter': text})}")
        return [queue["name"] for queue in answer.json.get("queues", ())]

    assert await names("state: PAUSED") == [QUEUE]
    assert await names("state: RUNNING OR name: nowhere") == []


async def test_bodies_are_ignored_where_there_is_nothing_to_say() -> None:
    """Some clients send `{}` or worse with a GET or DELETE."""
    server = await server_with_queue()

    assert (await server.call("GET", f"/v2/{QUEUE}", b"\xff", {"content-encoding": "br"})).status == 200
    assert (await server.call("DELETE", f"/v2/{QUEUE}", {"force": True})).status == 200


async def test_empty_bodies_are_empty_messages() -> None:
    """`curl -X POST` sends neither a body nor a type."""
    server = await server_with_queue()

    assert (await server.call("POST", f"/v2/{QUEUE}:pause")).json["state"] == "PAUSED"
    assert (await server.call("POST", f"/v2/{QUEUE}:resume", {})).json["state"] == "RUNNING"


async def test_view_of_a_run_may_stand_in_the_query() -> None:
    """What the body does not set, the query may."""
    server = await server_with_queue()
    name = (await server.call("POST", TASKS, {"task": TASK})).json["name"]

    assert (await server.call("POST", f"/v2/{name}:run?responseView=FULL")).json["view"] == "FULL"
    assert (await server.call("POST", f"/v2/{name}:run", {"responseView": "FULL"})).json["view"] == "FULL"
    twice = await server.call("POST", f"/v2/{name}:run?responseView=FULL", {"responseView": "BASIC"})
    assert twice.status == 400
    assert server.dispatch.told.count(f"run {name}") == 2


async def test_too_much_is_refused_without_reading_it() -> None:
    """A declared length is enough; an undeclared body is read up to the limit and no further (case A12)."""
    server = await server_with_queue()
    text = f"Request payload size exceeds the limit: {MAX_BYTES} bytes."
    huge = b" " * (30 << 20)

    declared = await server.call("POST", TASKS, huge, {"content-length": str(len(huge))})
    assert declared.refusal == (400, "INVALID_ARGUMENT", text)
    assert declared.headers["connection"] == "close"
    assert server.chunks_read == 0

    undeclared = await server.call("POST", TASKS, huge)
    assert undeclared.refusal == (400, "INVALID_ARGUMENT", text)
    assert server.chunks_read == MAX_BYTES // 65536 + 1


async def test_compressed_bodies() -> None:
    """A gzip is understood; the limit holds for what comes out of it."""
    server = await server_with_queue()
    body = json.dumps({"task": TASK}).encode()
    gzipped = {"content-encoding": "gzip"}

    assert (await server.call("POST", TASKS, gzip.compress(body), gzipped)).status == 200
    bomb = await server.call("POST", TASKS, gzip.compress(b" " * (MAX_BYTES + 1)), gzipped)
    assert bomb.refusal[2] == f"Request payload size exceeds the limit: {MAX_BYTES} bytes."
    for broken in (b"nonsense", gzip.compress(body)[:-4], gzip.compress(body) + b"more"):
        assert (await server.call("POST", TASKS, broken, gzipped)).refusal[:2] == (400, "INVALID_ARGUMENT")
    brotli = await server.call("POST", TASKS, body, {"content-encoding": "br"})
    assert brotli.refusal[2] == "The Content-Encoding 'br' is not supported: use gzip."
    assert len((await server.call("GET", TASKS)).json["tasks"]) == 1


@pytest.mark.parametrize(
    ("origin", "host", "verb", "status"),
    [
        ("http://evil.example", "127.0.0.1:8123", "POST", 403),
        ("null", "127.0.0.1:8123", "POST", 403),
        ("http://127.0.0.1:9999", "127.0.0.1:8123", "POST", 403),
        ("http://127.0.0.1", "127.0.0.1:8123", "POST", 403),
        ("http://[::1", "127.0.0.1:8123", "POST", 403),
        ("", "127.0.0.1:8123", "POST", 403),
        ("", "", "POST", 403),
        ("http://127.0.0.1:8123", "127.0.0.1:8123", "POST", 200),
        ("http://LocalHost:8123", "localhost:8123", "POST", 200),
        ("https://tasks.example", "tasks.example:443", "POST", 200),
        ("http://[::1]:8123", "[::1]:8123", "POST", 200),
        ("http://evil.example", "127.0.0.1:8123", "DELETE", 403),
        ("http://evil.example", "127.0.0.1:8123", "PATCH", 403),
        ("http://evil.example", "127.0.0.1:8123", "GET", 200),
        ("http://evil.example", "127.0.0.1:8123", "HEAD", 200),
    ],
)
async def test_pages_of_other_sites_change_nothing(origin: str, host: str, verb: str, status: int) -> None:
    """A browser names the page's origin; where it is another one, only reading is let through (unreadably)."""
    server = await server_with_queue()
    target = f"/v2/{QUEUE}" + (":pause" if verb == "POST" else "")

    answer = await server.call(verb, target, b"", {"origin": origin, "host": host})

    assert answer.status == status
    assert not [name for name in answer.headers if name.startswith("access-control")]
    if status == 403:
        assert answer.refusal[1] == "PERMISSION_DENIED"
        assert (await server.call("GET", f"/v2/{QUEUE}")).json["state"] == "RUNNING"


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "Text/Plain;charset=UTF-8"],
)
async def test_forms_are_no_json(content_type: str) -> None:
    """Types that any page may send without asking are refused where there is a body."""
    server = await server_with_queue()

    refused = await server.call("POST", TASKS, json.dumps({"task": TASK}).encode(), {"content-type": content_type})

    assert refused.refusal[:2] == (400, "INVALID_ARGUMENT")
    assert "send application/json" in refused.refusal[2]
    assert (await server.call("POST", f"/v2/{QUEUE}:pause", b"", {"content-type": content_type})).status == 200


@pytest.mark.parametrize(
    "content_type", [None, "application/json", "application/json; charset=UTF-8", "Application/JSON"]
)
async def test_json_may_go_unnamed(content_type: str | None) -> None:
    """A body without a type is read as JSON."""
    server = await server_with_queue()
    headers = {"content-type": content_type} if content_type else {}

    assert (await server.call("POST", TASKS, json.dumps({"task": TASK}).encode(), headers)).status == 200


async def test_long_gets_may_come_as_posts() -> None:
    """A GET with a long address is sent by googleapiclient as a form, with a header that says so."""
    server = await server_with_queue()
    headers = {"x-http-method-override": "GET", "content-type": "application/x-www-form-urlencoded"}

    listed = await server.call("POST", f"/v2/{LOCATION}/queues", b"filter=state:RUNNING&alt=json", headers)

    assert [queue["name"] for queue in listed.json["queues"]] == [QUEUE]


async def test_head_is_get_without_its_body() -> None:
    """Length and type as GET would send them."""
    server = await server_with_queue()

    get, head = await server.call("GET", f"/v2/{QUEUE}"), await server.call("HEAD", f"/v2/{QUEUE}")
    missing = await server.call("HEAD", f"/v2/{QUEUE}x")

    assert (head.status, head.body, head.headers) == (200, b"", get.headers)
    assert (missing.status, missing.body) == (404, b"")


async def test_options_lists_the_verbs() -> None:
    """And grants nothing to other origins."""
    server = await server_with_queue()

    answer = await server.call("OPTIONS", f"/v2/{QUEUE}", b"", {"origin": "http://evil.example"})
    unknown = await server.call("OPTIONS", "/nowhere")

    assert (answer.status, answer.body, answer.headers["allow"]) == (200, b"", "DELETE, GET, PATCH, OPTIONS")
    assert unknown.refusal[:2] == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("verb", "target", "status", "code"),
    [
        ("GET", "/nowhere", 404, "NOT_FOUND"),
        ("PUT", f"/v2/{QUEUE}", 404, "NOT_FOUND"),
        ("GET", f"/v1beta1/{LOCATION}/jobs?legacyAppEngineCron=true", 501, "UNIMPLEMENTED"),
        ("POST", f"{TASKS}:buffer", 501, "UNIMPLEMENTED"),
        ("GET", f"/v2/{QUEUE}?alt=proto", 400, "INVALID_ARGUMENT"),
        ("GET", f"/v2/{QUEUE}?fields=colour", 400, "INVALID_ARGUMENT"),
        ("GET", f"/v2/{QUEUE}?colour=red", 400, "INVALID_ARGUMENT"),
        ("GET", f"/v2/{QUEUE}%2Ftasks%2Ft", 400, "INVALID_ARGUMENT"),
        ("GET", f"/v2/{LOCATION}/queues?pageSize=-1", 400, "INVALID_ARGUMENT"),
        ("GET", f"/v2/{LOCATION}/queues?pageToken=garbage", 400, "INVALID_ARGUMENT"),
    ],
)
async def test_refusals_have_their_codes(verb: str, target: str, status: int, code: str) -> None:
    """HTTP status and canonical code together."""
    answer = await (await server_with_queue()).call(verb, target)

    assert answer.refusal[:2] == (status, code)
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"


async def test_what_breaks_in_us_is_logged_and_not_shown() -> None:
    """A defect answers INTERNAL; its trace goes to the log alone."""

    async def broken(services: Any, request: Any, response: Any) -> Any:
        raise ZeroDivisionError("a secret")

    methods = [replace(method, handler=broken) for method in all_methods() if method.grpc]
    with structlog.testing.capture_logs() as logs:
        answer = await RestServer(methods).call("GET", f"/v2/{QUEUE}")

    assert answer.refusal == (500, "INTERNAL", "Internal error: see the server's log.")
    assert b"secret" not in answer.body
    (line,) = logs
    assert (line["event"], line["log_level"], line["verb"]) == ("call.failed", "error", "GET")
    assert line["exc_info"] is True


async def test_a_caller_that_goes_away_gets_no_answer() -> None:
    """Half a body is no request."""
    server = await server_with_queue()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": TASKS, "query_string": b"", "headers": []}
    await server.adapter(scope, receive, send)

    assert sent == []


async def test_names_without_a_raw_path_are_read_all_the_same() -> None:
    """The raw path is optional in ASGI."""
    server = await server_with_queue()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": f"/v2/{QUEUE}:pause", "query_string": b"", "headers": []}
    await server.adapter(scope, receive, send)

    assert sent[0]["status"] == 200


async def test_answers_are_pretty_for_those_who_ask() -> None:
    """One line by default, which is quick; indented with prettyPrint."""
    server = await server_with_queue()

    assert b"\n" not in (await server.call("GET", f"/v2/{QUEUE}")).body
    assert b'\n  "name"' in (await server.call("GET", f"/v2/{QUEUE}?prettyPrint=true")).body


async def test_policies_round_trip() -> None:
    """IAM calls are POSTs whose path is the resource."""
    server = await server_with_queue()
    policy = {"bindings": [{"role": "roles/cloudtasks.enqueuer", "members": ["user:a@example.com"]}]}

    stored = (await server.call("POST", f"/v2/{QUEUE}:setIamPolicy", {"policy": policy})).json
    read = (await server.call("POST", f"/v2/{QUEUE}:getIamPolicy", {})).json

    assert stored == read
    assert read["bindings"] == policy["bindings"]
    assert base64.b64decode(read["etag"], validate=True)

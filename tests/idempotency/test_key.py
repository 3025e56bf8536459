"""From deliveries to keys."""

from __future__ import annotations

import hashlib
from email.message import Message
from typing import Any

import pytest

from taskbell.idempotency import (
    Delivery,
    Key,
    KeyRule,
    MissingKeyError,
    fingerprint,
    from_header,
    from_path,
    from_query,
)
from taskbell.idempotency.key import Kind, own_key

JOB = {"X-CloudScheduler": "true", "X-CloudScheduler-JobName": "report"}
EXECUTION = JOB | {"X-CloudScheduler-ScheduleTime": "2026-10-16T12:00:00Z"}
TASK = {"X-CloudTasks-QueueName": "q", "X-CloudTasks-TaskName": "t"}
APP_ENGINE_TASK = {"X-AppEngine-QueueName": "q", "X-AppEngine-TaskName": "t"}
TOKEN = {"Idempotency-Key": "abc"}


def key(headers: Any, rule: KeyRule | None = None, **parts: str) -> Key:
    """The key of a delivery with these headers."""
    return (rule or KeyRule()).key(Delivery.of(headers, **parts))


def sha256(text: str) -> str:
    """As the guide's sample hashes."""
    return hashlib.sha256(text.encode()).hexdigest()


def test_an_execution_has_the_key_of_the_guides_sample() -> None:
    """So that the records it wrote count."""
    assert key(EXECUTION).text == sha256("report/2026-10-16T12:00:00Z")


def test_a_namespace_goes_before_the_job() -> None:
    """Two projects' jobs of one name are two pieces of work."""
    assert key(EXECUTION, KeyRule(namespace="p/l")).text == sha256("p/l/report/2026-10-16T12:00:00Z")


def test_the_order_of_the_rules() -> None:
    """Own function, Idempotency-Key, Scheduler, Tasks."""
    own = KeyRule(own=lambda _: "order 17")
    abstaining = KeyRule(own=lambda _: None)
    everything = TOKEN | EXECUTION | TASK

    assert key(everything, own) == Key(own_key("order 17").text, "own key order 17", Kind.SCHEDULER)
    assert key(everything).source == key(everything, abstaining).source == "Idempotency-Key abc"
    assert key(EXECUTION | TASK).source == "job report at 2026-10-16T12:00:00Z"
    assert key(TASK).source == "task t of queue q"


def test_an_own_function_may_give_a_ready_key() -> None:
    """To go on with records that have keys of their own."""
    assert key({}, KeyRule(own=lambda _: Key("order-17", "mine"))).text == "order-17"


def test_a_task_has_one_key_over_http_and_from_app_engine() -> None:
    """It is one task."""
    assert key(TASK).text == key(APP_ENGINE_TASK).text


def test_no_two_pieces_of_work_share_a_key() -> None:
    """Not by moving a letter from one part to the next, nor by a header that spells another rule's key."""
    spaces: list[KeyRule] = [KeyRule(namespace=each) for each in (None, "n", "null", "n/report", "q")]
    deliveries = [
        TOKEN,
        {"Idempotency-Key": "ABC"},
        {"Idempotency-Key": sha256("report/2026-10-16T12:00:00Z")},
        {"Idempotency-Key": "q/t"},
        EXECUTION,
        EXECUTION | {"X-CloudScheduler-ScheduleTime": "2026-10-16T05:00:00-07:00"},
        EXECUTION | {"X-CloudScheduler-JobName": "report2"},
        TASK,
        {"X-CloudTasks-QueueName": "qt", "X-CloudTasks-TaskName": "t"},
        {"X-CloudTasks-QueueName": "q", "X-CloudTasks-TaskName": "tt"},
    ]
    keys = [key(headers, rule).text for headers in deliveries for rule in spaces]
    keys += [own_key(text).text for text in ("abc", "q", "order 17")]

    assert len(set(keys)) == len(keys)


def test_a_forced_run_is_another_piece_of_work_where_the_delivery_says_so() -> None:
    """Cloud Scheduler's headers of a forced run are those of the next scheduled one."""
    scheduled, forced = EXECUTION | {"Idempotency-Key": "scheduled"}, EXECUTION | {"Idempotency-Key": "forced"}

    assert key(scheduled).text != key(forced).text


def _message(pairs: dict[str, str]) -> Message:
    message = Message()
    for name, value in pairs.items():
        message[name] = value
    return message


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({name.lower(): value for name, value in EXECUTION.items()}, id="lower case, as over HTTP/2"),
        pytest.param({name.upper(): value for name, value in EXECUTION.items()}, id="upper case"),
        pytest.param({name.title(): value for name, value in EXECUTION.items()}, id="title case, as over HTTP/1.1"),
        pytest.param(list(EXECUTION.items()), id="pairs"),
        pytest.param([(n.lower().encode(), v.encode()) for n, v in EXECUTION.items()], id="bytes, as in ASGI"),
        pytest.param({name: [value] for name, value in EXECUTION.items()}, id="lists of values"),
        pytest.param(_message(EXECUTION), id="email.message, as in http.server"),
        pytest.param([*EXECUTION.items(), *EXECUTION.items()], id="twice the same"),
        pytest.param({name: f" {value} " for name, value in EXECUTION.items()}, id="white space around"),
    ],
)
def test_headers_come_in_many_shapes(headers: Any) -> None:
    """Each server has its own."""
    assert key(headers).text == sha256("report/2026-10-16T12:00:00Z")


def test_headers_of_a_wsgi_environ() -> None:
    """Where they are spelled as CGI's variables."""
    environ = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in EXECUTION.items()}
    environ |= {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/eu/report",
        "QUERY_STRING": "project=p",
        "X-CloudTasks-TaskName": "t",
    }
    delivery = Delivery.of_environ(environ)

    assert KeyRule().key(delivery).text == sha256("report/2026-10-16T12:00:00Z")
    assert (delivery.path, delivery.query) == ("/eu/report", "project=p")


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({}, "Neither Idempotency-Key"),
        ({"Content-Type": "text/plain", "User-Agent": "curl"}, "Neither Idempotency-Key"),
        ({"X-CloudScheduler": "true"}, "Neither Idempotency-Key"),
        (JOB, "X-CloudScheduler-ScheduleTime is missing, and X-CloudScheduler-JobName alone names nothing"),
        ({"X-CloudScheduler-ScheduleTime": "2026-10-16T12:00:00Z"}, "X-CloudScheduler-JobName is missing"),
        ({"X-CloudTasks-TaskName": "t"}, "X-CloudTasks-QueueName is missing"),
        ({"X-CloudTasks-QueueName": "q"}, "X-CloudTasks-TaskName is missing"),
        ({"X-AppEngine-QueueName": "q"}, "X-AppEngine-TaskName is missing"),
        (JOB | TASK, "X-CloudScheduler-ScheduleTime is missing"),
        ({"Idempotency-Key": ""}, "Idempotency-Key is empty"),
        (EXECUTION | {"Idempotency-Key": "  "}, "Idempotency-Key is empty"),
        (EXECUTION | {"X-CloudScheduler-JobName": ""}, "X-CloudScheduler-JobName is empty"),
        (TASK | {"X-CloudTasks-TaskName": " "}, "X-CloudTasks-TaskName is empty"),
        ([("Idempotency-Key", "a"), ("idempotency-key", "b")], "more than once"),
        ([*TASK.items(), ("x-cloudtasks-taskname", "u")], "more than once"),
    ],
)
def test_half_a_key_is_none(headers: Any, says: str) -> None:
    """A call by hand must never share a key with real deliveries."""
    with pytest.raises(MissingKeyError, match=says):
        key(headers)


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        pytest.param(KeyRule(namespace=from_header("X-Project")), {}, id="header"),
        pytest.param(KeyRule(namespace=from_query("project")), {"query": "a=b&project=eu"}, id="query"),
        pytest.param(KeyRule(namespace=from_path(1)), {"path": "/runs/eu/report"}, id="path"),
        pytest.param(KeyRule(namespace=from_path(-2)), {"path": "/runs/eu/report"}, id="path, from its end"),
        pytest.param(KeyRule(namespace=lambda delivery: delivery.required("X-Project")), {}, id="function"),
    ],
)
def test_a_namespace_may_come_with_the_delivery(rule: KeyRule, parts: dict[str, str]) -> None:
    """In a header of the target, in the query or in the path."""
    headers = EXECUTION | {"x-project": "eu"}

    assert key(headers, rule, **parts).text == sha256("eu/report/2026-10-16T12:00:00Z")


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        (KeyRule(namespace=from_header("X-Project")), {}),
        (KeyRule(namespace=from_query("project")), {"query": "a=b"}),
        (KeyRule(namespace=from_query("project")), {"query": "project="}),
        (KeyRule(namespace=from_query("project")), {"query": "project=a&project=b"}),
        (KeyRule(namespace=from_path(1)), {"path": "/runs"}),
        (KeyRule(namespace=from_path(-2)), {"path": "/runs"}),
        (KeyRule(namespace=from_path(0)), {"path": "/"}),
        (KeyRule(namespace=from_path(1)), {"path": "/runs//report"}),
        (KeyRule(namespace=""), {}),
        (KeyRule(namespace=lambda _: ""), {}),
        (KeyRule(own=lambda _: ""), {}),
        (KeyRule(own=lambda _: Key("", "mine")), {}),
    ],
)
def test_a_namespace_or_an_own_key_that_is_not_there_is_an_error(rule: KeyRule, parts: dict[str, str]) -> None:
    """Never all namespaces in one."""
    with pytest.raises(MissingKeyError):
        key(EXECUTION | TOKEN, rule, **parts)


@pytest.mark.parametrize("text", ["", "a/b", "a b", "é", "a\n", "x" * 256])
def test_a_ready_key_must_suit_every_store(text: str) -> None:
    """Firestore takes no slash, Spanner no endless text."""
    with pytest.raises(MissingKeyError):
        Key(text, "mine")


def test_what_sent_a_delivery() -> None:
    """Says how long it may take, and how long it may come again."""
    assert key(TOKEN | {"x-cloudscheduler": "true"}).kind is Kind.SCHEDULER
    assert key(TASK).kind is key(APP_ENGINE_TASK).kind is Kind.TASKS
    assert key(TOKEN).kind is Kind.OTHER


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (APP_ENGINE_TASK, True),
        ({"User-Agent": "AppEngine-Google; (+http://code.google.com/appengine)"}, True),
        (TASK, False),
        (EXECUTION, False),
        ({"User-Agent": "Google-Cloud-Scheduler"}, False),
    ],
)
def test_whether_it_came_from_app_engine(headers: dict[str, str], expected: bool) -> None:  # noqa: FBT001
    """Where 503 has a meaning of its own."""
    assert Delivery.of(headers).is_app_engine is expected


def test_a_fingerprint_keeps_its_parts_apart() -> None:
    """And takes text and bytes alike."""
    assert fingerprint("POST", "/a", b"body") == fingerprint(b"POST", b"/a", "body")
    assert fingerprint("ab", "c") != fingerprint("a", "bc")

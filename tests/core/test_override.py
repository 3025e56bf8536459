"""What a queue's HTTP target lays over a task's (wire.md section 5.5)."""

from __future__ import annotations

import pytest

from taskbell.core.override import overridden, rerouted
from taskbell.core.target import AppEngineTarget, HttpOverride, HttpTarget, OidcToken, Routing

URL = "https://task.example:8443/path/to?x=1"
TASK_TOKEN = OidcToken("task@p.example")
QUEUE_TOKEN = OidcToken("queue@p.example", "audience")


def url_of(url: str, override: HttpOverride) -> str:
    """What a URL becomes."""
    return overridden(HttpTarget(url), override).url


def uri(
    *,
    scheme: str | None = None,
    host: str | None = None,
    port: int | None = None,
    path: str | None = None,
    query: str | None = None,
    if_not_exists: bool | None = None,
) -> HttpOverride:
    """An override of the URI."""
    return HttpOverride(scheme, host, port, path, query, if_not_exists, has_uri=True)


ALWAYS = [
    (uri(), URL),
    (uri(scheme="http"), "http://task.example:8443/path/to?x=1"),
    (uri(host="queue.example"), "https://queue.example:8443/path/to?x=1"),
    (uri(port=9000), "https://task.example:9000/path/to?x=1"),
    (uri(port=0), "https://task.example/path/to?x=1"),
    (uri(path="/q"), "https://task.example:8443/q?x=1"),
    (uri(path="q/r"), "https://task.example:8443/q/r?x=1"),
    (uri(path=""), "https://task.example:8443?x=1"),
    (uri(query="y=2&z"), "https://task.example:8443/path/to?y=2&z"),
    (uri(query=""), "https://task.example:8443/path/to"),
    (uri(scheme="http", host="h", port=1, path="/p", query="q", if_not_exists=False), "http://h:1/p?q"),
    (uri(host="[::1]"), "https://[::1]:8443/path/to?x=1"),
]


@pytest.mark.parametrize(("override", "url"), ALWAYS)
def test_each_part_that_is_set_replaces_that_part_alone(override: HttpOverride, url: str) -> None:
    """ALWAYS, which unspecified means too: port 0, an empty path and an empty query clear theirs."""
    assert url_of(URL, override) == url


EVERYTHING = uri(scheme="http", host="h", port=9, path="/p", query="q", if_not_exists=True)


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        (URL, URL),
        ("https://task.example", "https://task.example:9/p?q"),
        ("https://task.example/", "https://task.example:9/p?q"),
        ("https://task.example/x", "https://task.example:9/x?q"),
        ("https://task.example:8443?x=1", "https://task.example:8443/p?x=1"),
        ("https://[::1]/x?y", "https://[::1]:9/x?y"),
    ],
)
def test_if_not_exists_fills_only_what_the_url_lacks(url: str, sent: str) -> None:
    """Scheme and host are there in every task's URL."""
    assert url_of(url, EVERYTHING) == sent


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://u:p@task.example:1/x", "http://u:p@h:1/x"),
        ("http://u@v:p@task.example/x", "http://u@v:p@h/x"),
        ("http://[2001:db8::1]:80/x", "http://h:80/x"),
        ("HTTP://task.example/x#fragment", "http://h/x"),
        ("http://task.example/a\nb%zz?é=ö\n", "http://h/a\nb%zz?é=ö\n"),
        ("http://℀.example/x", "http://h/x"),
    ],
)
def test_what_is_not_overridden_stays_as_it_was_given(url: str, sent: str) -> None:
    """User info, line breaks, bad escapes, odd characters: encoding is the sender's business."""
    assert url_of(url, uri(host="h")) == sent


def test_without_a_uri_override_the_url_is_not_touched() -> None:
    """Not even to be taken apart."""
    assert url_of("HTTP://h/#f", HttpOverride(method="GET")) == "HTTP://h/#f"


@pytest.mark.parametrize(("override", "method"), [(HttpOverride(), "PUT"), (HttpOverride(method="GET"), "GET")])
def test_a_method_of_the_queue_beats_the_tasks(override: HttpOverride, method: str) -> None:
    """GET then makes the body be ignored."""
    assert overridden(HttpTarget(URL, method="PUT"), override).method == method


def test_headers_of_the_queue_replace_those_of_the_same_name_and_add_the_others() -> None:
    """In any case of letters."""
    target = HttpTarget(URL, headers=(("x-a", "task"), ("X-B", "task")))
    override = HttpOverride(headers=(("X-A", "queue"), ("X-C", "queue")))

    assert overridden(target, override).headers == (("X-B", "task"), ("X-A", "queue"), ("X-C", "queue"))


def test_a_token_of_the_queue_replaces_the_tasks_token_and_authorization() -> None:
    """Whatever the caller put there."""
    target = HttpTarget(URL, headers=(("authorization", "Basic x"),), token=TASK_TOKEN)

    sent = overridden(target, HttpOverride(token=QUEUE_TOKEN))

    assert (sent.token, sent.headers) == (QUEUE_TOKEN, ())
    assert overridden(target, HttpOverride()).token == TASK_TOKEN


def test_body_is_left_alone() -> None:
    """No override touches it."""
    assert overridden(HttpTarget(URL, body=b"\0\xff"), EVERYTHING).body == b"\0\xff"


def test_a_queues_routing_replaces_a_tasks_as_a_whole() -> None:
    """Nothing of the task's is left, and nothing but the routing changes."""
    target = AppEngineTarget("/h", "PUT", (("A", "1"),), b"b", Routing("worker", "v1", "0", "old"))

    assert rerouted(target, Routing("", "v2")) == AppEngineTarget("/h", "PUT", (("A", "1"),), b"b", Routing("", "v2"))

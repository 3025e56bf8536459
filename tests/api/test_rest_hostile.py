"""Whatever is sent, the answer is a refusal with a code of the API, never INTERNAL."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskbell.api.methods import Method
from taskbell.api.rest_routes import route_of
from tests.api.rest_server import LOCATION, QUEUE, RestServer, server_with_queue
from tests.api.test_rest_round_trip import BUILT, requests, target_and_body

_NAMES = st.sampled_from(
    ["task", "queue", "name", "httpRequest", "url", "body", "headers", "scheduleTime", "dispatchDeadline", "state",
     "schedule", "timeZone", "pubsubTarget",
     "retryConfig", "maxAttempts", "rateLimits", "maxDispatchesPerSecond", "httpTarget", "uriOverride", "requests",
     "names", "policy", "bindings", "lastAttempt", "responseStatus", "details", "@type", "oidcToken", "updateMask"]
)  # fmt: skip
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5)
    | st.sampled_from(["", "0s", "-1s", "PAUSED", "http://x", QUEUE, f"{QUEUE}/tasks/t", "1970-01-01T00:00:00Z"])
)  # fmt: skip
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4), max_leaves=25
)
_TARGETS = st.sampled_from(
    [
        ("POST", f"/v2/{LOCATION}/queues"),
        ("PATCH", f"/v2/{QUEUE}"),
        ("POST", f"/v2/{QUEUE}/tasks"),
        ("POST", f"/v2/{QUEUE}/tasks:batchCreate"),
        ("POST", f"/v2/{QUEUE}/tasks:batchDelete"),
        ("POST", f"/v2/{QUEUE}:setIamPolicy"),
        ("POST", f"/v2/{QUEUE}:testIamPermissions"),
        ("PATCH", f"/v2/{LOCATION}/cmekConfig"),
        ("POST", f"/v1/{LOCATION}/jobs"),
        ("PATCH", f"/v1/{LOCATION}/jobs/j"),
    ]
)


def answered(verb: str, target: str, body: Any = b"", server: RestServer | None = None) -> int:
    """The status of one request to a server that holds a queue."""

    async def call() -> int:
        asked = server or await server_with_queue()
        return (await asked.call(verb, target, body)).status

    return asyncio.run(call())


@settings(deadline=None)
@given(_TARGETS, _JSON)
def test_any_json(target: tuple[str, str], body: Any) -> None:
    """JSON of any shape, with names that mean something somewhere."""
    assert answered(*target, body) in (200, 400, 404, 409)


@settings(deadline=None)
@given(_TARGETS, st.binary(max_size=30))
def test_any_bytes(target: tuple[str, str], body: bytes) -> None:
    """Bodies that are no JSON at all."""
    assert answered(*target, body) in (200, 400, 404, 409)


_TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="?#"), max_size=12)


@settings(deadline=None)
@given(
    st.sampled_from(["GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"]), st.lists(_TEXT, max_size=9), _TEXT
)
def test_any_path_and_query(verb: str, segments: list[str], query: str) -> None:
    """Paths and queries of printable characters, percent signs among them."""
    target = f"/v2/{'/'.join(segments)}?{query}"

    assert answered(verb, target, b"", RestServer()) in (200, 400, 404, 501)


@pytest.mark.parametrize("method", BUILT, ids=lambda method: str(method.grpc).rpartition("/")[2])
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_well_formed_request(method: Method, data: st.DataObject) -> None:
    """Messages that are well-formed and make no sense, sent to names that exist where they can."""
    request = data.draw(requests(method))
    _, query, body = target_and_body(method, request, proto_names=False, integers=True)
    route = route_of(method)
    ids = iter("plqt")
    path = "/" + "/".join(next(ids) if segment == "*" else segment for segment in route.segments)
    path += f":{route.suffix}" if route.suffix else ""

    # The flag for App Engine's legacy cron is not built.
    unbuilt = {501} if path.startswith("/v1beta1/") else set()
    assert answered(method.verb, f"{path}?{query.decode()}", body) in {200, 400, 404, 409} | unbuilt

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from google.cloud import tasks_v2
from google.iam.v1 import iam_policy_pb2

from taskbell.api.rest_query import bind, query_of
from taskbell.core.errors import InvalidArgument

ListTasksRequest: Any = tasks_v2.ListTasksRequest.pb()
UpdateQueueRequest: Any = tasks_v2.UpdateQueueRequest.pb()
CreateTaskRequest: Any = tasks_v2.CreateTaskRequest.pb()


def bound(kind: Any, query: str, *roots: str) -> Any:
    """The message that a query makes, where path or body bind `roots`."""
    message = kind()
    bind(message, query_of(query.encode()).parameters, roots)
    return message


@pytest.mark.parametrize(
    ("kind", "query", "expected"),
    [
        (ListTasksRequest, "", {}),
        (ListTasksRequest, "pageSize=5&pageToken=a%2Bb", {"page_size": 5, "page_token": "a+b"}),
        (ListTasksRequest, "page_size=5", {"page_size": 5}),
        (ListTasksRequest, "pageToken=", {"page_token": ""}),
        (ListTasksRequest, "responseView=FULL", {"response_view": 2}),
        (ListTasksRequest, "responseView=2", {"response_view": 2}),
        (UpdateQueueRequest, "updateMask=rateLimits.maxBurstSize,state",
         {"update_mask": {"paths": ["rate_limits.max_burst_size", "state"]}}),
        (UpdateQueueRequest, "update_mask=rate_limits&update_mask=state",
         {"update_mask": {"paths": ["rate_limits", "state"]}}),
        (UpdateQueueRequest, "updateMask.paths=rate_limits&updateMask.paths=state",
         {"update_mask": {"paths": ["rate_limits", "state"]}}),
        (UpdateQueueRequest, "queue.rateLimits.maxDispatchesPerSecond=0.5&queue.state=PAUSED",
         {"queue": {"rate_limits": {"max_dispatches_per_second": 0.5}, "state": 2}}),
        (UpdateQueueRequest, "queue.purgeTime=1970-01-01T00:00:01Z&queue.retryConfig.minBackoff=0.5s",
         {"queue": {"purge_time": {"seconds": 1}, "retry_config": {"min_backoff": {"nanos": 500_000_000}}}}),
        (iam_policy_pb2.TestIamPermissionsRequest, "permissions=a&permissions=b", {"permissions": ["a", "b"]}),
    ],
)  # fmt: skip
def test_parameters_set_fields(kind: Any, query: str, expected: dict[str, Any]) -> None:
    """Leaves are set by dotted paths in either case."""
    assert bound(kind, query) == kind(**expected)


def cannot_bind(name: str) -> str:
    return (
        f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
    )


TWICE = 'Invalid JSON payload received. Unknown name "page_size": The field is already set under its other spelling.'


@pytest.mark.parametrize(
    ("kind", "query", "roots", "message"),
    [
        (ListTasksRequest, "bogus=1", (), cannot_bind("bogus")),
        (ListTasksRequest, "=1", (), cannot_bind("")),
        (ListTasksRequest, "view=FULL", (), cannot_bind("view")),
        (ListTasksRequest, "pageSize.x=1", (), cannot_bind("pageSize.x")),
        (ListTasksRequest, "parent=x", ("parent",), cannot_bind("parent")),
        (UpdateQueueRequest, "queue.state=PAUSED", ("queue",), cannot_bind("queue.state")),
        (UpdateQueueRequest, "queue=x", (), cannot_bind("queue")),
        (CreateTaskRequest, "task.httpRequest.headers=x", (), cannot_bind("task.httpRequest.headers")),
        (UpdateQueueRequest, "queue.httpTarget.headerOverrides.header=x", (),
         cannot_bind("queue.httpTarget.headerOverrides.header")),
        (ListTasksRequest, "pageSize=x", (), "Invalid value at 'page_size' (TYPE_INT32), \"x\""),
        (ListTasksRequest, "pageSize=", (), "Invalid value at 'page_size' (TYPE_INT32), \"\""),
        (ListTasksRequest, "responseView=ALL", (),
         "Invalid value at 'response_view' (type.googleapis.com/google.cloud.tasks.v2.Task.View), \"ALL\""),
        (ListTasksRequest, "pageSize=1&pageSize=2", (),
         'Invalid JSON payload received. Unknown name "pageSize": Proto field is not repeating, cannot start list.'),
        (ListTasksRequest, "pageSize=1&page_size=2", (),
         TWICE),
    ],
)  # fmt: skip
def test_other_parameters_are_refused(kind: Any, query: str, roots: tuple[str, ...], message: str) -> None:
    """A parameter that means nothing, or something else's field, is not ignored."""
    with pytest.raises(InvalidArgument) as refused:
        bound(kind, query, *roots)

    assert refused.value.message == message


@pytest.mark.parametrize(
    ("query", "as_integers"),
    [
        ("", False),
        ("alt=json", False),
        ("$alt=json", False),
        ("%24alt=json%3Benum-encoding%3Dint", True),
        ("$alt=json;enum-encoding=int", True),
        ("alt=json;enum-encoding=int", True),
        ("alt=JSON;Enum-Encoding=INT", True),
        ("alt=json;enum-encoding=string", False),
    ],
)
def test_alt_chooses_the_dialect(query: str, as_integers: bool) -> None:  # noqa: FBT001 - a column of the table
    """Names of enums for one family of clients, integers for the other."""
    assert query_of(query.encode()).enums_as_integers is as_integers


@pytest.mark.parametrize("query", ["alt=proto", "alt=media", "$alt=proto;enum-encoding=int", "a=%ff"])
def test_other_forms_are_refused(query: str) -> None:
    """There is no answer but JSON."""
    with pytest.raises(InvalidArgument):
        query_of(query.encode())


def test_standard_parameters_set_nothing() -> None:
    """Google's standard parameters are known everywhere."""
    names = (".xgafv", "access_token", "callback", "key", "oauth_token", "quotaUser", "uploadType", "upload_protocol")
    query = query_of(urlencode([(f"{sign}{name}", "1") for name in names for sign in ("", "$")]).encode())

    assert list(query.parameters) == []
    assert query_of(b"prettyPrint=true").pretty
    assert not query_of(b"prettyPrint=false").pretty
    assert query_of(b"fields=a,b").selection == "a,b"


def test_a_query_of_endless_parameters_is_refused() -> None:
    """There is nothing to set so often."""
    with pytest.raises(InvalidArgument, match="more than 2000"):
        query_of(b"&".join([b"a=1"] * 2001))

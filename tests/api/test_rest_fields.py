from __future__ import annotations

from typing import Any

import pytest
from google.cloud import tasks_v2
from google.longrunning import operations_pb2

from taskbell.api.rest_fields import selected, selection_of
from taskbell.core.errors import InvalidArgument

QUEUES = tasks_v2.ListQueuesResponse.pb().DESCRIPTOR
ANSWER = {
    "queues": [
        {"name": "a", "state": "RUNNING", "rateLimits": {"maxBurstSize": 1, "maxConcurrentDispatches": 2}},
        {"name": "b", "state": "PAUSED"},
    ],
    "nextPageToken": "t",
}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("*", ANSWER),
        ("nextPageToken", {"nextPageToken": "t"}),
        ("next_page_token", {"nextPageToken": "t"}),
        ("queues", {"queues": ANSWER["queues"]}),
        ("queues/name", {"queues": [{"name": "a"}, {"name": "b"}]}),
        ("queues(name)", {"queues": [{"name": "a"}, {"name": "b"}]}),
        ("queues(name,state), nextPageToken",
         {"queues": [{"name": "a", "state": "RUNNING"}, {"name": "b", "state": "PAUSED"}], "nextPageToken": "t"}),
        ("queues/rateLimits/maxBurstSize", {"queues": [{"rateLimits": {"maxBurstSize": 1}}, {}]}),
        ("queues(rateLimits(maxBurstSize))", {"queues": [{"rateLimits": {"maxBurstSize": 1}}, {}]}),
        ("queues/name,queues/state",
         {"queues": [{"name": "a", "state": "RUNNING"}, {"name": "b", "state": "PAUSED"}]}),
        ("queues/name,queues", {"queues": ANSWER["queues"]}),
        ("*/name", {"queues": [{"name": "a"}, {"name": "b"}], "nextPageToken": "t"}),
    ],
)  # fmt: skip
def test_fields_choose_a_part_of_the_answer(fields: str, expected: Any) -> None:
    """As the standard parameter `fields` is documented."""
    assert selected(ANSWER, selection_of(fields, QUEUES)) == expected


def test_below_any_and_maps_every_name_is_taken() -> None:
    """Their names are not the type's."""
    answer = {"name": "o", "metadata": {"@type": "t", "state": "SUCCEEDED", "x": 1}}

    selection = selection_of("metadata(@type,state)", operations_pb2.Operation.DESCRIPTOR)

    assert selected(answer, selection) == {"metadata": {"@type": "t", "state": "SUCCEEDED"}}


@pytest.mark.parametrize(
    "fields",
    [",", "queues,", "queues(", "queues)", "queues()", "queues/", "/queues", "nope", "queues/nope", "queues(name",
     "queues name", "nextPageToken/x/y,;", "queues" + "(queues" * 5000, "*/" * 5000 + "a"],
)  # fmt: skip
def test_a_wrong_selection_is_refused(fields: str) -> None:
    """Before anything is done."""
    with pytest.raises(InvalidArgument, match="Invalid field selection"):
        selection_of(fields, QUEUES)

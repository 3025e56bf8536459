from __future__ import annotations

from typing import Any

import pytest
from google.cloud import tasks_v2
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from taskbell.api.filters import matches
from taskbell.core.errors import InvalidArgument

Queue: Any = tasks_v2.Queue.pb()

PAUSED = json_format.ParseDict(
    {
        "name": "projects/p/locations/l/queues/Mail",
        "state": "PAUSED",
        "rateLimits": {"maxDispatchesPerSecond": 0.5, "maxBurstSize": 10, "maxConcurrentDispatches": 1000},
        "retryConfig": {"maxAttempts": -1, "minBackoff": "0.100s", "maxBackoff": "3600s"},
        "purgeTime": "2026-01-31T12:00:00.5Z",
        "httpTarget": {
            "uriOverride": {"host": "example.com", "scheme": "HTTPS"},
            "headerOverrides": [{"header": {"key": "A", "value": "1"}}, {"header": {"key": "B", "value": "2"}}],
        },
    },
    Queue(),
)
BARE = Queue(name="projects/p/locations/l/queues/bare", state=1)


@pytest.mark.parametrize(
    ("text", "paused", "bare"),
    [
        ("", True, True),
        ("  ", True, True),
        # Enums, by name and number.
        ("state: PAUSED", True, False),
        ("state:PAUSED", True, False),
        ("state=PAUSED", True, False),
        ("state = paused", True, False),
        ('state = "PAUSED"', True, False),
        ("state = 2", True, False),
        ("state != PAUSED", False, True),
        ("state >= PAUSED", True, False),
        # Text: whole without regard to case, in part with a colon; ordered.
        ("name = projects/p/locations/l/queues/mail", True, False),
        ('name = "projects/p/locations/l/queues/Mail"', True, False),
        ("name = Mail", False, False),
        ("name : mail", True, False),
        ("name : queues/", True, True),
        ("name:'queues/b'", False, True),
        (r'name : "\"quoted\""', False, False),
        ('name : ""', True, True),
        ("name < projects/p/locations/l/queues/c", False, True),
        # Numbers.
        ("rateLimits.maxDispatchesPerSecond = 0.5", True, False),
        ("rate_limits.max_dispatches_per_second<=5e-1", True, False),
        ("rateLimits.maxConcurrentDispatches>999", True, False),
        ("rateLimits.maxConcurrentDispatches<1000", False, False),
        ("retryConfig.maxAttempts=-1", True, False),
        ("retryConfig.maxAttempts:-1", True, False),
        # An absent message has no fields; what is present has its defaults.
        ("rateLimits.maxBurstSize != 3", True, True),
        ("NOT rateLimits.maxBurstSize = 10", False, True),
        ("retryConfig.maxDoublings = 0", True, False),
        # Durations and timestamps.
        ("retryConfig.minBackoff = 0.1s", True, False),
        ("retryConfig.minBackoff < 1s", True, False),
        ('retryConfig.maxBackoff > "3599.999s"', True, False),
        ("retryConfig.maxRetryDuration = 0s", False, False),
        ("purgeTime > 2026-01-31T12:00:00Z", True, False),
        ("purgeTime >= 2026-01-31T13:00:00.5+01:00", True, False),
        ('purgeTime < "2026-01-31T12:00:00Z"', False, False),
        # Presence.
        ("purgeTime:*", True, False),
        ("-purgeTime:*", False, True),
        ("httpTarget:*", True, False),
        ("httpTarget.uriOverride.host:*", True, False),
        ("httpTarget.uriOverride.port:*", False, False),
        ("httpTarget.headerOverrides:*", True, False),
        ("state:*", True, True),
        # Lists: one that fits is enough.
        ("httpTarget.headerOverrides.header.value = 2", True, False),
        ("httpTarget.headerOverrides.header.value = 3", False, False),
        ("httpTarget.headerOverrides.header.value != 3", True, True),
        # Connectives.
        ("state=PAUSED AND name:mail", True, False),
        ("state=PAUSED name:bare", False, False),
        ("state=PAUSED OR name:bare", True, True),
        ("NOT state=PAUSED", False, True),
        ("-state=PAUSED", False, True),
        ("NOT NOT state=PAUSED", True, False),
        ("NOT (state=PAUSED OR state=RUNNING)", False, False),
        ("(state=PAUSED) (name:mail)", True, False),
        ("((state=PAUSED))", True, False),
        ("state=RUNNING AND name:bare OR name:mail", False, True),
        ("name:mail OR name:bare AND state=RUNNING", False, True),
        ("(name:mail AND state=PAUSED) OR (name:bare AND state=PAUSED)", True, False),
        ("NOT state=RUNNING name:mail", True, False),
    ],
)
def test_filters_choose_queues(text: str, paused: bool, bare: bool) -> None:  # noqa: FBT001 - columns of the table
    """As Cloud Logging's filters do; OR binds tighter than AND."""
    keep = matches(text, Queue.DESCRIPTOR)

    assert (keep(PAUSED), keep(BARE)) == (paused, bare)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state PAUSED", "expected an operator (=, !=, <, <=, >, >= or :) at character 7, not 'PAUSED'."),
        ("state", "expected an operator (=, !=, <, <=, >, >= or :) at character 6, not ''."),
        ("state=", "expected a value at character 7, not ''."),
        ("state==PAUSED",
         "expected one of STATE_UNSPECIFIED, RUNNING, PAUSED, DISABLED at character 7, not '=PAUSED'."),
        ("=PAUSED", "expected a field at character 1, not '=PAUSED'."),
        ("colour=red", "expected a field of Queue at character 1, not 'colour=red'."),
        ("state.name=red", "expected a field of Queue at character 1, not 'state.name=red'."),
        ("purgeTime.seconds=1", "expected a field of Queue at character 1, not 'purgeTime.seconds=1'."),
        ("state=PAUSED AND", "expected a field at character 17, not ''."),
        ("state=PAUSED AND OR", "expected a field at character 18, not 'OR'."),
        ("OR state=PAUSED", "expected a field at character 1, not 'OR state=PAUSED'."),
        ("state=PAUSED and name:x", "expected a field of Queue at character 14, not 'and name:x'."),
        ("(state=PAUSED", "expected ')' at character 14, not ''."),
        ("state=PAUSED)", "expected the end or another comparison at character 13, not ')'."),
        ("()", "expected a field at character 2, not ')'."),
        ("state=SLEEPING",
         "expected one of STATE_UNSPECIFIED, RUNNING, PAUSED, DISABLED at character 7, not 'SLEEPING'."),
        ("rateLimits.maxBurstSize > many", "expected a number at character 27, not 'many'."),
        ("rateLimits.maxBurstSize > 1_0", "expected a number at character 27, not '1_0'."),
        ("retryConfig.minBackoff > 1", "expected a duration such as 0.100s at character 26, not '1'."),
        ("purgeTime > yesterday",
         "expected a timestamp such as 2026-01-31T12:00:00Z at character 13, not 'yesterday'."),
        ("rateLimits = 5",
         "expected '*' (only whether rateLimits is set can be asked, with :) at character 14, not '5'."),
        ('name = "open', "expected a value at character 8, not '\"open'."),
        ("(" * 5000, "it is nested more than 50 levels deep."),
        ("NOT " * 2000, "it is nested more than 50 levels deep."),
        ("-" * 5000, "it is nested more than 50 levels deep."),
        ("name:x " * 5000, "it may have at most 10000 characters."),
    ],
)  # fmt: skip
def test_other_filters_are_refused_with_the_place(text: str, message: str) -> None:
    """A refusal says what was expected, and where."""
    with pytest.raises(InvalidArgument) as refused:
        matches(text, Queue.DESCRIPTOR)

    assert refused.value.message == "Invalid filter: " + message


def test_booleans_and_bytes() -> None:
    """Types that queues do not have and other messages do."""
    http = tasks_v2.HttpRequest.pb().DESCRIPTOR
    with pytest.raises(InvalidArgument, match="body is not text"):
        matches("body=x", http)
    from google.longrunning import operations_pb2  # noqa: PLC0415 - the one message at hand that has a boolean

    keep = matches("done=true", operations_pb2.Operation.DESCRIPTOR)
    assert keep(operations_pb2.Operation(done=True))
    assert not keep(operations_pb2.Operation())
    with pytest.raises(InvalidArgument, match="expected true or false"):
        matches("done=yes", operations_pb2.Operation.DESCRIPTOR)


_ATOMS = st.sampled_from(
    ["state", "name", "=", "!=", ":", "<", "(", ")", "AND", "OR", "NOT", "-", '"', "PAUSED", "é", "\\"]
)


@given(st.lists(_ATOMS | st.text(max_size=5), max_size=30).map(" ".join))
def test_no_text_breaks_the_parser(text: str) -> None:
    """Whatever is sent is a filter or refused as one."""
    try:
        keep = matches(text, Queue.DESCRIPTOR)
    except InvalidArgument:
        return
    assert keep(PAUSED) in (True, False)
    assert keep(BARE) in (True, False)

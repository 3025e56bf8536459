"""v2 messages as core's values and back: nothing is lost on the way, and nothing is made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.cloud import tasks_v2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from taskbell.api import tasks_v2 as v2
from taskbell.api.wire_time import instant_of, set_instant, set_span, span_of
from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import DAY, EARLIEST, LATEST, MILLISECOND, SECOND
from taskbell.core.queue import Queue, QueueState, RateLimits, RetryConfig
from taskbell.core.target import METHODS, AppEngineTarget, HttpOverride, HttpTarget, OAuthToken, OidcToken, Routing
from taskbell.core.task import Attempt, Status, Task

QUEUE = "projects/p/locations/l/queues/q"
BLANK = Queue(QUEUE)
TaskMessage: Any = tasks_v2.Task.pb()

texts = st.text("abcdefXYZ0-é", max_size=8)
tokens = st.none() | st.builds(OidcToken, texts.filter(bool), texts) | st.builds(OAuthToken, texts.filter(bool), texts)
headers = st.dictionaries(texts.filter(bool), texts, max_size=3).map(lambda pairs: tuple(sorted(pairs.items())))
spans = st.integers(0, DAY)
retry_configs = st.builds(
    RetryConfig,
    max_attempts=st.none() | st.integers(1, 1000),
    max_retry_duration=st.none() | st.integers(1, DAY),
    min_backoff=spans,
    max_backoff=spans,
    max_doublings=st.integers(1, 100),
)
overrides = st.builds(
    HttpOverride,
    scheme=st.none() | st.sampled_from(["http", "https"]),
    host=st.none() | texts.filter(bool),
    port=st.none() | st.integers(0, 65535),
    path=st.none() | texts,
    query=st.none() | texts,
    if_not_exists=st.none() | st.booleans(),
    has_uri=st.just(True),
    method=st.none() | st.sampled_from(METHODS),
    headers=headers,
    token=tokens,
)
queues = st.builds(
    Queue,
    name=st.just(QUEUE),
    rate_limits=st.builds(RateLimits, st.floats(0.001, 500), st.just(100), st.integers(1, 5000)),
    retry_config=retry_configs,
    routing_override=st.none() | st.builds(Routing, texts, texts, texts),
    http_override=st.none() | overrides,
    log_sampling_ratio=st.none() | st.floats(0, 1),
)


@given(queues)
def test_a_queue_survives_the_way_over_the_wire(queue: Queue) -> None:
    """Every field that callers may set, with what is not set."""
    assert v2.queue_of(v2.queue_message(queue), BLANK) == queue


@given(queue=queues, stored=queues)
def test_an_update_with_everything_makes_the_queue_what_was_sent(queue: Queue, stored: Queue) -> None:
    """Whatever was stored before."""
    assert v2.queue_change(v2.queue_message(queue), (), BLANK)(stored) == queue


@given(queue=queues)
def test_an_update_with_what_was_read_changes_nothing(queue: Queue) -> None:
    """Read, write back."""
    assert v2.queue_change(v2.queue_message(queue), (), BLANK)(queue) == queue


@pytest.mark.parametrize(("state", "number"), [("RUNNING", 1), ("PAUSED", 2), ("DISABLED", 3)])
def test_a_queues_state_and_purge_time_are_shown(state: str, number: int) -> None:
    """Output only."""
    message = v2.queue_message(replace(BLANK, state=QueueState(state), purge_time=1_500_000))

    assert message.state == number
    assert message.purge_time == Timestamp(seconds=1, nanos=500_000_000)


def test_an_override_without_a_uri_has_none() -> None:
    """Presence is kept."""
    message = v2.queue_message(replace(BLANK, http_override=HttpOverride(method="GET")))

    assert not message.http_target.HasField("uri_override")


http_targets = st.builds(
    HttpTarget, url=texts, method=st.sampled_from(METHODS), headers=headers, body=st.binary(max_size=20), token=tokens
)
app_engine_targets = st.builds(
    AppEngineTarget,
    relative_uri=texts,
    method=st.sampled_from(METHODS),
    headers=headers,
    body=st.binary(max_size=20),
    routing=st.builds(Routing, texts, texts, texts),
)


@given(
    target=http_targets | app_engine_targets,
    schedule_time=st.integers(0, LATEST),
    deadline=st.none() | st.integers(1, DAY).map(lambda span: span * MILLISECOND),
    retry_config=st.none() | retry_configs,
)
def test_a_task_survives_the_way_over_the_wire(
    target: HttpTarget | AppEngineTarget, schedule_time: int, deadline: int | None, retry_config: RetryConfig | None
) -> None:
    """In FULL view; map order is no order."""
    task = Task(1, QUEUE, "t", True, target, schedule_time, 0, deadline, retry_config)
    draft = v2.draft_of(v2.task_message(task, v2.FULL))

    assert draft.target is not None
    assert replace(draft.target, headers=tuple(sorted(draft.target.headers))) == target
    assert (draft.name, draft.schedule_time, draft.dispatch_deadline, draft.retry_config) == (
        task.name,
        schedule_time,
        deadline,
        retry_config,
    )


def test_a_task_that_was_attempted_shows_its_attempts() -> None:
    """Of the first attempt its dispatch time alone."""
    last = Attempt(3_000_000, 4_000_000, 5_000_001, Status(14, "UNAVAILABLE(14): HTTP status code 503"))
    task = Task(
        1, QUEUE, "t", True, HttpTarget("http://h/"), 9_000_000, 1_999_999,
        dispatch_count=2, response_count=1, first_dispatch_time=2_000_000, last_attempt=last,
    )  # fmt: skip
    message = v2.task_message(task, 0)

    assert (message.dispatch_count, message.response_count) == (2, 1)
    assert [field.name for field, _ in message.first_attempt.ListFields()] == ["dispatch_time"]
    assert message.first_attempt.dispatch_time == Timestamp(seconds=2)
    assert message.last_attempt.schedule_time == Timestamp(seconds=3)
    assert message.last_attempt.dispatch_time == Timestamp(seconds=4)
    assert message.last_attempt.response_time == Timestamp(seconds=5, nanos=1000)
    assert (message.last_attempt.response_status.code, message.last_attempt.response_status.message) == last.status
    assert message.create_time == Timestamp(seconds=1)


def test_a_task_that_was_never_attempted_shows_no_attempts() -> None:
    """Not even empty ones."""
    message = v2.task_message(Task(1, QUEUE, "t", True, HttpTarget("http://h/"), 0, 0), 0)

    assert not message.HasField("first_attempt")
    assert not message.HasField("last_attempt")


@pytest.mark.parametrize(("view", "shown"), [(0, 1), (1, 1), (2, 2), (7, 1)])
def test_an_unknown_view_is_basic(view: int, shown: int) -> None:
    """As the unspecified one."""
    message = v2.task_message(Task(1, QUEUE, "t", True, HttpTarget("http://h/", body=b"x"), 0, 0), view)

    assert message.view == shown
    assert bool(message.http_request.body) is (shown == 2)


@pytest.mark.parametrize(("number", "method"), list(enumerate(["POST", *METHODS])))
def test_a_method_is_its_number_and_unspecified_is_post(number: int, method: str) -> None:
    """In the order of the proto."""
    assert v2.method_of(number) == method


@pytest.mark.parametrize("number", [-1, 8, 1000])
def test_a_number_of_no_method_is_refused(number: int) -> None:
    """The text lists the methods."""
    with pytest.raises(InvalidArgument, match="POST, GET"):
        v2.method_of(number)


def test_the_stored_size_is_that_of_the_full_message() -> None:
    """What a caller of GetTask with FULL would receive."""
    task = Task(1, QUEUE, "t", True, HttpTarget("http://h/", body=b"x" * 1000), 0, 0)

    assert v2.stored_size(task) == len(v2.task_message(task, v2.FULL).SerializeToString())


@given(st.integers(EARLIEST, LATEST))
def test_an_instant_survives_the_way_through_a_timestamp(instant: int) -> None:
    """Before 1970, too."""
    stamp = Timestamp()
    set_instant(stamp, instant)

    assert 0 <= stamp.nanos < 10**9
    assert instant_of(stamp, "f") == instant


@given(st.integers(-DAY * 400, DAY * 400))
def test_a_span_survives_the_way_through_a_duration(span: int) -> None:
    """Seconds and nanos have one sign."""
    duration = Duration()
    set_span(duration, span)

    assert duration.seconds * duration.nanos >= 0
    assert span_of(duration, "f") == span


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(1, -1), (-1, 1), (0, 10**9), (0, -(10**9)), (315_576_000_001, 0), (-315_576_000_001, 0)],
)
def test_a_duration_that_is_none_is_refused_by_its_field(seconds: int, nanos: int) -> None:
    """Mixed signs, too many nanos, out of range."""
    with pytest.raises(InvalidArgument, match=r"Task\.dispatchDeadline"):
        span_of(Duration(seconds=seconds, nanos=nanos), "Task.dispatchDeadline")


@pytest.mark.parametrize(("nanos", "span"), [(999, 0), (1000, 1), (-999, 0), (-1999, -1)])
def test_what_is_finer_than_a_microsecond_is_cut_towards_zero(nanos: int, span: int) -> None:
    """In both directions."""
    assert span_of(Duration(nanos=nanos), "f") == span


def test_the_message_carries_what_the_task_has_and_nothing_else() -> None:
    """Field by field, for an HTTP task of one second's age."""
    message = v2.task_message(Task(1, QUEUE, "1", False, HttpTarget("http://h/"), SECOND, SECOND), v2.FULL)

    assert message == TaskMessage(
        name=f"{QUEUE}/tasks/1",
        view=2,
        http_request={"url": "http://h/", "http_method": 1},
        schedule_time=Timestamp(seconds=1),
        create_time=Timestamp(seconds=1),
    )

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.job import Job, JobRetryConfig, JobTarget
from taskbell.core.queue import Queue, QueueState, RateLimits, RetryConfig
from taskbell.core.target import (
    AppEngineTarget,
    HttpOverride,
    HttpTarget,
    OAuthToken,
    OidcToken,
    PubsubTarget,
    Routing,
    Target,
)
from taskbell.core.task import Attempt, Status, Task
from taskbell.engines.record import (
    decode_attempt,
    decode_job_request,
    decode_queue,
    decode_retry_config,
    decode_target,
    encode_attempt,
    encode_job_request,
    encode_request,
    encode_settings,
)

TEXT = st.text()
NUMBER = st.integers(-(2**63), 2**63 - 1)
HEADERS = st.lists(st.tuples(TEXT, TEXT), max_size=4).map(tuple)
TOKENS = st.none() | st.builds(OidcToken, TEXT, TEXT) | st.builds(OAuthToken, TEXT, TEXT)
ROUTINGS = st.builds(Routing, TEXT, TEXT, TEXT, TEXT)
RETRIES = st.builds(RetryConfig, st.none() | NUMBER, st.none() | NUMBER, NUMBER, NUMBER, NUMBER)
TARGETS = st.one_of(
    st.builds(HttpTarget, TEXT, TEXT, HEADERS, st.binary(), TOKENS),
    st.builds(AppEngineTarget, TEXT, TEXT, HEADERS, st.binary(), ROUTINGS),
)
OVERRIDES = st.builds(
    HttpOverride,
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | NUMBER,
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | st.booleans(),
    st.booleans(),
    st.none() | TEXT,
    HEADERS,
    TOKENS,
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(target=TARGETS, deadline=st.none() | NUMBER, retry=st.none() | RETRIES)
def test_requests_read_back_exactly(target: Target, deadline: int | None, retry: RetryConfig | None) -> None:
    """Texts of any characters, headers in their order and case, whatever is absent; and ASCII on the way."""
    task = Task(1, "q", "1", False, target, 0, 0, deadline, retry)
    text = encode_request(task)
    record: dict[str, Any] = json.loads(text)

    assert text.isascii()
    assert decode_target(record, target.body) == target
    assert decode_retry_config(record) == retry
    assert record.get("dispatch_deadline") == deadline


@given(
    target=TARGETS | st.builds(PubsubTarget, TEXT, st.binary(), HEADERS),
    deadline=st.none() | NUMBER,
    retry=st.just(JobRetryConfig()) | st.builds(JobRetryConfig, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER),
)
def test_job_requests_read_back_exactly(target: JobTarget, deadline: int | None, retry: JobRetryConfig) -> None:
    """Of each kind of target."""
    text = encode_job_request(Job(1, "j", target, "", retry_config=retry, attempt_deadline=deadline))

    assert text.isascii()
    assert decode_job_request(json.loads(text), target.body) == (target, deadline, retry)


@given(
    attempt=st.none()
    | st.builds(Attempt, NUMBER, NUMBER, st.none() | NUMBER, st.none() | st.builds(Status, NUMBER, TEXT))
)
def test_attempts_read_back_exactly(attempt: Attempt | None) -> None:
    """With and without an answer."""
    text = encode_attempt(attempt)

    assert decode_attempt(None if text is None else json.loads(text)) == attempt


@given(
    queue=st.builds(
        Queue,
        TEXT,
        st.builds(RateLimits, FLOATS, NUMBER, NUMBER),
        RETRIES,
        st.sampled_from(QueueState),
        st.none() | NUMBER,
        st.none() | ROUTINGS,
        st.none() | OVERRIDES,
        st.none() | FLOATS,
        NUMBER,
        NUMBER,
    )
)
def test_queues_read_back_exactly(queue: Queue) -> None:
    """Every setting, and each kind of absence."""
    columns = (queue.name, queue.state.value, queue.purge_time, queue.task_ttl, queue.tombstone_ttl)

    assert decode_queue((*columns, encode_settings(queue))) == queue

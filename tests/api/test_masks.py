"""Field masks over messages, on the messages of the API."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import tasks_v2
from hypothesis import given
from hypothesis import strategies as st

from taskbell.api.masks import merged
from taskbell.core.errors import InvalidArgument

Queue: Any = tasks_v2.Queue.pb()
OUTPUT_ONLY = frozenset({"name", "state", "purge_time"})
PATHS = [
    "rate_limits",
    "rate_limits.max_dispatches_per_second",
    "retry_config",
    "retry_config.max_attempts",
    "retry_config.min_backoff",
    "http_target",
    "http_target.uri_override",
    "http_target.uri_override.port",
    "http_target.uri_override.path_override.path",
    "http_target.header_overrides",
    "http_target.oidc_token.audience",
    "http_target.oauth_token.scope",
    "app_engine_routing_override",
    "stackdriver_logging_config.sampling_ratio",
    "name",
    "state",
]


def make_queue(number: int) -> Any:
    """A queue in which every field that callers may set says this number."""
    queue = Queue(name=f"q{number}", state=number)
    queue.rate_limits.max_dispatches_per_second = number
    queue.rate_limits.max_concurrent_dispatches = number
    queue.retry_config.max_attempts = number
    queue.retry_config.min_backoff.seconds = number
    queue.http_target.uri_override.host = f"h{number}"
    queue.http_target.uri_override.port = number
    queue.http_target.uri_override.path_override.path = f"/{number}"
    queue.http_target.header_overrides.add().header.key = f"K{number}"
    queue.http_target.oidc_token.audience = f"a{number}"
    queue.app_engine_routing_override.service = f"s{number}"
    queue.stackdriver_logging_config.sampling_ratio = number
    return queue


STORED, SENT = make_queue(1), make_queue(2)


def lay(paths: list[str], sent: Any = SENT, stored: Any = STORED) -> Any:
    """The merged queue."""
    return merged(stored, sent, paths, OUTPUT_ONLY)


def test_an_empty_mask_lays_over_everything_that_callers_may_set() -> None:
    """Output-only fields are the stored ones."""
    expected = make_queue(2)
    expected.name, expected.state = "q1", 1

    assert lay([]) == expected
    assert lay(["*"]) == expected
    assert lay(["*", "retry_config"]) == expected


def test_an_empty_mask_over_an_empty_message_clears_everything_that_callers_may_set() -> None:
    """What is not sent is not kept."""
    assert lay([], Queue()) == Queue(name="q1", state=1)


def test_a_path_lays_over_its_field_alone() -> None:
    """Its neighbours stay."""
    expected = make_queue(1)
    expected.retry_config.max_attempts = 2

    assert lay(["retry_config.max_attempts"]) == expected


def test_a_path_whose_field_was_not_sent_clears_it_and_keeps_its_neighbours() -> None:
    """At any depth, with presence or without."""
    expected = make_queue(1)
    expected.retry_config.ClearField("max_attempts")
    expected.http_target.uri_override.ClearField("port")

    assert lay(["retry_config.max_attempts", "http_target.uri_override.port"], Queue()) == expected


def test_a_message_all_of_whose_fields_were_cleared_is_dropped() -> None:
    """The one leaf that the token has."""
    cleared = lay(["http_target.oidc_token.audience"], Queue())

    assert not cleared.http_target.HasField("oidc_token")
    assert cleared.http_target.uri_override.host == "h1"


def test_a_message_that_was_sent_empty_is_kept_empty() -> None:
    """Sending it says that it is there."""
    sent = Queue()
    sent.stackdriver_logging_config.SetInParent()

    assert lay(["stackdriver_logging_config.sampling_ratio"], sent).HasField("stackdriver_logging_config")


def test_a_list_is_replaced_and_not_appended_to() -> None:
    """Whole, or cleared."""
    keys = [item.header.key for item in lay(["http_target.header_overrides"]).http_target.header_overrides]

    assert keys == ["K2"]
    assert not lay(["http_target.header_overrides"], Queue()).http_target.header_overrides


def test_a_map_is_replaced_and_not_merged() -> None:
    """Of a task, whose headers are a map."""
    task: Any = tasks_v2.HttpRequest.pb()
    stored, sent = task(headers={"a": "1", "b": "1"}), task(headers={"b": "2"})

    assert merged(stored, sent, ["headers"], frozenset()).headers == {"b": "2"}
    assert not merged(stored, task(), ["headers"], frozenset()).headers


def test_a_member_of_a_oneof_displaces_the_other() -> None:
    """A queue has one token."""
    sent = Queue()
    sent.http_target.oauth_token.scope = "s"
    target = lay(["http_target.oauth_token.scope"], sent).http_target

    assert target.WhichOneof("authorization_header") == "oauth_token"
    assert target.oauth_token.scope == "s"


def test_clearing_the_member_of_a_oneof_that_is_not_set_leaves_the_other() -> None:
    """There is nothing to clear."""
    assert lay(["http_target.oauth_token.scope"], Queue()).http_target.oidc_token.audience == "a1"


def test_an_optional_scalar_keeps_its_presence() -> None:
    """Port 0 was sent, and means something."""
    sent = Queue()
    sent.http_target.uri_override.port = 0
    override = lay(["http_target.uri_override.port"], sent).http_target.uri_override

    assert override.HasField("port")
    assert override.port == 0


@pytest.mark.parametrize("path", ["name", "state", "purge_time", "purge_time.seconds"])
def test_output_only_fields_are_left_alone_whoever_names_them(path: str) -> None:
    """No error, no effect."""
    assert lay([path]) == STORED


@pytest.mark.parametrize(
    "path",
    ["", ".", "colour", "rateLimits", "rate_limits.", "rate_limits.colour", "name.x", "retry_config.max_attempts.x",
     "http_target.header_overrides.header", "rate_limits.*", "Retry_config", " state"],
)  # fmt: skip
def test_a_path_that_names_no_field_is_refused_with_the_whole_of_it(path: str) -> None:
    """Wherever it goes wrong, and before anything is laid over."""
    with pytest.raises(InvalidArgument) as caught:
        lay(["retry_config", path])

    assert caught.value.message == f"Invalid mask for Queue: {path}"


def test_neither_message_is_touched() -> None:
    """The result is a new one."""
    stored, sent = make_queue(1), make_queue(2)
    lay(PATHS, sent, stored)

    assert (stored, sent) == (STORED, SENT)


@given(paths=st.lists(st.sampled_from(PATHS)), sent=st.sampled_from([SENT, Queue()]))
def test_laying_a_message_over_twice_is_laying_it_over_once(paths: list[str], sent: Any) -> None:
    """And the order of the paths does not matter."""
    once = lay(paths, sent)

    assert lay(paths, sent, once) == once
    assert lay(paths[::-1], sent) == once


@given(paths=st.lists(st.sampled_from(PATHS)))
def test_a_message_laid_over_itself_is_itself(paths: list[str]) -> None:
    """Get, then update with what was got."""
    assert lay(paths, STORED) == STORED

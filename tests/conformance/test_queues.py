"""Queues: cases named by RPC and condition, with the recorded codes and texts (wire.md sections 4.1 to 4.5)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from taskbell.core.instant import DAY, HOUR, SECOND
from tests.conformance.wire import LOCATION, QUEUE, TASK, Refused, Wire

QUEUE_MISSING = (
    "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize."
)
TOO_RECENT = "The queue cannot be created because a queue with this name existed too recently."
NOT_FOUND = Refused("NOT_FOUND", "Requested entity was not found.")
NAME_FORM = 'Queue name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>".'


def seconds(value: float) -> Duration:
    """A Duration."""
    return Duration(seconds=int(value), nanos=round((value - int(value)) * 1e9))


async def test_create_queue_with_a_name_alone_answers_every_default(wire: Wire) -> None:
    """As documented output shows it: no purge time, no maximum retry duration."""
    queue = await wire.create_queue()

    assert queue.name == QUEUE
    assert queue.state == 1
    limits = queue.rate_limits
    assert (limits.max_dispatches_per_second, limits.max_burst_size, limits.max_concurrent_dispatches) == (
        500,
        100,
        1000,
    )
    retry = queue.retry_config
    assert (retry.max_attempts, retry.max_doublings) == (100, 16)
    assert (retry.min_backoff, retry.max_backoff) == (seconds(0.1), seconds(3600))
    assert not retry.HasField("max_retry_duration")
    assert {field.name for field, _ in queue.ListFields()} == {"name", "rate_limits", "retry_config", "state"}
    assert await wire.call("GetQueue", name=QUEUE) == queue


async def test_create_queue_exists(wire: Wire) -> None:
    """The recorded text has no full stop."""
    await wire.create_queue()

    assert await wire.refused("CreateQueue", parent=LOCATION, queue={"name": QUEUE}) == Refused(
        "ALREADY_EXISTS", "Queue already exists"
    )


@pytest.mark.parametrize("name", ["", "q", "a_b", "a" * 101])
async def test_create_queue_malformed_name(wire: Wire, name: str) -> None:
    """With help on the definition of a queue name."""
    full = f"{LOCATION}/queues/{name}" if "_" in name or len(name) > 100 else name

    assert await wire.refused("CreateQueue", parent=LOCATION, queue={"name": full}) == Refused(
        "INVALID_ARGUMENT", NAME_FORM, ("Definition of queue name",)
    )


async def test_create_queue_name_outside_its_parent(wire: Wire) -> None:
    """Both names are in the text."""
    other = "projects/p/locations/europe-west1/queues/q"

    assert await wire.refused("CreateQueue", parent=LOCATION, queue={"name": other}) == Refused(
        "INVALID_ARGUMENT", f"{other} must begin with {LOCATION}."
    )


async def test_create_queue_malformed_parent(grpc: Wire) -> None:
    """What no REST path can say."""
    assert (await grpc.refused("CreateQueue", parent="p", queue={"name": QUEUE})) == Refused(
        "INVALID_ARGUMENT", "Invalid resource field value in the request."
    )


async def test_create_queue_bad_location(wire: Wire) -> None:
    """The text that points to ListLocations."""
    refusal = await wire.refused(
        "CreateQueue", parent="projects/p/locations/US", queue={"name": "projects/p/locations/US/queues/q"}
    )

    assert refusal == Refused(
        "INVALID_ARGUMENT", "Location 'US' is not a valid location. Use ListLocations to list valid locations."
    )


async def test_l03_the_same_id_in_two_locations_is_two_queues(wire: Wire) -> None:
    """A location is an opaque part of the name; lists are per location."""
    other = "projects/p/locations/asia-northeast2/queues/q"
    await wire.create_queue()
    await wire.create_queue(other)

    for name in (QUEUE, other):
        parent = name.rpartition("/queues/")[0]
        assert [queue.name for queue in (await wire.call("ListQueues", parent=parent)).queues] == [name]


RANGES: list[tuple[dict[str, Any], str]] = [
    ({"rate_limits": {"max_dispatches_per_second": -1.0}}, "RateLimits.maxDispatchesPerSecond cannot be negative."),
    (
        {"rate_limits": {"max_dispatches_per_second": 500.001}},
        "RateLimits.maxDispatchesPerSecond must be less than or equal to 500.",
    ),
    ({"rate_limits": {"max_concurrent_dispatches": -1}}, "RateLimits.maxConcurrentDispatches cannot be negative."),
    (
        {"rate_limits": {"max_concurrent_dispatches": 5001}},
        "RateLimits.maxConcurrentDispatches must be less than or equal to 5000.",
    ),
    ({"retry_config": {"max_attempts": -2}}, "RetryConfig.maxAttempts must be greater or equal to -1."),
    ({"retry_config": {"max_doublings": -1}}, "RetryConfig.maxDoublings cannot be negative."),
    ({"retry_config": {"min_backoff": seconds(-1)}}, "RetryConfig.minBackoff cannot be negative."),
    ({"retry_config": {"max_backoff": seconds(-1)}}, "RetryConfig.maxBackoff cannot be negative."),
    ({"retry_config": {"max_retry_duration": seconds(-1)}}, "RetryConfig.maxRetryDuration cannot be negative."),
    (
        {"retry_config": {"min_backoff": seconds(20), "max_backoff": seconds(10)}},
        "RetryConfig.minBackoff must be less than or equal to RetryConfig.maxBackoff.",
    ),
    (
        {"stackdriver_logging_config": {"sampling_ratio": 1.01}},
        "StackdriverLoggingConfig.samplingRatio must be between 0.0 and 1.0.",
    ),
    ({"http_target": {"uri_override": {"host": ""}}}, "UriOverride.host cannot be empty."),
]


@pytest.mark.parametrize(("fields", "text"), RANGES, ids=[text for _, text in RANGES])
async def test_create_and_update_queue_out_of_range(wire: Wire, fields: dict[str, Any], text: str) -> None:
    """The recorded texts; nothing is stored."""
    assert await wire.refused("CreateQueue", parent=LOCATION, queue={"name": QUEUE, **fields}) == Refused(
        "INVALID_ARGUMENT", text
    )
    assert (await wire.refused("GetQueue", name=QUEUE)).code == "NOT_FOUND"
    before = await wire.create_queue()
    assert await wire.refused("UpdateQueue", queue={"name": QUEUE, **fields}) == Refused("INVALID_ARGUMENT", text)
    assert await wire.call("GetQueue", name=QUEUE) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"rate_limits": {"max_dispatches_per_second": 500.0, "max_concurrent_dispatches": 5000}},
        {"rate_limits": {"max_dispatches_per_second": 0.001, "max_concurrent_dispatches": 1}},
        {"retry_config": {"max_attempts": -1, "max_retry_duration": seconds(10)}},
        {"retry_config": {"max_attempts": 1, "max_doublings": 1}},
        {"retry_config": {"min_backoff": seconds(10), "max_backoff": seconds(10)}},
        {"retry_config": {"min_backoff": seconds(0)}},
        {"stackdriver_logging_config": {"sampling_ratio": 1.0}},
        {"stackdriver_logging_config": {"sampling_ratio": 0.0}},
        {"app_engine_routing_override": {"service": "worker", "version": "v1"}},
        {"http_target": {"uri_override": {"scheme": 1, "host": "h", "port": 0}, "http_method": 4}},
        {"http_target": {"uri_override": {"path_override": {"path": ""}, "query_override": {"query_params": ""}}}},
        {"http_target": {"header_overrides": [{"header": {"key": "A", "value": "b"}}]}},
        {"http_target": {"oidc_token": {"service_account_email": "a@p", "audience": "x"}}},
        {"http_target": {"oauth_token": {"service_account_email": "a@p", "scope": "x"}}},
        {"http_target": {"uri_override": {"uri_override_enforce_mode": 1}}},
    ],
)
async def test_create_queue_keeps_what_is_in_range(wire: Wire, fields: dict[str, Any]) -> None:
    """What was sent reads back, by GetQueue and ListQueues alike, with the defaults around it."""
    queue = await wire.create_queue(**fields)

    def assert_kept(sent: dict[str, Any], message: Any) -> None:
        for name, value in sent.items():
            kept = getattr(message, name)
            if isinstance(value, dict):
                assert message.HasField(name)
                assert_kept(value, kept)
            elif isinstance(value, list):
                assert_kept(value[0], kept[0])
            else:
                assert kept == value
                field = message.DESCRIPTOR.fields_by_name[name]
                assert not field.has_presence or message.HasField(name)

    assert_kept(fields, queue)
    assert await wire.call("GetQueue", name=QUEUE) == queue
    assert list((await wire.call("ListQueues", parent=LOCATION)).queues) == [queue]


@pytest.mark.parametrize("burst", [1, -1, 499])
async def test_a03_create_queue_ignores_max_burst_size(wire: Wire, burst: int) -> None:
    """Output only: the server derives it from the rate, and a mask that names it is no error."""
    limits = {"max_burst_size": burst, "max_concurrent_dispatches": 3, "max_dispatches_per_second": 2.0}
    queue = await wire.create_queue(rate_limits=limits)
    assert queue.rate_limits.max_burst_size == 10

    mask = FieldMask(paths=["rate_limits.max_burst_size"])
    updated = await wire.call("UpdateQueue", queue={"name": QUEUE, "rate_limits": limits}, update_mask=mask)
    assert updated == queue


async def test_create_queue_zeros_are_unset(wire: Wire) -> None:
    """Proto3 cannot tell them apart: the defaults."""
    queue = await wire.create_queue(
        rate_limits={"max_dispatches_per_second": 0.0, "max_concurrent_dispatches": 0},
        retry_config={"max_attempts": 0, "max_doublings": 0, "max_retry_duration": seconds(0)},
    )

    assert queue.rate_limits.max_dispatches_per_second == 500
    assert (queue.retry_config.max_attempts, queue.retry_config.max_doublings) == (100, 16)
    assert not queue.retry_config.HasField("max_retry_duration")


async def test_create_queue_ignores_output_only_fields(wire: Wire) -> None:
    """State and purge time are the server's."""
    queue = await wire.create_queue(state=2)

    assert queue.state == 1


@pytest.mark.parametrize("rpc", ["GetQueue", "PurgeQueue", "PauseQueue", "ResumeQueue"])
async def test_a_missing_or_tombstoned_queue(wire: Wire, rpc: str) -> None:
    """One text for both."""
    assert await wire.refused(rpc, name=QUEUE) == Refused("NOT_FOUND", QUEUE_MISSING)
    await wire.create_queue()
    await wire.call("DeleteQueue", name=QUEUE)
    assert await wire.refused(rpc, name=QUEUE) == Refused("NOT_FOUND", QUEUE_MISSING)


async def test_a14_list_tasks_of_a_deleted_queue(wire: Wire) -> None:
    """NOT_FOUND, as before the queue existed."""
    assert await wire.refused("ListTasks", parent=QUEUE) == Refused("NOT_FOUND", QUEUE_MISSING)
    await wire.create_queue()
    assert len((await wire.call("ListTasks", parent=QUEUE)).tasks) == 0
    await wire.call("DeleteQueue", name=QUEUE)
    assert await wire.refused("ListTasks", parent=QUEUE) == Refused("NOT_FOUND", QUEUE_MISSING)


async def test_delete_queue_missing_has_a_text_of_its_own(wire: Wire) -> None:
    """Other than GetQueue's, missing or tombstoned."""
    assert await wire.refused("DeleteQueue", name=QUEUE) == NOT_FOUND
    await wire.create_queue()
    await wire.call("DeleteQueue", name=QUEUE)
    assert await wire.refused("DeleteQueue", name=QUEUE) == NOT_FOUND


async def test_n04_the_name_of_a_deleted_queue_is_blocked_for_seven_days(wire: Wire) -> None:
    """For CreateQueue and for UpdateQueue, which creates too; afterwards the queue starts empty."""
    await wire.create_paused_queue()
    await wire.create_task(name=TASK)
    await wire.call("DeleteQueue", name=QUEUE)
    wire.clock.advance(7 * DAY - SECOND)
    assert await wire.refused("CreateQueue", parent=LOCATION, queue={"name": QUEUE}) == Refused(
        "FAILED_PRECONDITION", TOO_RECENT
    )
    assert (await wire.refused("UpdateQueue", queue={"name": QUEUE})).code == "FAILED_PRECONDITION"

    wire.clock.advance(SECOND)
    await wire.create_paused_queue()
    assert len((await wire.call("ListTasks", parent=QUEUE)).tasks) == 0
    await wire.create_task(name=TASK)


async def test_list_queues_goes_by_name_and_pages(wire: Wire) -> None:
    """The union of the pages is the list, and the last page has no token."""
    names = sorted(f"{LOCATION}/queues/{name}" for name in ("b", "a", "C", "a-1", "0", "Z9", "aa"))
    for name in reversed(names):
        await wire.create_queue(name)
    seen: list[str] = []
    token, pages = "", 0
    while pages == 0 or token:
        page = await wire.call("ListQueues", parent=LOCATION, page_size=3, page_token=token)
        assert len(page.queues) <= 3
        seen += [queue.name for queue in page.queues]
        token, pages = page.next_page_token, pages + 1

    assert (seen, pages) == (names, 3)
    assert not (await wire.call("ListQueues", parent=LOCATION, page_size=7)).next_page_token
    assert len((await wire.call("ListQueues", parent=LOCATION, page_size=100_000)).queues) == 7
    assert len((await wire.call("ListQueues", parent="projects/p/locations/empty")).queues) == 0


async def test_a04_list_queues_bad_tokens_and_sizes(wire: Wire) -> None:
    """A token is bound to its parent and filter, and good for two hours."""
    for name in ("a", "b"):
        await wire.create_queue(f"{LOCATION}/queues/{name}")
    token = (await wire.call("ListQueues", parent=LOCATION, page_size=1)).next_page_token
    bad = [
        {"parent": LOCATION, "page_token": "nonsense"},
        {"parent": LOCATION, "page_token": token, "filter": "state: PAUSED"},
        {"parent": "projects/p/locations/other", "page_token": token},
        {"parent": LOCATION, "page_size": -1},
    ]
    for fields in bad:
        assert (await wire.refused("ListQueues", **fields)).code == "INVALID_ARGUMENT"
    wire.clock.advance(2 * HOUR)
    assert len((await wire.call("ListQueues", parent=LOCATION, page_token=token)).queues) == 1
    wire.clock.advance(1)
    assert (await wire.refused("ListQueues", parent=LOCATION, page_token=token)).code == "INVALID_ARGUMENT"


async def test_list_queues_filter_by_state(wire: Wire) -> None:
    """The documented sample."""
    await wire.create_queue(f"{LOCATION}/queues/a")
    await wire.create_paused_queue(f"{LOCATION}/queues/b")

    found = await wire.call("ListQueues", parent=LOCATION, filter="state: PAUSED")

    assert [queue.name for queue in found.queues] == [f"{LOCATION}/queues/b"]


# UpdateQueue.


async def test_update_queue_creates_a_queue_that_is_missing(wire: Wire) -> None:
    """With the fields that were sent, or the masked ones of them, and defaults."""
    limits = {"max_dispatches_per_second": 5.0, "max_concurrent_dispatches": 7}
    mask = FieldMask(paths=["rate_limits.max_dispatches_per_second"])
    queue = await wire.call("UpdateQueue", queue={"name": QUEUE, "rate_limits": limits}, update_mask=mask)

    assert queue.rate_limits.max_dispatches_per_second == 5
    assert (queue.rate_limits.max_burst_size, queue.rate_limits.max_concurrent_dispatches) == (10, 1000)
    assert await wire.call("GetQueue", name=QUEUE) == queue


async def test_update_queue_without_a_mask_replaces_everything(wire: Wire) -> None:
    """What is not sent goes back to its default."""
    await wire.create_queue(
        rate_limits={"max_dispatches_per_second": 5.0},
        retry_config={"max_attempts": 3},
        app_engine_routing_override={"service": "s"},
        stackdriver_logging_config={"sampling_ratio": 0.5},
        http_target={"uri_override": {"host": "h"}},
    )
    fresh = await wire.call("UpdateQueue", queue={"name": QUEUE, "retry_config": {"max_attempts": 4}})

    assert fresh.retry_config.max_attempts == 4
    assert fresh.rate_limits.max_dispatches_per_second == 500
    assert {field.name for field, _ in fresh.ListFields()} == {"name", "rate_limits", "retry_config", "state"}


async def test_a07_update_queue_with_what_get_returned_changes_nothing_else(wire: Wire) -> None:
    """One changed field, with and without a mask."""
    before = await wire.create_queue(
        rate_limits={"max_dispatches_per_second": 5.0},
        app_engine_routing_override={"service": "qa"},
        http_target={"uri_override": {"host": "h", "port": 0}},
    )
    before.retry_config.max_attempts = 9
    for mask in (FieldMask(), FieldMask(paths=["retry_config"])):
        after = await wire.call("UpdateQueue", queue=before, update_mask=mask)
        assert after == before


@pytest.mark.parametrize(
    "path",
    ["retry_config.max_attempts", "retry_config", "rate_limits.max_dispatches_per_second", "rate_limits"],
)
async def test_update_queue_a_masked_field_that_is_not_sent_goes_back_to_its_default(wire: Wire, path: str) -> None:
    """And nothing beside it does."""
    await wire.create_queue(
        rate_limits={"max_dispatches_per_second": 5.0, "max_concurrent_dispatches": 7},
        retry_config={"max_attempts": 3, "max_doublings": 2},
    )
    queue = await wire.call("UpdateQueue", queue={"name": QUEUE}, update_mask=FieldMask(paths=[path]))

    limits, retry = queue.rate_limits, queue.retry_config
    assert limits.max_dispatches_per_second == (500 if path.startswith("rate") else 5)
    assert limits.max_burst_size == (100 if path.startswith("rate") else 10)
    assert limits.max_concurrent_dispatches == (1000 if path == "rate_limits" else 7)
    assert retry.max_attempts == (100 if path.startswith("retry") else 3)
    assert retry.max_doublings == (16 if path == "retry_config" else 2)


async def test_update_queue_clears_queue_level_routing(wire: Wire) -> None:
    """As documented: the mask http_target with an empty queue."""
    await wire.create_queue(http_target={"uri_override": {"host": "h"}})
    queue = await wire.call("UpdateQueue", queue={"name": QUEUE}, update_mask=FieldMask(paths=["http_target"]))

    assert not queue.HasField("http_target")


async def test_update_queue_clearing_every_leaf_of_a_token_drops_the_token(wire: Wire) -> None:
    """As gcloud's clear flags send it."""
    await wire.create_queue(http_target={"oidc_token": {"service_account_email": "a@p", "audience": "x"}})
    paths = [
        "http_target.oidc_token.service_account_email",
        "http_target.oidc_token.audience",
        "http_target.oauth_token.service_account_email",
        "http_target.oauth_token.scope",
    ]
    queue = await wire.call("UpdateQueue", queue={"name": QUEUE}, update_mask=FieldMask(paths=paths))

    assert queue.http_target.WhichOneof("authorization_header") is None


async def test_update_queue_unknown_mask_path(grpc: Wire) -> None:
    """Named in the text; nothing is created. Over gRPC paths are snake_case."""
    for path in ("colour", "rate_limits.colour", "rate_limits.max_burst_size.x", "rateLimits", "name.x", ""):
        refusal = await grpc.refused("UpdateQueue", queue={"name": QUEUE}, update_mask=FieldMask(paths=[path]))
        assert refusal == Refused("INVALID_ARGUMENT", f"Invalid mask for Queue: {path}")
    assert (await grpc.refused("GetQueue", name=QUEUE)).code == "NOT_FOUND"


async def test_a10_update_queue_leaves_the_state_alone(wire: Wire) -> None:
    """Whether it is masked or not, whatever is sent."""
    await wire.create_queue()
    for mask in (FieldMask(), FieldMask(paths=["state"])):
        queue = await wire.call("UpdateQueue", queue={"name": QUEUE, "state": 2}, update_mask=mask)
        assert queue.state == 1
    await wire.call("PauseQueue", name=QUEUE)
    queue = await wire.call("UpdateQueue", queue={"name": QUEUE, "state": 1}, update_mask=FieldMask(paths=["state"]))
    assert queue.state == 2


# Purge, pause, resume.


async def test_pause_and_resume_are_idempotent_and_answer_the_queue(wire: Wire) -> None:
    """The state says what holds."""
    await wire.create_queue()
    for rpc, state in (("ResumeQueue", 1), ("PauseQueue", 2), ("PauseQueue", 2), ("ResumeQueue", 1)):
        assert (await wire.call(rpc, name=QUEUE)).state == state
        assert (await wire.call("GetQueue", name=QUEUE)).state == state


async def test_purge_queue_removes_what_is_there_and_says_when(wire: Wire) -> None:
    """The purge time is the instant of the call to the microsecond; the state stays."""
    await wire.create_paused_queue()
    wire.clock.advance(123_456)
    await wire.create_task(name=TASK)
    await wire.create_task()
    queue = await wire.call("PurgeQueue", name=QUEUE)

    assert queue.state == 2
    purge_time = queue.purge_time.seconds * SECOND + queue.purge_time.nanos // 1000
    assert purge_time == wire.clock.now()
    assert len((await wire.call("ListTasks", parent=QUEUE)).tasks) == 0
    await wire.create_task()
    assert len((await wire.call("ListTasks", parent=QUEUE)).tasks) == 1

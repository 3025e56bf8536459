"""CreateJob: what is stored and shown, and what is refused, over both transports (wire.md section 7.2)."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from taskbell.core.instant import SECOND
from taskbell.testing.clock import START
from tests.conformance.scheduler_wire import EVERY_MINUTE, JOB, LOCATION, URL, JobWire, RawRest, job_fields
from tests.conformance.wire import Refused

NOW = START // SECOND
INVALID = "INVALID_ARGUMENT"
NOT_FOUND = Refused("NOT_FOUND", "Job not found.")
NAME_FORM = Refused(
    INVALID, 'Job name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/jobs/<JOB_ID>".'
)
AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"


@pytest.fixture(params=["grpc", "rest"])
def wire(request: pytest.FixtureRequest) -> JobWire:
    """Version 1, called one way or the other."""
    return JobWire(request.param)


@pytest.fixture(params=[("grpc", "v1"), ("rest", "v1"), ("grpc", "v1beta1"), ("rest", "v1beta1")])
def any_wire(request: pytest.FixtureRequest) -> JobWire:
    """Each version, called one way or the other."""
    return JobWire(*request.param)


@pytest.fixture
def grpc() -> JobWire:
    """For what only gRPC can say: names that fit no REST path."""
    return JobWire("grpc")


@pytest.fixture
def rest() -> RawRest:
    """For what only JSON can say."""
    return RawRest(JobWire("rest"))


async def test_r08_what_a_job_shows_when_it_was_created(any_wire: JobWire) -> None:
    """All defaults; not attempted; the next instant."""
    job = await any_wire.create()

    assert job.name == JOB
    assert (job.schedule, job.time_zone, job.description) == (EVERY_MINUTE, "UTC", "")
    assert (job.state, job.status.code, job.HasField("status")) == (1, -1, True)
    assert job.attempt_deadline == Duration(seconds=180)
    assert job.schedule_time == Timestamp(seconds=NOW + 60)
    assert job.user_update_time == Timestamp(seconds=NOW)
    assert not job.HasField("last_attempt_time")
    retry = job.retry_config
    assert (retry.retry_count, retry.max_doublings) == (0, 5)
    assert retry.HasField("max_retry_duration")
    assert (retry.max_retry_duration, retry.min_backoff_duration, retry.max_backoff_duration) == (
        Duration(),
        Duration(seconds=5),
        Duration(seconds=3600),
    )
    assert await any_wire.get() == job


async def test_r08_the_json_of_a_new_job(rest: RawRest) -> None:
    """To the letter, but for the order of keys."""
    body = {"name": JOB, "schedule": EVERY_MINUTE, "httpTarget": {"uri": URL}, "retryConfig": {"retryCount": 1}}

    assert await rest.ok("POST", f"/v1/{LOCATION}/jobs", body) == {
        "name": JOB,
        "schedule": EVERY_MINUTE,
        "timeZone": "UTC",
        "state": "ENABLED",
        "status": {"code": -1},
        "httpTarget": {"uri": URL, "httpMethod": "POST", "headers": {"User-Agent": "Google-Cloud-Scheduler"}},
        "attemptDeadline": "180s",
        "retryConfig": {
            "retryCount": 1,
            "maxRetryDuration": "0s",
            "minBackoffDuration": "5s",
            "maxBackoffDuration": "3600s",
            "maxDoublings": 5,
        },
        "scheduleTime": "2027-01-15T08:01:00Z",
        "userUpdateTime": "2027-01-15T08:00:00Z",
    }


async def test_h24_targets_show_their_defaults(wire: JobWire) -> None:
    """POST; a body without a type has one."""
    job = await wire.create(http_target={"uri": URL, "body": b"x"})
    app_engine = await wire.create(f"{LOCATION}/jobs/a", app_engine_http_target={"body": b"four"})
    pubsub = await wire.create(f"{LOCATION}/jobs/p", pubsub_target={"topic_name": "projects/p/topics/t", "data": b"x"})

    assert job.http_target.http_method == 1
    assert dict(job.http_target.headers) == {
        "User-Agent": "Google-Cloud-Scheduler",
        "Content-Type": "application/octet-stream",
    }
    target = app_engine.app_engine_http_target
    assert (target.http_method, target.relative_uri, target.app_engine_routing.host) == (1, "/", "p.appspot.com")
    assert dict(target.headers) == {
        "User-Agent": AGENT,
        "Content-Type": "application/octet-stream",
        "Content-Length": "4",
    }
    assert not app_engine.HasField("attempt_deadline")
    assert (pubsub.pubsub_target.topic_name, pubsub.pubsub_target.data) == ("projects/p/topics/t", b"x")


async def test_c26_the_zone_is_the_callers_or_utc(wire: JobWire) -> None:
    """Stored as sent, whatever its case; the first instant follows it."""
    fields: list[dict[str, Any]] = [{}, {"time_zone": "utc"}, {"time_zone": "Asia/Kolkata"}]
    shown = []
    for number, each in enumerate(fields):
        job = await wire.create(f"{LOCATION}/jobs/j{number}", schedule="0 12 * * *", **each)
        shown.append((job.time_zone, (job.schedule_time.seconds - NOW) // 60))

    assert shown == [("UTC", 240), ("utc", 240), ("Asia/Kolkata", 22 * 60 + 30)]


async def test_a_job_without_a_name_gets_one_of_its_own(wire: JobWire) -> None:
    """Under its parent."""
    first, second = await wire.create(""), await wire.create("")

    assert first.name != second.name
    assert first.name.startswith(f"{LOCATION}/jobs/")


async def test_what_only_the_service_sets_is_ignored(grpc: JobWire) -> None:
    """State, status and times."""
    job = await grpc.create(
        state=2, status={"code": 9}, schedule_time=Timestamp(seconds=1), last_attempt_time=Timestamp(seconds=1)
    )

    assert (job.state, job.status.code) == (1, -1)
    assert job.schedule_time.seconds > 1
    assert not job.HasField("last_attempt_time")


@pytest.mark.parametrize("name", [JOB, f"{LOCATION}/jobs/{'x' * 500}", f"{LOCATION}/jobs/A_b-9"])
async def test_a_name_is_taken_once(wire: JobWire, name: str) -> None:
    """And free at once when its job is deleted."""
    await wire.create(name)
    assert await wire.create_refused(name) == Refused("ALREADY_EXISTS", f"Job {name} already exists.")
    await wire.call("DeleteJob", name=name)
    await wire.create(name)


@pytest.mark.parametrize(
    "name",
    [
        "j",
        "projects/p/jobs/j",
        f"{LOCATION}/jobs/",
        f"{LOCATION}/jobs/a b",
        f"{LOCATION}/jobs/a.b",
        f"{LOCATION}/jobs/a/b",
        f"{LOCATION}/jobs/{'x' * 501}",
        f"/{JOB}",
        f"{JOB}\n",
        f"{LOCATION}/jobs/ü",
    ],
)
async def test_a_name_must_have_its_form(grpc: JobWire, name: str) -> None:
    """Wherever it is named."""
    assert await grpc.create_refused(name) == NAME_FORM
    for rpc in ("GetJob", "DeleteJob", "PauseJob", "ResumeJob", "RunJob"):
        assert await grpc.refused(rpc, name=name) == NAME_FORM
    assert await grpc.refused("UpdateJob", job=job_fields(name)) == NAME_FORM


async def test_a_name_must_lie_under_the_parent(wire: JobWire) -> None:
    """Not in another location."""
    other = "projects/p/locations/europe-west1/jobs/j"
    assert await wire.create_refused(other) == Refused(INVALID, f"{other} must begin with {LOCATION}.")


@pytest.mark.parametrize("location", ["Mars", "-", "us_central1"])
async def test_a_bad_location(wire: JobWire, location: str) -> None:
    """As Google says it."""
    parent = f"projects/p/locations/{location}"
    expected = Refused(
        INVALID, f"Location '{location}' is not a valid location. Use ListLocations to list valid locations."
    )
    assert await wire.create_refused("", parent=parent) == expected
    assert await wire.refused("ListJobs", parent=parent) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"schedule": None},
        {"schedule": ""},
        {"schedule": "* * * * * *"},
        {"schedule": "@daily"},
        {"schedule": "0 0 31 2 *"},
        {"schedule": "every 6 hours mon,wed,fri"},
        {"time_zone": "Mars/Olympus"},
        {"time_zone": "utc+8"},
        {"time_zone": "../../etc/passwd"},
    ],
)
async def test_a08_a_bad_schedule_or_zone(wire: JobWire, fields: dict[str, Any]) -> None:
    """Google's sentence comes first, then ours, which says which of the two it is."""
    refusal = await wire.create_refused(**fields)
    kind = "zone" if "time_zone" in fields else "schedule"

    assert refusal.code == INVALID
    assert refusal.message.startswith("Schedule or time zone is invalid.")
    assert kind in refusal.message.removeprefix("Schedule or time zone is invalid.").lower() or fields["schedule"]


TOPIC = "projects/p/topics/t"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"description": "x" * 501}, "Job.description"),
        ({"retry_config": {"retry_count": -1}}, "RetryConfig.retryCount must be between 0 and 5, not -1."),
        ({"retry_config": {"retry_count": 6}}, "RetryConfig.retryCount must be between 0 and 5, not 6."),
        ({"retry_config": {"max_doublings": -1}}, "RetryConfig.maxDoublings"),
        ({"retry_config": {"max_retry_duration": Duration(seconds=-1)}}, "RetryConfig.maxRetryDuration"),
        ({"retry_config": {"min_backoff_duration": Duration(seconds=-1)}}, "RetryConfig.minBackoffDuration"),
        ({"retry_config": {"max_backoff_duration": Duration(seconds=-1)}}, "RetryConfig.maxBackoffDuration"),
        ({"retry_config": {"max_backoff_duration": Duration(seconds=4)}}, "RetryConfig.minBackoffDuration"),
        ({"attempt_deadline": Duration(seconds=14)}, "Job.attemptDeadline must be between [15s, 30m]."),
        ({"attempt_deadline": Duration(seconds=31 * 60)}, "Job.attemptDeadline must be between [15s, 30m]."),
        (
            {"app_engine_http_target": {}, "attempt_deadline": Duration(seconds=24 * 3600 + 16)},
            "Job.attemptDeadline must be between [15s, 24h15s].",
        ),
        ({"http_target": None}, "Job.target is not set"),
        ({"http_target": {}}, "HttpTarget.uri is required."),
        ({"http_target": {"uri": "ftp://h/"}}, "http"),
        ({"http_target": {"uri": "http://h/" + "x" * 2083}}, "2083"),
        ({"http_target": {"uri": URL, "headers": {"a b": "1"}}}, "HttpTarget.headers"),
        ({"http_target": {"uri": URL, "headers": {"a": "1\r\nb: 2"}}}, "HttpTarget.headers"),
        ({"http_target": {"uri": URL, "headers": {"a": "x" * 81920}}}, "HttpTarget.headers"),
        ({"app_engine_http_target": {"http_method": 6}}, "AppEngineHttpTarget.httpMethod cannot be PATCH."),
        ({"app_engine_http_target": {"http_method": 7}}, "AppEngineHttpTarget.httpMethod cannot be OPTIONS."),
        ({"app_engine_http_target": {"relative_uri": "no-slash"}}, "/"),
        ({"pubsub_target": {"topic_name": TOPIC}}, "PubsubTarget needs data or at least one attribute."),
        ({"pubsub_target": {"topic_name": "", "data": b"x"}}, "PubsubTarget.topicName"),
        ({"pubsub_target": {"topic_name": "projects/p/topics/", "data": b"x"}}, "PubsubTarget.topicName"),
        ({"pubsub_target": {"topic_name": "projects/p/topics/a/b", "data": b"x"}}, "PubsubTarget.topicName"),
        ({"pubsub_target": {"topic_name": "projects/q/topics/t", "data": b"x"}}, "PubsubTarget.topicName"),
    ],
)
async def test_what_no_job_may_say(wire: JobWire, fields: dict[str, Any], text: str) -> None:
    """The refusal names the field; nothing is stored."""
    refusal = await wire.create_refused(**fields)

    assert refusal.code == INVALID
    assert text in refusal.message
    assert await wire.refused("GetJob", name=JOB) == NOT_FOUND


@pytest.mark.parametrize(
    "fields",
    [
        {"description": "ü" * 500},
        {"retry_config": {"retry_count": 5}},
        {"attempt_deadline": Duration(seconds=15)},
        {"attempt_deadline": Duration(seconds=1800)},
        {"app_engine_http_target": {}, "attempt_deadline": Duration(seconds=24 * 3600 + 15)},
        {"pubsub_target": {"topic_name": TOPIC, "attributes": {"a": ""}}},
        {"pubsub_target": {"topic_name": TOPIC, "data": b"x"}, "attempt_deadline": Duration(seconds=1)},
    ],
)
async def test_what_a_job_may_just_say(wire: JobWire, fields: dict[str, Any]) -> None:
    """The largest and the least; Pub/Sub ignores the deadline."""
    job = await wire.create(**fields)

    assert await wire.get() == job
    for name, value in fields.items():
        if name in {"description", "attempt_deadline"}:
            assert getattr(job, name) == value


METHODS = ("POST", "GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS")


@pytest.mark.parametrize("number", range(1, 8))
async def test_h08_a_body_needs_a_method_that_has_one(wire: JobWire, number: int) -> None:
    """POST, PUT and PATCH; App Engine only POST and PUT."""
    method, name = METHODS[number - 1], f"{LOCATION}/jobs/a"
    target = {"http_method": number, "body": b"x"}
    if method in {"POST", "PUT", "PATCH"}:
        assert (await wire.create(http_target={"uri": URL, **target})).http_target.body == b"x"
    else:
        refusal = await wire.create_refused(http_target={"uri": URL, **target})
        assert (refusal.code, method in refusal.message) == (INVALID, True)
        assert (await wire.create(http_target={"uri": URL, "http_method": number})).http_target.http_method == number
    if method in {"POST", "PUT"}:
        assert (await wire.create(name, app_engine_http_target=target)).app_engine_http_target.body == b"x"
    else:
        refusal = await wire.create_refused(name, app_engine_http_target=target)
        assert (refusal.code, method in refusal.message) == (INVALID, True)


async def test_two_targets_are_refused(rest: RawRest) -> None:
    """The fields exclude each other."""
    body = {"schedule": EVERY_MINUTE, "httpTarget": {"uri": URL}, "pubsubTarget": {"topicName": TOPIC, "data": "eA=="}}
    status, answer = await rest.call("POST", f"/v1/{LOCATION}/jobs", body)

    assert status == 400
    assert b"pubsubTarget" in answer


async def test_a_job_larger_than_a_megabyte_is_refused(wire: JobWire) -> None:
    """And one just below is not."""
    await wire.create(http_target={"uri": URL, "body": b"x" * (1024 * 1024 - 2000)})
    refusal = await wire.create_refused(f"{LOCATION}/jobs/big", http_target={"uri": URL, "body": b"x" * 1024 * 1024})

    assert refusal == Refused(INVALID, "The job is too large: at most 1048576 bytes are allowed.")


async def test_l09_a_project_that_was_never_seen_has_jobs(wire: JobWire) -> None:
    """Nothing needs to be set up."""
    location = "projects/fresh-one/locations/us-central1"
    assert (await wire.create(f"{location}/jobs/j", parent=location)).state == 1

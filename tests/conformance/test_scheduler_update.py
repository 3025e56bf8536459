"""UpdateJob: masks, full replacement, and that what a client reads and sends back changes nothing (wire.md 7.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from taskbell.core.instant import MINUTE, SECOND
from taskbell.testing.clock import START
from tests.conformance.scheduler_wire import EVERY_MINUTE, JOB, LOCATION, URL, JobWire, RawRest
from tests.conformance.wire import Refused

NOW = START // SECOND
PATH = f"/v1/{JOB}"


@pytest.fixture(params=["grpc", "rest"])
def wire(request: pytest.FixtureRequest) -> JobWire:
    """Version 1, called one way or the other."""
    return JobWire(request.param)


@pytest.fixture(params=[("grpc", "v1"), ("rest", "v1"), ("grpc", "v1beta1"), ("rest", "v1beta1")])
def any_wire(request: pytest.FixtureRequest) -> JobWire:
    """Each version, called one way or the other."""
    return JobWire(*request.param)


@pytest.fixture
def rest() -> RawRest:
    """For what only JSON can say."""
    return RawRest(JobWire("rest"))


FULL: dict[str, dict[str, Any]] = {
    "http": {
        "httpTarget": {
            "uri": "http://h/a?b=c#d",
            "httpMethod": "PUT",
            "headers": {"X-One": "1", "User-Agent": "mine", "content-type": "text/plain", "x-two": "ü"},
            "body": "eyJhIjogMX0=",
            "oidcToken": {"serviceAccountEmail": "who@p.iam", "audience": "http://audience"},
        },
    },
    "http with a body of no type": {"httpTarget": {"uri": "http://h/", "body": "eA=="}},
    "http with OAuth": {"httpTarget": {"uri": "http://h/", "oauthToken": {"serviceAccountEmail": "who@p.iam"}}},
    "app engine": {
        "appEngineHttpTarget": {
            "relativeUri": "/work?x=1",
            "appEngineRouting": {"service": "qa", "version": "v1", "instance": "2"},
            "headers": {"X-One": "1", "User-Agent": "mine"},
            "body": "eA==",
        },
        "attemptDeadline": "86415s",
    },
    "app engine by default": {"appEngineHttpTarget": {}},
    "pubsub": {
        "pubsubTarget": {"topicName": "projects/p/topics/t", "data": "eA==", "attributes": {"b": "2", "a": "1"}}
    },
    "pubsub with a deadline": {
        "pubsubTarget": {"topicName": "projects/p/topics/t", "data": "eA=="},
        "attemptDeadline": "7s",
    },
}  # fmt: skip
SETTINGS = {
    "name": JOB,
    "description": "nightly",
    "schedule": "every 5 minutes synchronized",
    "timeZone": "europe/paris".title(),
    "retryConfig": {"retryCount": 3, "maxRetryDuration": "0.500s", "minBackoffDuration": "1.250s", "maxDoublings": 16},
}


async def create_full(rest: RawRest, kind: str) -> bytes:
    """Create a job and return what GET says of it."""
    await rest.ok("POST", f"/v1/{LOCATION}/jobs", {**SETTINGS, **FULL[kind]})
    status, answer = await rest.call("GET", PATH)
    assert status == 200
    return answer


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a07_what_was_read_and_sent_back_changes_nothing(rest: RawRest, kind: str, version: str) -> None:
    """Byte for byte, as often as one likes: GET, PATCH, and GET again."""
    first = await create_full(rest, kind)
    for _ in range(3):
        status, patched = await rest.call("PATCH", f"/{version}/{JOB}", first)
        assert (status, patched) == (200, first)
        assert (await rest.call("GET", PATH)) == (200, first)


@pytest.mark.parametrize("kind", FULL)
async def test_a07_one_changed_field_changes_only_there(rest: RawRest, kind: str) -> None:
    """With a mask and without one."""
    first = json.loads(await create_full(rest, kind))
    changed = {**first, "description": "weekly"}
    await rest.ok("PATCH", PATH, changed)
    assert await rest.ok("GET", PATH) == changed
    await rest.ok("PATCH", f"{PATH}?updateMask=description", {"description": "daily"})
    assert await rest.ok("GET", PATH) == {**first, "description": "daily"}


@pytest.mark.parametrize("kind", FULL)
async def test_r08_the_same_create_and_patch_read_the_same(rest: RawRest, kind: str) -> None:
    """A client that sends its own short form again sees no difference."""
    first = await create_full(rest, kind)
    assert (await rest.call("PATCH", PATH, {**SETTINGS, **FULL[kind]})) == (200, first)


async def test_l06_the_agent_is_stable(rest: RawRest) -> None:
    """Whatever the client sends."""
    body = {"schedule": EVERY_MINUTE, "httpTarget": {"uri": URL, "headers": {"User-Agent": "X"}}}
    created = await rest.ok("POST", f"/v1/{LOCATION}/jobs", {"name": JOB, **body})
    read = await rest.ok("GET", PATH)
    patched = await rest.ok("PATCH", PATH, body)

    headers = [each["httpTarget"]["headers"] for each in (created, read, patched, await rest.ok("GET", PATH))]
    assert headers == [{"User-Agent": "Google-Cloud-Scheduler"}] * 4


async def test_without_a_mask_all_settings_are_replaced(any_wire: JobWire) -> None:
    """As Terraform sends it: what is absent takes its default; state and times of runs stay."""
    await any_wire.create(
        description="d",
        time_zone="Asia/Kolkata",
        attempt_deadline=Duration(seconds=20),
        retry_config={"retry_count": 3},
        http_target={"uri": URL, "body": b"x", "headers": {"A": "1"}},
    )
    await any_wire.jobs.advance(MINUTE)
    before = await any_wire.get()
    after = await any_wire.update(schedule="0 12 * * *", http_target={"uri": "http://h/new"})

    assert (after.description, after.time_zone, after.schedule) == ("", "UTC", "0 12 * * *")
    assert (after.attempt_deadline.seconds, after.retry_config.retry_count) == (180, 0)
    assert (after.http_target.body, dict(after.http_target.headers)) == (b"", {"User-Agent": "Google-Cloud-Scheduler"})
    assert (after.state, after.status, after.last_attempt_time) == (1, before.status, before.last_attempt_time)
    assert after.schedule_time.seconds == NOW + 4 * 3600
    assert await any_wire.get() == after


async def test_a_mask_changes_what_it_names(any_wire: JobWire) -> None:
    """Deep paths too; what is named and absent is cleared."""
    await any_wire.create(
        description="d",
        time_zone="Asia/Kolkata",
        retry_config={"retry_count": 3, "max_doublings": 9},
        http_target={"uri": URL, "headers": {"A": "1", "B": "2"}},
    )
    job = await any_wire.update(
        "retry_config.retry_count",
        "description",
        "http_target.headers",
        retry_config={"retry_count": 1, "max_doublings": 2},
        http_target={"uri": "http://ignored/", "headers": {"B": "3"}},
        schedule="0 0 1 1 *",
    )

    assert (job.retry_config.retry_count, job.retry_config.max_doublings, job.description) == (1, 9, "")
    assert dict(job.http_target.headers) == {"B": "3", "User-Agent": "Google-Cloud-Scheduler"}
    assert (job.http_target.uri, job.schedule, job.time_zone) == (URL, EVERY_MINUTE, "Asia/Kolkata")


async def test_a08_a_mask_of_the_schedule_keeps_the_zone(wire: JobWire) -> None:
    """And a full update without a zone means UTC."""
    await wire.create(time_zone="Asia/Kolkata")
    assert (await wire.update("schedule", schedule="0 12 * * *")).time_zone == "Asia/Kolkata"
    assert (await wire.update(schedule="0 12 * * *", http_target={"uri": URL})).time_zone == "UTC"


async def test_every_leaf_that_gcloud_names_is_a_path(wire: JobWire) -> None:
    """For each kind of target."""
    settings = [
        *("description", "schedule", "time_zone", "attempt_deadline", "retry_config.retry_count"),
        *("retry_config.max_retry_duration", "retry_config.min_backoff_duration"),
        *("retry_config.max_backoff_duration", "retry_config.max_doublings"),
    ]
    http = [
        *("http_target.uri", "http_target.http_method", "http_target.headers", "http_target.body"),
        *("http_target.oidc_token.service_account_email", "http_target.oidc_token.audience"),
        *("http_target.oauth_token.service_account_email", "http_target.oauth_token.scope"),
    ]
    app_engine = [
        *("app_engine_http_target.body", "app_engine_http_target.relative_uri", "app_engine_http_target.headers"),
        *("app_engine_http_target.app_engine_routing.service", "app_engine_http_target.app_engine_routing.version"),
    ]
    pubsub = ["pubsub_target.data", "pubsub_target.topic_name", "pubsub_target.attributes"]
    await wire.create()
    await wire.create(f"{LOCATION}/jobs/a", app_engine_http_target={})
    await wire.create(f"{LOCATION}/jobs/p", pubsub_target={"topic_name": "projects/p/topics/t", "data": b"x"})

    job = await wire.update(*settings, *http, schedule="0 12 * * *", http_target={"uri": "http://h/new"})
    assert (job.http_target.uri, job.attempt_deadline.seconds) == ("http://h/new", 180)
    job = await wire.update(
        *app_engine,
        name=f"{LOCATION}/jobs/a",
        app_engine_http_target={"body": b"x", "app_engine_routing": {"service": "s"}},
    )
    assert job.app_engine_http_target.app_engine_routing.host == "s.p.appspot.com"
    job = await wire.update(
        *pubsub,
        name=f"{LOCATION}/jobs/p",
        pubsub_target={"topic_name": "projects/p/topics/u", "attributes": {"a": "1"}},
    )
    assert (job.pubsub_target.topic_name, job.pubsub_target.data) == ("projects/p/topics/u", b"")


@pytest.mark.parametrize("token", ["oidc_token", "oauth_token"])
async def test_clearing_every_leaf_of_the_token_drops_it(wire: JobWire, token: str) -> None:
    """As `--clear-auth-token` does."""
    await wire.create(http_target={"uri": URL, token: {"service_account_email": "who@p.iam"}})
    job = await wire.update(
        "http_target.oidc_token.service_account_email",
        "http_target.oidc_token.audience",
        "http_target.oauth_token.service_account_email",
        "http_target.oauth_token.scope",
        http_target={},
    )

    assert not job.http_target.HasField("oidc_token")
    assert not job.http_target.HasField("oauth_token")
    assert job.http_target.uri == URL


async def test_the_kind_of_the_target_can_change(wire: JobWire) -> None:
    """With its message as the path, or in a full update."""
    await wire.create()
    job = await wire.update("pubsub_target", pubsub_target={"topic_name": "projects/p/topics/t", "data": b"x"})
    assert job.WhichOneof("target") == "pubsub_target"
    job = await wire.update(schedule=EVERY_MINUTE, app_engine_http_target={"relative_uri": "/x"})
    assert job.WhichOneof("target") == "app_engine_http_target"


async def test_a_bad_update_changes_nothing(wire: JobWire) -> None:
    """The job is never left as UPDATE_FAILED."""
    before = await wire.create()
    for fields in (
        {"schedule": "soon", "http_target": {"uri": URL}},
        {"schedule": EVERY_MINUTE},
        {"schedule": EVERY_MINUTE, "http_target": {"uri": "ftp://h/"}},
    ):
        assert (await wire.refused("UpdateJob", job={"name": JOB, **fields})).code == "INVALID_ARGUMENT"
    assert await wire.get() == before


@pytest.mark.parametrize(
    "path", ["timeZone", "retryConfig.retryCount", "nothing", "schedule.x", "http_target.headers.A"]
)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_mask_over_grpc_is_in_snake_case(version: str, path: str) -> None:
    """Camel case is refused there, in Google's words, and so are fields that do not exist."""
    wire = JobWire("grpc", version)
    await wire.create()
    refusal = await wire.refused("UpdateJob", job={"name": JOB}, update_mask={"paths": [path]})

    assert refusal == Refused("INVALID_ARGUMENT", f"Invalid mask for Job: {path}")


@pytest.mark.parametrize("mask", ["timeZone,retryConfig.retryCount", "time_zone,retry_config.retry_count"])
@pytest.mark.parametrize("parameter", ["updateMask", "update_mask"])
async def test_a_mask_over_rest_is_in_either_case(rest: RawRest, parameter: str, mask: str) -> None:
    """Clients send both."""
    await rest._wire.create()
    body = {"timeZone": "Asia/Kolkata", "retryConfig": {"retryCount": 2}, "description": "ignored"}
    job = await rest.ok("PATCH", f"{PATH}?{parameter}={mask}", body)

    assert (job["timeZone"], job["retryConfig"]["retryCount"]) == ("Asia/Kolkata", 2)
    assert "description" not in job


async def test_output_only_fields_in_a_mask_are_left_alone(wire: JobWire) -> None:
    """Whoever names them."""
    await wire.create()
    await wire.call("PauseJob", name=JOB)
    job = await wire.update("state", "status", "schedule_time", "description", state=1, description="d")

    assert (job.state, job.status.code, job.description) == (2, -1, "d")


async def test_k06_l08_an_update_keeps_the_state_and_moves_the_time_of_change(any_wire: JobWire) -> None:
    """A paused job can be edited, stays paused and does not fire; the answer says so."""
    await any_wire.create("projects/p/locations/us-central1/jobs/j", schedule="0 12 * * *")
    await any_wire.call("PauseJob", name=JOB)
    any_wire.clock.advance(SECOND)
    job = await any_wire.update("schedule", schedule=EVERY_MINUTE)
    await any_wire.jobs.advance(2 * MINUTE)

    assert (job.state, job.user_update_time.seconds) == (2, NOW + 1)
    assert (await any_wire.get()).state == 2
    assert any_wire.jobs.sent() == []


async def test_what_terraform_sends(rest: RawRest) -> None:
    """Create, read, pause, a whole job without a mask, read, resume: the state is the provider's own."""
    job = {
        "name": JOB,
        "schedule": "*/8 * * * *",
        "timeZone": "America/New_York",
        "description": "test http job",
        "attemptDeadline": "320s",
        "retryConfig": {"retryCount": 1},
        "httpTarget": {"httpMethod": "POST", "uri": URL, "body": "eyJmb28iOiJiYXIifQ==", "headers": {"A": "1"}},
    }
    await rest.ok("POST", f"/v1/{LOCATION}/jobs?alt=json", job)
    read = await rest.ok("GET", f"{PATH}?alt=json")
    assert {**read, **{key: job[key] for key in job if key not in {"retryConfig", "httpTarget"}}} == read
    assert (await rest.ok("POST", f"{PATH}:pause?alt=json", {}))["state"] == "PAUSED"
    changed = await rest.ok("PATCH", f"{PATH}?alt=json", {**job, "schedule": "*/9 * * * *"})
    assert (changed["state"], changed["schedule"]) == ("PAUSED", "*/9 * * * *")
    assert await rest.ok("GET", PATH) == changed
    resumed = await rest.ok("POST", f"{PATH}:resume?alt=json", {})
    assert {**resumed, "state": "PAUSED"} == changed
    assert await rest.ok("DELETE", f"{PATH}?alt=json") == {}
    status, answer = await rest.call("GET", PATH)
    assert (status, json.loads(answer)["error"]) == (
        404,
        {"code": 404, "message": "Job not found.", "status": "NOT_FOUND"},
    )

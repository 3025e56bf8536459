"""Cloud Scheduler's calls but CreateJob and UpdateJob, over both transports, in both versions (wire.md section 7)."""

from __future__ import annotations

from typing import Any

import pytest

from taskbell.core.instant import MINUTE, SECOND
from taskbell.core.outcome import Failure, Outcome
from taskbell.testing.clock import START
from tests.conformance.scheduler_wire import JOB, LOCATION, URL, JobWire, RawRest, job_fields
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


# GetJob, ListJobs, DeleteJob.


async def test_l05_what_is_missing_is_not_found(any_wire: JobWire) -> None:
    """Whatever is asked of it."""
    for rpc in ("GetJob", "DeleteJob", "PauseJob", "ResumeJob", "RunJob"):
        assert await any_wire.refused(rpc, name=JOB) == NOT_FOUND
    assert await any_wire.refused("UpdateJob", job=job_fields()) == NOT_FOUND


async def test_pages_of_jobs(any_wire: JobWire) -> None:
    """By name, of this location alone, each job once."""
    names = [f"{LOCATION}/jobs/j{number}" for number in range(7)]
    for name in reversed(names):
        await any_wire.create(name)
    other = "projects/p/locations/us-central12"
    await any_wire.create(f"{other}/jobs/j", parent=other)

    seen, token, sizes = [], "", []
    while True:
        page = await any_wire.call("ListJobs", parent=LOCATION, page_size=3, page_token=token)
        seen += [job.name for job in page.jobs]
        sizes.append(len(page.jobs))
        token = page.next_page_token
        if not token:
            break
    assert seen == names
    assert sizes == [3, 3, 1]
    assert len((await any_wire.call("ListJobs", parent=LOCATION)).jobs) == 7
    assert (await any_wire.call("ListJobs", parent=other)).jobs[0] == await any_wire.get(f"{other}/jobs/j")
    nowhere = await any_wire.call("ListJobs", parent="projects/p/locations/nowhere")
    assert (list(nowhere.jobs), nowhere.next_page_token) == ([], "")


async def test_a_page_token_belongs_to_its_parent_and_ages(wire: JobWire) -> None:
    """And a page size is not negative; a large one is clamped."""
    for number in range(3):
        await wire.create(f"{LOCATION}/jobs/j{number}")
    token = (await wire.call("ListJobs", parent=LOCATION, page_size=1)).next_page_token
    elsewhere = "projects/p/locations/europe-west1"

    assert (await wire.refused("ListJobs", parent=elsewhere, page_token=token)).code == INVALID
    assert (await wire.refused("ListJobs", parent=LOCATION, page_token=token + "x")).code == INVALID
    assert (await wire.refused("ListJobs", parent=LOCATION, page_size=-1)).code == INVALID
    assert len((await wire.call("ListJobs", parent=LOCATION, page_size=100_000)).jobs) == 3
    wire.clock.advance(2 * 3600 * SECOND + 1)
    assert (await wire.refused("ListJobs", parent=LOCATION, page_token=token)).code == INVALID


async def test_a_page_has_500_jobs_at_the_most(grpc: JobWire) -> None:
    """As documented."""
    for number in range(501):
        await grpc.create(f"{LOCATION}/jobs/j{number}")

    page = await grpc.call("ListJobs", parent=LOCATION, page_size=10_000)
    assert len(page.jobs) == 500
    assert page.next_page_token


# PauseJob, ResumeJob, RunJob.


async def test_pause_and_resume(any_wire: JobWire) -> None:
    """Each needs the other state; the answer is the job."""
    await any_wire.create()
    assert await any_wire.refused("ResumeJob", name=JOB) == Refused(
        "FAILED_PRECONDITION", "The job is ENABLED: it must be PAUSED."
    )
    any_wire.clock.advance(SECOND)
    paused = await any_wire.call("PauseJob", name=JOB)
    assert (paused.state, paused.user_update_time.seconds) == (2, NOW + 1)
    assert await any_wire.refused("PauseJob", name=JOB) == Refused(
        "FAILED_PRECONDITION", "The job is PAUSED: it must be ENABLED."
    )
    assert await any_wire.get() == paused
    resumed = await any_wire.call("ResumeJob", name=JOB)
    assert (resumed.state, resumed.schedule_time.seconds) == (1, NOW + 60)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome(status=200), 0),
        (Outcome(status=404), 5),
        (Outcome(status=500), 13),
        (Outcome(status=503), 14),
        (Outcome(status=418), 2),
        (Outcome(failure=Failure.TIMEOUT), 4),
        (Outcome(failure=Failure.UNREACHABLE), 14),
    ],
)
async def test_what_a_job_shows_after_a_run(any_wire: JobWire, outcome: Outcome, code: int) -> None:
    """The code alone, and when; the next instant. RunJob clears the code, and its run sets it again."""
    any_wire.jobs.sender.script[URL] = [outcome]
    await any_wire.create()
    await any_wire.jobs.advance(MINUTE)
    job = await any_wire.get()

    assert (job.HasField("status"), job.status.code, job.status.message) == (True, code, "")
    assert job.last_attempt_time.seconds == NOW + 60
    assert job.schedule_time.seconds == NOW + 120
    run = await any_wire.call("RunJob", name=JOB)
    assert (run.status.code, run.state, run.schedule_time.seconds) == (-1, 1, NOW + 120)
    await any_wire.jobs.advance(SECOND)
    assert (await any_wire.get()).status.code == code
    assert len(any_wire.jobs.sent()) == 2


async def test_success_is_an_empty_status_in_json(rest: RawRest) -> None:
    """As Google's answers have it."""
    wire = rest._wire
    await wire.create()
    await wire.jobs.advance(MINUTE)

    assert (await rest.ok("GET", f"/v1/{JOB}"))["status"] == {}


async def test_a_paused_job_runs_by_force(wire: JobWire) -> None:
    """And stays paused."""
    await wire.create()
    await wire.call("PauseJob", name=JOB)
    assert (await wire.call("RunJob", name=JOB)).state == 2
    await wire.jobs.advance(SECOND)

    assert wire.jobs.sent() == [0]


# v1beta1.


@pytest.mark.parametrize("transport", ["grpc", "rest"])
async def test_the_legacy_flag_of_v1beta1_is_not_built(transport: str) -> None:
    """It says what to do instead."""
    wire = JobWire(transport, "v1beta1")
    refusals = [
        await wire.create_refused(legacy_app_engine_cron=True),
        await wire.refused("ListJobs", parent=LOCATION, legacy_app_engine_cron=True),
        await wire.refused("RunJob", name=JOB, legacy_app_engine_cron=True),
        await wire.refused("DeleteJob", name=JOB, legacy_app_engine_cron=True),
        await wire.refused("UpdateJob", job={"name": JOB, "legacy_app_engine_cron": True}),
    ]

    assert {refusal.code for refusal in refusals} == {"UNIMPLEMENTED"}
    assert all("App Engine target" in refusal.message for refusal in refusals)


@pytest.mark.parametrize("transport", ["grpc", "rest"])
async def test_the_filter_of_v1beta1_is_not_built(transport: str) -> None:
    """Rather than to list what was not asked for."""
    refusal = await JobWire(transport, "v1beta1").refused(
        "ListJobs", parent=LOCATION, filter='target_config="HttpConfig"'
    )

    assert refusal == Refused("UNIMPLEMENTED", "The filter of ListJobs is not built: leave it empty.")


@pytest.mark.parametrize(
    "fields",
    [
        {"http_target": {"uri": URL, "headers": {"A": "1"}, "oidc_token": {"service_account_email": "a@b"}}},
        {"app_engine_http_target": {"relative_uri": "/x", "app_engine_routing": {"service": "s"}}},
        {"pubsub_target": {"topic_name": "projects/p/topics/t", "data": b"x", "attributes": {"a": "1"}}},
    ],
)  # fmt: skip
async def test_both_versions_and_both_transports_say_the_same(fields: dict[str, Any]) -> None:
    """Field by field."""
    answers = []
    for transport, version in [("grpc", "v1"), ("rest", "v1"), ("grpc", "v1beta1"), ("rest", "v1beta1")]:
        wire = JobWire(transport, version)
        await wire.create(**fields, description="d", retry_config={"retry_count": 2})
        await wire.jobs.advance(MINUTE)
        answers.append((await wire.get()).SerializeToString(deterministic=True))

    assert answers[0]
    assert answers == answers[:1] * 4

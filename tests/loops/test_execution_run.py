"""One execution through its pipeline: what each attempt carries, how retries go, what is told about it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from taskbell.core.instant import HOUR, MINUTE, SECOND
from taskbell.core.job import JobTarget, Progress
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.target import AppEngineTarget, HttpTarget, OidcToken, PubsubTarget, Routing
from taskbell.loops.attempt import Attempts
from taskbell.testing.clock import START, ManualClock
from tests.loops.job_stage import JOB, PARENT, URL, JobStage

KEY = "Idempotency-Key"
TIME = "X-CloudScheduler-ScheduleTime"


@pytest.fixture
def stage() -> JobStage:
    """A node."""
    return JobStage()


# Headers.


async def test_every_attempt_of_an_execution_carries_the_same_key_and_time(stage: JobStage) -> None:
    """And the next execution others."""
    stage.sender.answer(URL, 500, 500, 200)
    await stage.create("*/5 * * * *", retry={"retry_count": 2})
    await stage.advance(11 * MINUTE)

    assert len(stage.sent()) == 4
    first, *more = stage.header(KEY)
    assert more[:2] == [first] * 2
    assert more[2] != first
    assert stage.header(TIME) == ["2027-01-15T08:05:00Z"] * 3 + ["2027-01-15T08:10:00Z"]
    assert set(stage.header("X-CloudScheduler")) == {"true"}
    assert set(stage.header("X-CloudScheduler-JobName")) == {"j"}
    assert set(stage.header("User-Agent")) == {"Google-Cloud-Scheduler"}


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("", "2027-01-15T08:05:00Z"),
        ("utc", "2027-01-15T08:05:00Z"),
        ("America/Los_Angeles", "2027-01-15T00:05:00-08:00"),
        ("Asia/Kolkata", "2027-01-15T13:35:00+05:30"),
        ("Europe/London", "2027-01-15T08:05:00Z"),
    ],
)
async def test_h23_the_schedule_time_has_the_zones_offset_and_whole_seconds(
    stage: JobStage, zone: str, text: str
) -> None:
    """In one form for ever, which strict parsers read; also when it starts late."""
    await stage.create("5,35 * * * *", time_zone=zone)
    await stage.restart(5 * MINUTE + 7 * SECOND + 123)

    (value,) = stage.header(TIME)
    assert value == text
    moment = datetime.strptime(value, "%Y-%m-%dT%H:%M:%S%z")
    assert moment.timestamp() == (START + 5 * MINUTE) / SECOND


async def test_the_schedule_time_follows_the_clock_change(stage: JobStage) -> None:
    """The offset is that of the instant itself."""
    late = ManualClock(1_806_195_540 * SECOND)  # 2027-03-28T00:59:00Z, a minute before clocks go forward.
    stage = JobStage(clock=late)
    await stage.create("0 * * * *", time_zone="Europe/Paris")
    await stage.advance(62 * MINUTE)

    assert stage.header(TIME) == ["2027-03-28T03:00:00+02:00", "2027-03-28T04:00:00+02:00"]


@pytest.mark.parametrize("schedule", ["every 5 minutes", "every day 08:05", "every 5 minutes from 08:00 to 09:00"])
async def test_groc_has_a_key_and_no_time(stage: JobStage, schedule: str) -> None:
    """One key for each execution."""
    await stage.create(schedule)
    await stage.advance(11 * MINUTE)
    await stage.jobs.run(JOB)
    await stage.pump()

    assert set(stage.header(TIME)) == {None}
    assert len(set(stage.header(KEY))) == len(stage.sent()) >= 2


@pytest.mark.parametrize(
    ("setting", "text"), [("next", "2027-01-15T08:05:00Z"), ("now", "2027-01-15T08:00:07Z"), ("omit", None)]
)
async def test_the_time_of_a_forced_run_is_a_setting(setting: str, text: str | None) -> None:
    """As documented the next scheduled time by default; over its retries it is the same."""
    stage = JobStage(forced_header=setting)
    stage.sender.answer(URL, 500, 500, 200)
    await stage.create("5 * * * *", retry={"retry_count": 2, "min_backoff": 200 * SECOND})
    await stage.advance(7 * SECOND + 345)
    await stage.jobs.run(JOB)
    await stage.advance(12 * MINUTE)

    forced = [request for request in stage.sender.requests if dict(request.headers)[KEY] == stage.header(KEY)[0]]
    assert [dict(request.headers).get(TIME) for request in forced] == [text] * 3


async def test_keys_of_equal_jobs_in_other_places_differ(stage: JobStage) -> None:
    """Though all of Google's headers are the same."""
    await stage.create()
    await stage.create(name=f"{PARENT}/jobs/k")
    await stage.advance(MINUTE)
    await stage.jobs.delete(JOB)
    await stage.create()
    await stage.advance(MINUTE)

    assert len(set(stage.header(KEY))) == len(stage.sent()) == 4


# Targets.


TARGETS: list[tuple[JobTarget, dict[str, Any]]] = [
    (
        HttpTarget("http://h/a", "PUT", (), b"body"),
        {"method": "PUT", "url": "http://h/a", "body": b"body", "deadline": 3 * MINUTE, "routing": None},
    ),
    (HttpTarget("http://h/a", "GET"), {"method": "GET", "body": None}),
    (HttpTarget("http://h/a"), {"method": "POST", "body": b""}),
    (
        AppEngineTarget("/work", routing=Routing("api", "v2")),
        {
            "method": "POST",
            "url": "/work",
            "deadline": None,
            "routing": Routing("api", "v2", "", "v2.api.p.appspot.com"),
        },
    ),
    (
        PubsubTarget("projects/p/topics/t", b"data", (("a", "1"),)),
        {"method": "POST", "url": "projects/p/topics/t", "body": b"data", "headers": (("a", "1"),), "deadline": None},
    ),
]


@pytest.mark.parametrize(("target", "fields"), TARGETS)
async def test_what_goes_to_each_kind_of_target(stage: JobStage, target: JobTarget, fields: dict[str, Any]) -> None:
    """The senders do the rest."""
    await stage.create(target=target)
    await stage.advance(MINUTE)

    (request,) = stage.sender.requests
    assert {name: getattr(request, name) for name in fields} == fields


async def test_the_deadline_is_the_jobs(stage: JobStage) -> None:
    """Reaching it is a failed attempt like any other."""
    stage.sender.answer(URL, Outcome(failure=Failure.TIMEOUT))
    await stage.create(attempt_deadline=20 * SECOND, retry={"retry_count": 1})
    await stage.advance(70 * SECOND)

    assert [request.deadline for request in stage.sender.requests] == [20 * SECOND] * 2
    (row,) = await stage.rows()
    assert row.status is not None
    assert (row.progress, row.response, row.status.code) == (Progress.FAILED, None, 4)


async def test_a_bearer_is_minted_for_each_attempt(stage: JobStage) -> None:
    """For the URL as given."""
    stage.sender.answer(URL, 500, 200)
    target = HttpTarget(URL, token=OidcToken("who@p.iam"))
    await stage.create(target=target, retry={"retry_count": 1})
    await stage.advance(70 * SECOND)

    assert stage.header("Authorization") == [f"Bearer who@p.iam for {URL}"] * 2


async def test_a_token_that_cannot_be_had_is_a_failed_attempt(stage: JobStage) -> None:
    """Nothing is sent."""
    stage.minter.refusal = "no credentials"
    await stage.create(target=HttpTarget(URL, token=OidcToken("who@p.iam")))
    await stage.advance(MINUTE)

    assert stage.sent() == []
    (row,) = await stage.rows()
    assert (row.progress, row.reason) == (Progress.FAILED, "The last attempt failed: unsendable, no credentials.")


async def test_a_target_without_a_sender_is_a_failed_attempt(stage: JobStage) -> None:
    """It says what is missing, and the job goes on."""
    using = Attempts(stage.engine, {}, stage.minter, stage.clock, stage.events)
    stage.ticker._using = using
    await stage.create()
    await stage.advance(2 * MINUTE)

    assert [row.progress for row in await stage.rows()] == [Progress.FAILED] * 2
    assert "no sender is configured for HttpTarget" in (await stage.rows())[0].reason


async def test_a_fault_of_ours_is_a_failed_attempt(stage: JobStage) -> None:
    """And the job goes on."""
    stage.sender.breaks = True
    await stage.create(retry={"retry_count": 1})
    await stage.advance(70 * SECOND)
    stage.sender.breaks = False
    await stage.advance(MINUTE)

    assert await stage.told() == [(60, "fired", "failed"), (120, "fired", "succeeded")]


# Retries.


async def test_a_forced_run_is_tried_again_also_while_its_job_is_paused_and_edited(stage: JobStage) -> None:
    """It belongs to the call, not to the schedule; after an edit it goes where the job says."""
    stage.sender.answer(URL, 500)
    await stage.create("0 12 * * *", retry={"retry_count": 1, "min_backoff": 30 * SECOND})
    await stage.jobs.pause(JOB)
    await stage.jobs.run(JOB)
    await stage.advance(10 * SECOND)
    await stage.jobs.update(JOB, lambda job: replace(job, target=HttpTarget("http://h/new")))
    await stage.advance(MINUTE)

    assert stage.sent() == [0]
    assert stage.sent("http://h/new") == [30]
    assert await stage.told() == [(0, "forced", "succeeded")]


async def test_app_engines_503_is_tried_again_without_being_counted(stage: JobStage) -> None:
    """Without any retry setting."""
    url = "/work"
    stage.sender.answer(url, 503, 503, 200)
    await stage.create("1 * * * *", target=AppEngineTarget(url))
    await stage.advance(2 * MINUTE)

    assert stage.sent(url) == [60, 65, 75]
    (row,) = await stage.rows()
    assert (row.progress, row.attempts, row.failures) == (Progress.SUCCEEDED, 3, 0)


async def test_a_long_wait_ends_on_time(stage: JobStage) -> None:
    """To the microsecond, though it looks at the clock in between."""
    stage.sender.answer(URL, 500, 200)
    await stage.create("0 9 * * *", retry={"retry_count": 1, "min_backoff": HOUR})
    await stage.advance(3 * HOUR)

    assert stage.sent() == [3600, 7200]


# What is told.


async def test_a_job_shows_the_retry_that_is_waited_for(stage: JobStage) -> None:
    """Then the next instant again, with the last attempt and how it went."""
    stage.sender.answer(URL, 500, 200)
    await stage.create("*/5 * * * *", retry={"retry_count": 1, "min_backoff": 30 * SECOND})
    created = await stage.jobs.get(JOB)
    await stage.advance(310 * SECOND)
    waiting = await stage.jobs.get(JOB)
    await stage.advance(30 * SECOND)
    done = await stage.jobs.get(JOB)

    assert (created.next_time, created.last_attempt_time, created.status) == (START + 5 * MINUTE, None, None)
    assert (waiting.next_time, waiting.last_attempt_time) == (START + 330 * SECOND, START + 300 * SECOND)
    assert waiting.status is not None
    assert waiting.status.code == 13
    assert (done.next_time, done.last_attempt_time) == (START + 10 * MINUTE, START + 330 * SECOND)
    assert done.status is not None
    assert done.status.code == 0


async def test_a_job_shows_the_attempt_that_is_out(stage: JobStage) -> None:
    """Its begin, not yet its status."""
    stage.sender.hold(URL)
    await stage.create()
    await stage.advance(70 * SECOND)

    job = await stage.jobs.get(JOB)
    assert (job.last_attempt_time, job.status) == (START + MINUTE, None)
    assert [each.last_attempt_time for each in await stage.jobs.page(PARENT, "", 10)] == [START + MINUTE]


async def test_a_retry_that_was_dropped_is_not_shown(stage: JobStage) -> None:
    """The next instant is what comes."""
    stage.sender.answer(URL, 500)
    await stage.create("*/5 * * * *", retry={"retry_count": 1, "min_backoff": 30 * SECOND})
    await stage.advance(310 * SECOND)
    job = await stage.jobs.update(JOB, lambda job: replace(job, description="new"))

    assert job.next_time == START + 10 * MINUTE


async def test_each_attempt_is_an_event(stage: JobStage) -> None:
    """With what came of it, how long it took, and its execution as recorded."""
    stage.sender.answer(URL, 500, 200)
    stage.sender.durations[URL] = 3 * SECOND
    await stage.create(retry={"retry_count": 1})
    await stage.advance(80 * SECOND)

    seen = [(each.outcome.status, each.duration, each.execution.progress.value) for each in stage.attempted]
    assert seen == [(500, 3 * SECOND, "open"), (200, 3 * SECOND, "succeeded")]
    assert all(re.fullmatch(r"[0-9a-f]{32}", str(key)) for key in stage.header(KEY))

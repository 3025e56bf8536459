"""The calls under /taskbell/v1/: histories, why an instant went as it did, and previews."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from taskbell.api.own import OwnCalls, sentence
from taskbell.core.instant import HOUR, MINUTE, SECOND, rfc3339
from taskbell.core.job import STARTED, Disposition, Execution, Progress
from taskbell.core.limits import GOOGLE
from taskbell.service.access import AccessService
from taskbell.service.locations import LocationService
from taskbell.service.operations import OperationService
from taskbell.service.services import Services
from taskbell.testing.clock import START
from tests.loops.job_stage import JOB, URL, JobStage
from tests.loops.stage import Stage

ROOT = "/taskbell/v1"
HISTORY = f"{ROOT}/{JOB}/executions"


class Own:
    """The calls over a ticker on a stage."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.stage = stage = JobStage()
        tasks = Stage(clock=stage.clock)
        self._calls = OwnCalls(
            Services(
                queues=tasks.queues,
                tasks=tasks.tasks,
                jobs=stage.jobs,
                access=AccessService(stage.engine),
                locations=LocationService(stage.engine, ("us-central1",)),
                operations=OperationService(),
                clock=stage.clock,
                limits=GOOGLE,
            )
        )

    async def call(self, path: str, verb: str = "GET", **query: Any) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        scope = {"type": "http", "method": verb, "path": path, "query_string": urlencode(query).encode(), "headers": []}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._calls(scope, receive, send)
        headers = dict(sent[0]["headers"])
        assert headers[b"content-type"] == b"application/json; charset=UTF-8"
        return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))

    async def ok(self, path: str, **query: Any) -> Any:
        """The JSON of an answer that must be 200."""
        status, answer = await self.call(path, **query)
        assert status == 200, answer
        return answer

    async def refused(self, path: str, **query: Any) -> str:
        """The text of a refusal that must be 400."""
        status, answer = await self.call(path, **query)
        assert (status, answer["error"]["code"], answer["error"]["status"]) == (400, 400, "INVALID_ARGUMENT")
        message: str = answer["error"]["message"]
        return message


@pytest.fixture
def own() -> Own:
    """A server."""
    return Own()


def at(seconds: int) -> str:
    """An instant as text."""
    return rfc3339(START + seconds * SECOND)


async def eventful(own: Own) -> None:
    """A job with one row of almost each kind."""
    stage = own.stage
    stage.sender.answer(URL, 200, 500, 500, 500, 200)
    await stage.create(retry={"retry_count": 1, "min_backoff": 70 * SECOND})
    await stage.advance(4 * MINUTE)
    await stage.jobs.pause(JOB)
    await stage.advance(MINUTE)
    await stage.jobs.resume(JOB)
    await stage.jobs.run(JOB)
    await stage.pump()
    await stage.restart(2 * MINUTE + 45 * SECOND)
    await stage.jobs.update(JOB, lambda job: replace(job, schedule="0 9 * * *"))


# Histories.


async def test_a_history_tells_the_newest_first(own: Own) -> None:
    """With what became of each instant, and nothing that does not apply."""
    await eventful(own)
    executions = (await own.ok(HISTORY))["executions"]

    assert [(each["instant"], each["outcome"], each["progress"]) for each in executions] == [
        (at(480), "superseded", "none"),
        (at(420), "late", "succeeded"),
        (at(360), "missed", "none"),
        (at(300), "forced", "succeeded"),
        (at(300), "skipped_paused", "none"),
        (at(240), "fired", "cancelled"),
        (at(180), "skipped_overlap", "none"),
        (at(120), "fired", "failed"),
        (at(60), "fired", "succeeded"),
    ]
    assert executions[-2] == {
        "instant": at(120),
        "outcome": "fired",
        "progress": "failed",
        "startTime": at(120),
        "lastAttemptTime": at(190),
        "endTime": at(190),
        "attempts": 2,
        "response": 500,
        "status": {"code": 13, "message": "INTERNAL(13): HTTP status code 500"},
        "reason": "The last attempt was answered 500. It failed.",
    }
    assert executions[2] == {
        "instant": at(360),
        "outcome": "missed",
        "progress": "none",
        "attempts": 0,
        "reason": "The server was down, and at most the latest instant is made up for.",
    }


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ({"outcome": "missed"}, [360]),
        ({"outcome": "fired,late"}, [420, 240, 120, 60]),
        ({"outcome": "forced"}, [300]),
        ({"since": at(300)}, [480, 420, 360, 300, 300]),
        ({"until": at(120)}, [60]),
        ({"since": at(120), "until": at(240)}, [180, 120]),
        ({"since": "2027-01-15T09:02:00+01:00", "until": at(121)}, [120]),
        ({"outcome": "fired", "since": at(100), "until": at(200)}, [120]),
        ({"outcome": ""}, [480, 420, 360, 300, 300, 240, 180, 120, 60]),
        ({"since": at(10_000)}, []),
    ],
)
async def test_a_history_is_filtered(own: Own, query: dict[str, str], seconds: list[int]) -> None:
    """By outcome and by time, from inclusive, to exclusive."""
    await eventful(own)

    assert [each["instant"] for each in (await own.ok(HISTORY, **query))["executions"]] == [
        at(each) for each in seconds
    ]


@pytest.mark.parametrize("size", [1, 2, 4, 9, 10])
@pytest.mark.parametrize("query", [{}, {"outcome": "fired,forced,skipped_paused"}, {"since": at(100)}])
async def test_a_history_comes_in_pages(own: Own, size: int, query: dict[str, str]) -> None:
    """Each row once, in order; two rows of one instant may be parted."""
    await eventful(own)
    whole = (await own.ok(HISTORY, **query))["executions"]
    seen, token = [], ""
    while True:
        page = await own.ok(HISTORY, pageSize=size, pageToken=token, **query)
        assert len(page["executions"]) <= size
        seen += page["executions"]
        if "nextPageToken" not in page:
            break
        assert len(page["executions"]) == size
        token = page["nextPageToken"]

    assert seen == whole
    assert len(seen) >= 4


async def test_an_execution_that_is_open_says_when_it_is_tried_again(own: Own) -> None:
    """And has not ended."""
    own.stage.sender.answer(URL, 500)
    await own.stage.create(retry={"retry_count": 1, "min_backoff": 30 * SECOND})
    await own.stage.advance(MINUTE)

    (execution,) = (await own.ok(HISTORY))["executions"]
    assert (execution["progress"], execution["nextAttemptTime"]) == ("open", at(90))
    assert execution["reason"] == "It fired on time. It has not ended."
    assert "endTime" not in execution


async def test_a_job_called_executions_has_a_history(own: Own) -> None:
    """Its name is not the end of the path."""
    name = JOB[:-1] + "executions"
    await own.stage.create(name=name)
    await own.stage.advance(MINUTE)

    assert len((await own.ok(f"{ROOT}/{name}/executions"))["executions"]) == 1
    assert (await own.ok(f"{ROOT}/{name}/executions/{at(60)}:why"))["why"] == "It fired on time. It succeeded."


# Why.


async def test_why_an_instant_went_as_it_did(own: Own) -> None:
    """One sentence or two for each row, and the row."""
    await eventful(own)
    rows = (await own.ok(HISTORY))["executions"]
    said = {}
    for row in rows:
        forced = {"forced": "true"} if row["outcome"] == "forced" else {}
        answer = await own.ok(f"{HISTORY}/{row['instant']}:why", **forced)
        assert answer["execution"] == row
        assert answer["why"] == row["reason"]
        said[row["instant"], row["outcome"]] = answer["why"]

    assert list(said.values()) == [
        "An edit replaced the schedule before the instant came.",
        "It started 45 s after its time. It succeeded.",
        "The server was down, and at most the latest instant is made up for.",
        "It was run by force. It succeeded.",
        "The job was PAUSED.",
        "It fired on time. It was cancelled, since its job was changed or deleted.",
        "The execution before it had not ended.",
        "The last attempt was answered 500. It failed.",
        "It fired on time. It succeeded.",
    ]


@pytest.mark.parametrize(
    ("disposition", "progress"),
    [(each, Progress.NONE) for each in Disposition if each not in STARTED]
    + [(each, progress) for each in STARTED for progress in Progress if progress is not Progress.NONE],
)
def test_every_outcome_has_its_sentence(disposition: Disposition, progress: Progress) -> None:
    """Executions that started have one of their own; what did not start keeps its reason."""
    reason = "" if disposition in STARTED else "Because."
    text = sentence(Execution(1, JOB, START, disposition, progress, reason=reason))

    assert text.count(".") == (2 if disposition in STARTED else 1)
    assert text.endswith(".")


async def test_an_instant_may_be_written_in_any_zone(own: Own) -> None:
    """It is the same instant, its plus encoded or not."""
    await own.stage.create()
    await own.stage.advance(MINUTE)

    for text in ("2027-01-15T09:01:00+01:00", "2027-01-15T08:01:00.000Z", "2027-01-15T09:01:00 01:00"):
        assert (await own.ok(f"{HISTORY}/{text}:why"))["execution"]["instant"] == at(60)


# What is missing, and what is wrong.


async def test_what_is_missing_is_not_found(own: Own) -> None:
    """A job, an instant, a path."""
    for path in (HISTORY, f"{HISTORY}/{at(60)}:why"):
        status, answer = await own.call(path)
        assert (status, answer["error"]["message"]) == (404, "Job not found.")
    await own.stage.create()
    await own.stage.advance(MINUTE)
    nowhere = [
        f"{HISTORY}/{at(61)}:why",
        f"{HISTORY}/{at(60)}",
        f"{HISTORY}/",
        f"{ROOT}/{JOB}",
        f"{ROOT}/x",
        f"{ROOT}/",
    ]
    assert [(await own.call(path))[0] for path in nowhere] == [404] * 6
    assert (await own.call(f"{HISTORY}/{at(60)}:why", forced="true"))[0] == 404


@pytest.mark.parametrize(
    ("path", "query", "names"),
    [
        (HISTORY, {"outcome": "lost"}, "outcome"),
        (HISTORY, {"outcome": "fired, late"}, "outcome"),
        (HISTORY, {"since": "yesterday"}, "since"),
        (HISTORY, {"since": ""}, "since"),
        (HISTORY, {"until": "2027-02-30T00:00:00Z"}, "until"),
        (HISTORY, {"pageSize": "many"}, "pageSize"),
        (HISTORY, {"pageSize": "1.5"}, "pageSize"),
        (HISTORY, {"pageSize": "-1"}, "page size"),
        (HISTORY, {"pageToken": "x"}, "page token"),
        (HISTORY, {"order": "asc"}, "order"),
        (f"{ROOT}/projects/p/locations/l/jobs/a b/executions", {}, "Job name"),
        (f"{HISTORY}/soon:why", {}, "instant"),
        (f"{HISTORY}/{at(60)}:why", {"forced": "maybe"}, "forced"),
        (f"{HISTORY}/{at(60)}:why", {"force": "true"}, "force"),
        (f"{ROOT}/schedules:preview", {}, "schedule"),
        (f"{ROOT}/schedules:preview", {"schedule": "0 0 31 2 *"}, "Schedule or time zone is invalid."),
        (f"{ROOT}/schedules:preview", {"schedule": "* * * * *", "timeZone": "Mars"}, "Mars"),
        (f"{ROOT}/schedules:preview", {"schedule": "* * * * *", "after": "now"}, "after"),
        (f"{ROOT}/schedules:preview", {"schedule": "* * * * *", "count": "0"}, "count"),
        (f"{ROOT}/schedules:preview", {"schedule": "* * * * *", "count": "1001"}, "count"),
        (f"{ROOT}/schedules:preview", {"schedule": "* * * * *", "count": "x"}, "count"),
        (f"{ROOT}/schedules:preview", {"schedule": "* * * * *", "zone": "UTC"}, "zone"),
        (f"{ROOT}/retries:preview", {"retryCount": "6"}, "retryCount"),
        (f"{ROOT}/retries:preview", {"retryCount": "-1"}, "retryCount"),
        (f"{ROOT}/retries:preview", {"retryCount": "x"}, "retryCount"),
        (f"{ROOT}/retries:preview", {"maxRetryDuration": "10"}, "maxRetryDuration"),
        (f"{ROOT}/retries:preview", {"maxRetryDuration": "-10s"}, "maxRetryDuration"),
        (f"{ROOT}/retries:preview", {"minBackoffDuration": "1h"}, "minBackoffDuration"),
        (f"{ROOT}/retries:preview", {"minBackoffDuration": "20s", "maxBackoffDuration": "10s"}, "minBackoffDuration"),
        (f"{ROOT}/retries:preview", {"maxDoublings": "-1"}, "maxDoublings"),
        (f"{ROOT}/retries:preview", {"maxAttempts": "-2"}, "maxAttempts"),
        (f"{ROOT}/retries:preview", {"maxAttempts": "3", "maxRetryDuration": "-1s"}, "maxRetryDuration"),
        (f"{ROOT}/retries:preview", {"maxAttempts": "3", "retryCount": "1"}, "not both"),
        (f"{ROOT}/retries:preview", {"count": "0"}, "count"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(own: Own, path: str, query: dict[str, str], names: str) -> None:
    """Each is a 400 that says which field it is."""
    await own.stage.create()

    assert names in await own.refused(path, **query)


async def test_a_parameter_that_comes_twice_is_refused(own: Own) -> None:
    """Which of the two was meant nobody knows."""
    scope_path = f"{ROOT}/schedules:preview"
    own_query = urlencode([("schedule", "* * * * *"), ("count", "1"), ("count", "2")])
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": scope_path, "query_string": own_query.encode(), "headers": []}
    await own._calls(scope, None, send)  # type: ignore[arg-type]
    assert (sent[0]["status"], b"twice" in sent[1]["body"]) == (400, True)


async def test_a_token_of_another_page_is_refused(own: Own) -> None:
    """Of another filter, or old."""
    await eventful(own)
    token = (await own.ok(HISTORY, pageSize=1))["nextPageToken"]

    assert "page token" in await own.refused(HISTORY, pageToken=token, outcome="fired")
    own.stage.clock.advance(2 * HOUR + 1)
    assert "expired" in await own.refused(HISTORY, pageToken=token)


@pytest.mark.parametrize("verb", ["POST", "DELETE", "PUT"])
async def test_only_get_is_known(own: Own, verb: str) -> None:
    """Nothing is changed here."""
    status, answer = await own.call(HISTORY, verb)

    assert (status, answer["error"]["status"]) == (501, "UNIMPLEMENTED")


async def test_a_fault_of_ours_is_an_internal_error(own: Own) -> None:
    """It says where to look, and nothing of itself."""
    own._calls._services = None  # type: ignore[assignment]
    status, answer = await own.call(HISTORY)

    assert (status, answer["error"]["message"]) == (500, "Internal error: see the server's log.")


# Previews.


async def test_a_preview_of_a_schedule(own: Own) -> None:
    """Through a clock change, from an instant on."""
    answer = await own.ok(
        f"{ROOT}/schedules:preview",
        schedule="30 2 * * *",
        timeZone="America/New_York",
        after="2027-03-13T12:00:00Z",
        count=3,
    )

    fires = ["2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z", "2027-03-16T06:30:00Z"]
    assert answer == {"kind": "unix-cron", "fires": fires}


@pytest.mark.parametrize(
    ("schedule", "kind", "fires"),
    [
        ("* * * * *", "unix-cron", [at(60), at(120)]),
        ("every day 12:00", "groc-specific", ["2027-01-15T12:00:00Z", "2027-01-16T12:00:00Z"]),
        ("every 2 hours synchronized", "groc-window", ["2027-01-15T10:00:00Z", "2027-01-15T12:00:00Z"]),
        ("every 5 minutes", "groc-interval", [at(300), at(600)]),
    ],
)
async def test_a_preview_begins_now_in_utc(own: Own, schedule: str, kind: str, fires: list[str]) -> None:
    """Of end-time intervals as if every run were instant; ten fires unless told."""
    assert await own.ok(f"{ROOT}/schedules:preview", schedule=schedule, count=2) == {"kind": kind, "fires": fires}
    assert len((await own.ok(f"{ROOT}/schedules:preview", schedule=schedule))["fires"]) == 10


@pytest.mark.parametrize(
    ("query", "waits"),
    [
        ({}, []),
        ({"retryCount": 5}, [5, 10, 20, 40, 80]),
        ({"maxRetryDuration": "30s"}, [5, 10, 20]),
        ({"retryCount": 2, "minBackoffDuration": "0.5s"}, [0.5, 1]),
        (
            {"retryCount": 5, "maxRetryDuration": "2000s", "minBackoffDuration": "10s", "maxBackoffDuration": "300s",
             "maxDoublings": 3, "count": 8},
            [10, 20, 40, 80, 160, 240, 300, 300],
        ),
        ({"maxAttempts": 4}, [0.1, 0.2, 0.4]),
        ({"maxAttempts": -1, "minBackoff": "10s", "maxBackoff": "120s", "maxDoublings": 2, "count": 5},
         [10, 20, 40, 80, 120]),
    ],
)  # fmt: skip
async def test_a_preview_of_retries(own: Own, query: dict[str, Any], waits: list[float]) -> None:
    """In seconds; of a job's settings, or of a queue's."""
    assert await own.ok(f"{ROOT}/retries:preview", **query) == {"waits": waits}

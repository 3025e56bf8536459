"""The headers of Cloud Scheduler's requests (wire.md section 9.6): what a job keeps, and what an execution carries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.execution import execution_key
from taskbell.core.job import Disposition, Execution, Job
from taskbell.core.job_headers import execution_headers, stored_job_headers
from taskbell.core.target import AppEngineTarget, Headers, HttpTarget

AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"
NAME = "projects/p/locations/l/jobs/nightly"


@pytest.mark.parametrize(
    ("headers", "body", "stored"),
    [
        ((), b"", {"User-Agent": "Google-Cloud-Scheduler"}),
        ((("user-agent", "mine"),), b"", {"User-Agent": "Google-Cloud-Scheduler"}),
        ((), b"x", {"User-Agent": "Google-Cloud-Scheduler", "Content-Type": "application/octet-stream"}),
        (
            (("content-type", "text/plain"), ("X-Mine", "1")),
            b"x",
            {"content-type": "text/plain", "X-Mine": "1", "User-Agent": "Google-Cloud-Scheduler"},
        ),
        (
            (
                ("Host", "elsewhere"),
                ("CONTENT-LENGTH", "99"),
                ("X-Google-Foo", "1"),
                ("x-appengine-cron", "true"),
                ("X-CLOUDSCHEDULER", "true"),
                ("X-CloudScheduler-JobName", "forged"),
                ("X-Cloud", "kept"),
            ),
            b"",
            {"X-Cloud": "kept", "User-Agent": "Google-Cloud-Scheduler"},
        ),
    ],
)
def test_what_an_http_job_keeps(headers: Headers, body: bytes, stored: dict[str, str]) -> None:
    """The caller's headers but those of the service, and the service's own."""
    assert stored_job_headers(HttpTarget("http://h/", headers=headers, body=body)) == tuple(stored.items())


@pytest.mark.parametrize(
    ("headers", "body", "stored"),
    [
        ((), b"", {"User-Agent": AGENT}),
        ((("User-agent", "mine/1"),), b"", {"User-Agent": f"mine/1 {AGENT}"}),
        (
            (),
            b"four",
            {"User-Agent": AGENT, "Content-Type": "application/octet-stream", "Content-Length": "4"},
        ),
    ],
)
def test_what_an_app_engine_job_keeps(headers: Headers, body: bytes, stored: dict[str, str]) -> None:
    """The caller's agent comes first; with a body also its length."""
    assert stored_job_headers(AppEngineTarget(headers=headers, body=body)) == tuple(stored.items())


@pytest.mark.parametrize("kind", [HttpTarget, AppEngineTarget])
@pytest.mark.parametrize("body", [b"", b"four"])
def test_what_was_stored_is_kept_as_it_is(kind: type[HttpTarget | AppEngineTarget], body: bytes) -> None:
    """So that a client that sends back what it read changes nothing."""
    sent = (("User-Agent", "mine"), ("X-Mine", "1"))
    target = (
        HttpTarget("http://h/", headers=sent, body=body)
        if kind is HttpTarget
        else AppEngineTarget(headers=sent, body=body)
    )
    once = replace(target, headers=stored_job_headers(target))

    assert dict(stored_job_headers(once)) == dict(once.headers)


def carried(target: HttpTarget | AppEngineTarget, text: str | None = None, bearer: str | None = None) -> Headers:
    """The headers of an attempt."""
    job = Job(7, NAME, replace(target, headers=stored_job_headers(target)), "* * * * *")
    return execution_headers(job, execution(), text, bearer)


def execution() -> Execution:
    """An execution that was started."""
    return Execution(7, NAME, 60_000_000, Disposition.FIRED)


def test_what_an_attempt_carries() -> None:
    """In title case, the short id, and the text of the instant."""
    headers = carried(HttpTarget("http://h/", headers=(("X-Mine", "1"),)), "2026-10-16T05:00:00-07:00", "token")

    assert headers == (
        ("X-Mine", "1"),
        ("User-Agent", "Google-Cloud-Scheduler"),
        ("Authorization", "Bearer token"),
        ("X-CloudScheduler", "true"),
        ("X-CloudScheduler-JobName", "nightly"),
        ("X-CloudScheduler-ScheduleTime", "2026-10-16T05:00:00-07:00"),
        ("Idempotency-Key", execution_key(execution())),
    )


def test_without_an_instant_there_is_no_header_of_it() -> None:
    """As for groc schedules."""
    assert "X-CloudScheduler-ScheduleTime" not in dict(carried(HttpTarget("http://h/")))


def test_an_authorization_of_the_callers_own_stays_where_there_is_no_token() -> None:
    """And gives way to one, in any case of letters."""
    target = HttpTarget("http://h/", headers=(("authorization", "Basic abc"),))

    assert dict(carried(target))["authorization"] == "Basic abc"
    assert [value for name, value in carried(target, bearer="t") if name.lower() == "authorization"] == ["Bearer t"]


@pytest.mark.parametrize("target", [HttpTarget("http://h/", body=b"four"), AppEngineTarget(body=b"four")])
def test_each_header_goes_out_once(target: HttpTarget | AppEngineTarget) -> None:
    """The length of the body is the sender's to say; a key of the job's own would be one key for all executions."""
    forged = (("idempotency-key", "always"), ("X-Mine", "1"))
    headers = carried(replace(target, headers=forged), "t", "b")
    names = [name.lower() for name, _ in headers]

    assert len(set(names)) == len(names)
    assert "content-length" not in names
    assert dict(headers)["Idempotency-Key"] == execution_key(execution())

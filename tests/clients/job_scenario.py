"""The scenario for jobs that every client of Google's plays, and what each step of it must show.

It works as `scenario.py` does for queues and tasks: a driver (`gapic_jobs.py`, `discovery_jobs.py`, `node/jobs.mjs`,
`go/jobs.go`) plays the steps below in this order in a project of its own and reports one JSON fact for each:

1.  create an HTTP job with everything set; create it again; get it; ask for what must be refused; create one that the
    server names, one for App Engine and one for Pub/Sub; list them in pages of two; get a job that never was;
2.  run the job, whose status reads as not attempted, until it is known to have gone well; run one whose handler fails
    twice and one whose handler always fails;
3.  update it through a mask, through a bad mask, and whole without any mask; update a job that never was;
4.  pause it, pause it again, run it all the same, resume it, resume it again;
5.  locations; delete it, look for it, delete it again, and create it again, for the name is free at once.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from zoneinfo import ZoneInfo

from tests.clients.scenario import BODY, LOCATION, AnyTime, Like
from tests.support.receiver import Received, Receiver

ZONE = "America/New_York"
YEARLY = "0 0 1 1 *"
NO_JOB = {"code": "NOT_FOUND", "message": "Job not found."}
# The service's sentence, and ours after it that says what is wrong.
BAD_SCHEDULE = {"code": "INVALID_ARGUMENT", "message": Like(r"Schedule or time zone is invalid\. .+")}
BAD_NAME = 'Job name must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>/jobs/<JOB_ID>".'
AGENT = "Google-Cloud-Scheduler"
APP_ENGINE_AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"
NOT_ATTEMPTED = -1
INTERNAL = 13


@dataclass(frozen=True, slots=True)
class JobGiven:
    """What a driver needs to play the scenario; it travels to foreign drivers as JSON."""

    host: str
    port: int
    parent: str
    handler: str
    body: str
    topic: str

    def job_name(self, job_id: str) -> str:
        """The full name of a job."""
        return f"{self.parent}/jobs/{job_id}"

    def as_json(self) -> str:
        """The form in which foreign drivers take it."""
        return json.dumps(asdict(self))


def given_for(client: str, host: str, port: int, handler: str) -> JobGiven:
    """The scenario's givens for one client: a project of its own, so that its lists hold nothing else."""
    return JobGiven(
        host=host,
        port=port,
        parent=f"projects/jobs-{client}/locations/{LOCATION}",
        handler=f"{handler}/jobs-{client}",
        body=base64.b64encode(BODY).decode(),
        topic=f"projects/jobs-{client}/topics/topic",
    )


def new_year(zone: str) -> dt.datetime:
    """When a yearly job fires next."""
    now = dt.datetime.now(ZoneInfo(zone))
    return now.replace(year=now.year + 1, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)


def _retry(
    count: int = 0, duration: float = 0, least: float = 5, most: float = 3600, doublings: int = 5
) -> list[float]:
    return [count, duration, least, most, doublings]


def _http(given: JobGiven, job_id: str, **changes: Any) -> dict[str, Any]:
    target = {"uri": f"{given.handler}/{job_id}", "method": "POST", "headers": {"User-Agent": AGENT}, "body": ""}
    return target | changes


def _job(given: JobGiven, job_id: str, **changes: Any) -> dict[str, Any]:
    job = {
        "name": given.job_name(job_id),
        "description": "",
        "schedule": YEARLY,
        "time_zone": "UTC",
        "state": "ENABLED",
        "status": NOT_ATTEMPTED,
        "deadline": 180,
        "retry": _retry(),
        "target": _http(given, job_id),
        "schedule_time": new_year("UTC").timestamp(),
        "attempted": False,
        "user_update_time": AnyTime(),
    }
    return job | changes


def _full(given: JobGiven, **changes: Any) -> dict[str, Any]:
    """The job of the scenario, with everything set that can be."""
    headers = {"X-Mixed-Case": "preserve-me", "Content-Type": "application/x-scenario", "User-Agent": AGENT}
    everything = {
        "description": "Every New Year, übergroß",
        "time_zone": ZONE,
        "deadline": 30,
        "retry": _retry(2, 0, 0.1, 1, 3),
        "target": _http(given, "full-1", headers=headers, body=given.body),
        "schedule_time": new_year(ZONE).timestamp(),
    }
    return _job(given, "full-1", **everything | changes)


def _app_engine(given: JobGiven) -> dict[str, Any]:
    """The stored headers and the host are the server's words; its deadline is the service's."""
    project = given.parent.split("/")[1]
    routing = {"service": "worker", "version": "v1", "instance": "", "host": f"v1.worker.{project}.appspot.com"}
    headers = {
        "X-Kind": "app-engine",
        "User-Agent": APP_ENGINE_AGENT,
        "Content-Type": "application/octet-stream",
        "Content-Length": str(len(BODY)),
    }
    target = {"relative_uri": "/work?a=1", "method": "PUT", "routing": routing, "headers": headers, "body": given.body}
    return _job(given, "app-engine-1", target=target, deadline=0)


def _pubsub(given: JobGiven) -> dict[str, Any]:
    target = {"topic": given.topic, "data": given.body, "attributes": {"kind": "pub/sub", "ü": "é"}}
    return _job(given, "pubsub-1", target=target, deadline=0)


def _refused(code: str, message: object) -> dict[str, object]:
    return {"code": code, "message": message}


def _region(name: object) -> dict[str, object]:
    return {"name": name, "id": LOCATION, "region": LOCATION}


def expected(given: JobGiven) -> dict[str, Any]:
    """What each step must show. Lists whose order is the server's choice are compared by `check_step`."""
    generated = Like(re.escape(given.parent) + "/jobs/[A-Za-z0-9_-]{1,500}")
    full = _full(given)
    masked = {"description": "Changed", "retry": _retry(2, 0, 0.1, 1, 4)}
    ran = {"status": 0, "attempted": True}
    masked |= {"target": full["target"] | {"headers": {"X-New": "1", "User-Agent": AGENT, **_octets()}}} | ran
    whole = _job(given, "full-1", **ran)
    return {
        "create_job": full,
        "create_job_again": _refused("ALREADY_EXISTS", f"Job {given.job_name('full-1')} already exists."),
        "get_job": full,
        "bad_schedule": BAD_SCHEDULE,
        "bad_zone": BAD_SCHEDULE,
        "bad_name": _refused("INVALID_ARGUMENT", BAD_NAME),
        "create_unnamed": generated,
        "create_app_engine": _app_engine(given),
        "create_pubsub": _pubsub(given),
        "list_jobs": {"pages": [2, 2], "names": [generated] * 4},
        "missing_job": NO_JOB,
        "run_job": full,
        "run_job_finished": full | ran,
        "flaky_job": _job(given, "flaky-1", retry=_retry(2, 0, 0.1, 1, 3)),
        "flaky_job_finished": _job(given, "flaky-1", retry=_retry(2, 0, 0.1, 1, 3), **ran),
        "failing_job": _job(given, "failing-1"),
        "failing_job_finished": _job(given, "failing-1", status=INTERNAL, attempted=True),
        "run_missing": NO_JOB,
        "update_job": full | masked,
        "bad_mask": _refused("INVALID_ARGUMENT", "Invalid mask for Job: nowhere"),
        "replace_job": whole,
        "get_replaced": whole,
        "update_missing": NO_JOB,
        "pause_job": whole | {"state": "PAUSED"},
        "pause_job_again": _refused("FAILED_PRECONDITION", Like(r".*PAUSED.*")),
        "run_paused": whole | {"state": "PAUSED", "status": NOT_ATTEMPTED},
        "run_paused_finished": whole | {"state": "PAUSED"},
        "resume_job": whole,
        "resume_job_again": _refused("FAILED_PRECONDITION", Like(r".*ENABLED.*")),
        "list_locations": [_region(Like(r"projects/[^/]+/locations/[a-z0-9-]+"))],
        "get_location": _region(given.parent),
        "delete_job": NO_JOB,
        "delete_job_again": NO_JOB,
        "recreate_job": full,
    }


def _octets() -> dict[str, str]:
    """A body whose own type was taken away has the service's."""
    return {"Content-Type": "application/octet-stream"}


# The order is fixed here once, so that a test can be made for each step before any client has run.
STEPS = tuple(expected(given_for("any", "127.0.0.1", 0, "http://127.0.0.1")))


def check_step(step: str, facts: dict[str, Any], given: JobGiven) -> None:
    """Judge one step by what the driver reported."""
    fact = facts[step]
    if step == "list_locations":
        # A server may know more places; the one that the scenario lives in must be among them, with its label.
        fact = [place for place in fact if place["id"] == LOCATION]
    wanted = expected(given)[step]
    if step in {"run_job", "run_paused"}:
        # Whether the attempt has begun by the time of the answer is a matter of microseconds.
        fact, wanted = fact | {"attempted": True}, wanted | {"attempted": True}
    assert fact == wanted
    if step == "list_jobs":
        named = [given.job_name(job_id) for job_id in ("full-1", "app-engine-1", "pubsub-1")]
        assert sorted(fact["names"]) == sorted([*named, facts["create_unnamed"]])


def check_deliveries(given: JobGiven, receiver: Receiver) -> None:
    """Judge what the handler saw: each run once, the flaky one three times, with exactly the promised headers."""
    path = given.handler.removeprefix(receiver.url)
    # Run in its first form, and again once it was replaced whole and paused.
    first, second = receiver.requests(f"{path}/full-1")
    own = {"content-length": str(len(BODY)), "x-mixed-case": "preserve-me", "content-type": "application/x-scenario"}
    _check_request(first, receiver, "full-1", new_year(ZONE), own)
    _check_request(second, receiver, "full-1", new_year("UTC"))
    assert (first.body, second.body) == (BODY, b"")
    attempts = receiver.requests(f"{path}/flaky-1")
    assert len(attempts) == 3
    for request in attempts:
        _check_request(request, receiver, "flaky-1", new_year("UTC"))
    assert len({request.header("Idempotency-Key") for request in attempts}) == 1
    # Backoff 0.1 s, then 0.2 s, counted from the failure; clocks are read to the microsecond.
    assert attempts[1].arrival_time - attempts[0].arrival_time >= 0.099
    assert attempts[2].arrival_time - attempts[1].arrival_time >= 0.199
    (failed,) = receiver.requests(f"{path}/failing-1")
    # Every execution has a key of its own, forced ones included.
    runs = (first, second, attempts[0], failed)
    assert len({request.header("Idempotency-Key") for request in runs}) == len(runs)


def _check_request(
    request: Received, receiver: Receiver, job_id: str, schedule_time: dt.datetime, own: Mapping[str, str] | None = None
) -> None:
    wanted: dict[str, object] = {
        "host": receiver.url.removeprefix("http://"),
        "content-length": "0",
        "user-agent": AGENT,
        "x-cloudscheduler": "true",
        "x-cloudscheduler-jobname": job_id,
        # A forced run carries the time of the next scheduled one (wire rules, section 0).
        "x-cloudscheduler-scheduletime": schedule_time.isoformat().replace("+00:00", "Z"),
        "idempotency-key": Like(".+"),
    }
    headers = request.lowered()
    assert headers == wanted | dict(own or {})
    assert request.method == "POST"

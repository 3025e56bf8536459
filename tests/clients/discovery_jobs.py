"""Plays the scenario for jobs through google-api-python-client, with the discovery document that it brings along."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build

from tests.clients.discovery import Facts, refused, seconds
from tests.clients.job_scenario import INTERNAL, YEARLY, ZONE, JobGiven


def play(given: JobGiven, facts: Facts) -> None:
    """Play the scenario, adding to `facts` as it goes."""
    service = build(
        "cloudscheduler",
        "v1",
        client_options={"api_endpoint": f"http://{given.host}:{given.port}"},
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
    )
    with service:
        _Scenario(service, given, facts).play()


def _target_fact(job: Facts) -> Facts:
    if "pubsubTarget" in job:
        pubsub = job["pubsubTarget"]
        return {"topic": pubsub["topicName"], "data": pubsub["data"], "attributes": pubsub["attributes"]}
    request = job.get("httpTarget") or job["appEngineHttpTarget"]
    fact = {"method": request["httpMethod"], "headers": request["headers"], "body": request.get("body", "")}
    if "httpTarget" in job:
        return fact | {"uri": request["uri"]}
    routing = request["appEngineRouting"]
    names = ("service", "version", "instance", "host")
    return fact | {"relative_uri": request["relativeUri"], "routing": {name: routing.get(name, "") for name in names}}


def _job_fact(job: Facts) -> Facts:
    retry = job["retryConfig"]
    spans = [seconds(retry[name]) for name in ("maxRetryDuration", "minBackoffDuration", "maxBackoffDuration")]
    return {
        "name": job["name"],
        "description": job.get("description", ""),
        "schedule": job["schedule"],
        "time_zone": job["timeZone"],
        "state": job["state"],
        # Of a job that went well, the status is there and empty.
        "status": job["status"].get("code", 0),
        "deadline": seconds(job.get("attemptDeadline", "0s")),
        "retry": [retry.get("retryCount", 0), *spans, retry["maxDoublings"]],
        "target": _target_fact(job),
        "schedule_time": dt.datetime.fromisoformat(job["scheduleTime"]).timestamp(),
        "attempted": "lastAttemptTime" in job,
        "user_update_time": dt.datetime.fromisoformat(job["userUpdateTime"]).timestamp(),
    }


def _location_fact(place: Facts) -> Facts:
    region = place["labels"]["cloud.googleapis.com/region"]
    return {"name": place["name"], "id": place["locationId"], "region": region}


class _Scenario:
    def __init__(self, service: Any, given: JobGiven, facts: Facts) -> None:
        self._locations = service.projects().locations()
        self._jobs = self._locations.jobs()
        self._given = given
        self._facts = facts

    def play(self) -> None:
        self._play_create()
        self._play_run()
        self._play_update()
        self._play_pause()
        self._play_places()
        self._play_delete()

    def _plain(self, job_id: str, **changes: Any) -> Facts:
        """A job that only posts to the handler path of its id, every New Year."""
        target = {"uri": f"{self._given.handler}/{job_id}"}
        return {"name": self._given.job_name(job_id), "schedule": YEARLY, "httpTarget": target} | changes

    def _full(self) -> Facts:
        headers = {
            "X-Mixed-Case": "preserve-me",
            "Content-Type": "application/x-scenario",
            "User-Agent": "mine",
            "X-CloudScheduler": "mine",
        }
        return {
            "name": self._given.job_name("full-1"),
            "description": "Every New Year, übergroß",
            "schedule": YEARLY,
            "timeZone": ZONE,
            "attemptDeadline": "30s",
            "retryConfig": {
                "retryCount": 2,
                "minBackoffDuration": "0.100s",
                "maxBackoffDuration": "1s",
                "maxDoublings": 3,
            },
            "httpTarget": {
                "uri": f"{self._given.handler}/full-1",
                "httpMethod": "POST",
                "headers": headers,
                "body": self._given.body,
            },
        }

    def _create(self, job: Facts) -> Facts:
        created: Facts = self._jobs.create(parent=self._given.parent, body=job).execute()
        return created

    def _get(self, job_id: str) -> Facts:
        found: Facts = self._jobs.get(name=self._given.job_name(job_id)).execute()
        return found

    def _run(self, job_id: str) -> Facts:
        run: Facts = self._jobs.run(name=self._given.job_name(job_id), body={}).execute()
        return run

    def _until(self, job_id: str, code: int) -> Facts:
        """Read a job until its status has the code, for ten seconds at most; its own answers pace the loop."""
        deadline = time.monotonic() + 10
        while (job := self._get(job_id))["status"].get("code", 0) != code and time.monotonic() < deadline:
            pass
        return _job_fact(job)

    def _play_create(self) -> None:
        given, facts = self._given, self._facts
        facts["create_job"] = _job_fact(self._create(self._full()))
        facts["create_job_again"] = refused(lambda: self._create(self._full()))
        facts["get_job"] = _job_fact(self._get("full-1"))
        facts["bad_schedule"] = refused(lambda: self._create(self._plain("bad", schedule="* * * * * *")))
        facts["bad_zone"] = refused(lambda: self._create(self._plain("bad", timeZone="utc+8")))
        facts["bad_name"] = refused(lambda: self._create(self._plain("not a valid id")))
        facts["create_unnamed"] = self._create(self._plain("unnamed", name=""))["name"]
        job: Facts = {"name": given.job_name("app-engine-1"), "schedule": YEARLY}
        job["appEngineHttpTarget"] = {
            "httpMethod": "PUT",
            "appEngineRouting": {"service": "worker", "version": "v1"},
            "relativeUri": "/work?a=1",
            "headers": {"X-Kind": "app-engine", "X-AppEngine-Cron": "true"},
            "body": given.body,
        }
        facts["create_app_engine"] = _job_fact(self._create(job))
        topic = {"topicName": given.topic, "data": given.body, "attributes": {"kind": "pub/sub", "ü": "é"}}
        job = {"name": given.job_name("pubsub-1"), "schedule": YEARLY, "pubsubTarget": topic}
        facts["create_pubsub"] = _job_fact(self._create(job))
        pages: list[int] = []
        names: list[str] = []
        request = self._jobs.list(parent=given.parent, pageSize=2)
        while request is not None:
            answer = request.execute()
            jobs = answer.get("jobs", [])
            pages.append(len(jobs))
            names.extend(job["name"] for job in jobs)
            request = self._jobs.list_next(request, answer)
        facts["list_jobs"] = {"pages": pages, "names": names}
        facts["missing_job"] = refused(lambda: self._get("never"))

    def _play_run(self) -> None:
        facts = self._facts
        facts["run_job"] = _job_fact(self._run("full-1"))
        facts["run_job_finished"] = self._until("full-1", 0)
        retry = self._full()["retryConfig"]
        facts["flaky_job"] = _job_fact(self._create(self._plain("flaky-1", retryConfig=retry)))
        self._run("flaky-1")
        facts["flaky_job_finished"] = self._until("flaky-1", 0)
        facts["failing_job"] = _job_fact(self._create(self._plain("failing-1")))
        self._run("failing-1")
        facts["failing_job_finished"] = self._until("failing-1", INTERNAL)
        facts["run_missing"] = refused(lambda: self._run("never"))

    def _play_update(self) -> None:
        jobs, facts, name = self._jobs, self._facts, self._given.job_name("full-1")
        change = self._plain("full-1", description="Changed", timeZone="Asia/Bangkok")
        change["httpTarget"]["headers"] = {"X-New": "1"}
        change["retryConfig"] = {"maxDoublings": 4, "retryCount": 5}
        mask = "description,retryConfig.maxDoublings,httpTarget.headers"
        facts["update_job"] = _job_fact(jobs.patch(name=name, body=change, updateMask=mask).execute())
        facts["bad_mask"] = refused(jobs.patch(name=name, body=change, updateMask="nowhere").execute)
        facts["replace_job"] = _job_fact(jobs.patch(name=name, body=self._plain("full-1")).execute())
        facts["get_replaced"] = _job_fact(self._get("full-1"))
        missing = jobs.patch(name=self._given.job_name("never"), body=self._plain("never"))
        facts["update_missing"] = refused(missing.execute)

    def _play_pause(self) -> None:
        jobs, facts, name = self._jobs, self._facts, self._given.job_name("full-1")
        facts["pause_job"] = _job_fact(jobs.pause(name=name, body={}).execute())
        facts["pause_job_again"] = refused(jobs.pause(name=name, body={}).execute)
        facts["run_paused"] = _job_fact(self._run("full-1"))
        facts["run_paused_finished"] = self._until("full-1", 0)
        facts["resume_job"] = _job_fact(jobs.resume(name=name, body={}).execute())
        facts["resume_job_again"] = refused(jobs.resume(name=name, body={}).execute)

    def _play_places(self) -> None:
        given, facts = self._given, self._facts
        listed = self._locations.list(name=given.parent.rsplit("/locations/", 1)[0]).execute()
        facts["list_locations"] = [_location_fact(place) for place in listed["locations"]]
        facts["get_location"] = _location_fact(self._locations.get(name=given.parent).execute())

    def _play_delete(self) -> None:
        jobs, facts, name = self._jobs, self._facts, self._given.job_name("full-1")
        assert jobs.delete(name=name).execute() == {}
        facts["delete_job"] = refused(lambda: self._get("full-1"))
        facts["delete_job_again"] = refused(jobs.delete(name=name).execute)
        facts["recreate_job"] = _job_fact(self._create(self._full()))
        assert jobs.delete(name=name).execute() == {}

"""Plays the scenario for jobs through google-cloud-scheduler, over each of its three transports.

One telling serves the blocking client and the asyncio client: `now` waits for what needs waiting for.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import time
from typing import Any

import grpc
from google.auth.credentials import AnonymousCredentials
from google.cloud import scheduler_v1
from google.cloud.scheduler_v1.services.cloud_scheduler.transports import (
    CloudSchedulerGrpcAsyncIOTransport,
    CloudSchedulerGrpcTransport,
    CloudSchedulerRestTransport,
)

from tests.clients.gapic import Facts, each, now, refused
from tests.clients.job_scenario import INTERNAL, YEARLY, ZONE, JobGiven
from tests.clients.scenario import BODY


def play(transport: str, given: JobGiven, facts: Facts) -> None:
    """Play the scenario over "grpc", "asyncio" or "rest", adding to `facts` as it goes."""
    asyncio.run(_play(transport, given, facts))


async def _play(transport: str, given: JobGiven, facts: Facts) -> None:
    address = f"{given.host}:{given.port}"
    client: Any
    if transport == "asyncio":
        channel = grpc.aio.insecure_channel(address)
        client = scheduler_v1.CloudSchedulerAsyncClient(transport=CloudSchedulerGrpcAsyncIOTransport(channel=channel))
    elif transport == "grpc":
        client = scheduler_v1.CloudSchedulerClient(
            transport=CloudSchedulerGrpcTransport(channel=grpc.insecure_channel(address)),
        )
    else:
        client = scheduler_v1.CloudSchedulerClient(
            transport=CloudSchedulerRestTransport(
                host=address,
                url_scheme="http",
                credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            )
        )
    try:
        await _Scenario(client, given, facts).play()
    finally:
        await now(client.transport.close())


# Messages are Any here: proto-plus declares durations and times as protobuf, and hands out datetime.
def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _target_fact(job: Any) -> Facts:
    if "pubsub_target" in job:
        pubsub = job.pubsub_target
        return {"topic": pubsub.topic_name, "data": _base64(pubsub.data), "attributes": dict(pubsub.attributes)}
    request = job.http_target if "http_target" in job else job.app_engine_http_target
    fact = {"method": request.http_method.name, "headers": dict(request.headers), "body": _base64(request.body)}
    if "http_target" in job:
        return fact | {"uri": request.uri}
    routing = request.app_engine_routing
    names = ("service", "version", "instance", "host")
    return fact | {
        "relative_uri": request.relative_uri,
        "routing": {name: getattr(routing, name) for name in names},
    }


def _job_fact(job: Any) -> Facts:
    retry = job.retry_config
    spans = (retry.max_retry_duration, retry.min_backoff_duration, retry.max_backoff_duration)
    assert "status" in job, "a job always has a status"
    return {
        "name": job.name,
        "description": job.description,
        "schedule": job.schedule,
        "time_zone": job.time_zone,
        "state": job.state.name,
        "status": job.status.code,
        "deadline": job.attempt_deadline.total_seconds() if job.attempt_deadline is not None else 0,
        "retry": [retry.retry_count, *(span.total_seconds() for span in spans), retry.max_doublings],
        "target": _target_fact(job),
        "schedule_time": job.schedule_time.timestamp(),
        "attempted": job.last_attempt_time is not None,
        "user_update_time": job.user_update_time.timestamp(),
    }


def _location_fact(place: Any) -> Facts:
    region = place.labels["cloud.googleapis.com/region"]
    return {"name": place.name, "id": place.location_id, "region": region}


class _Scenario:
    def __init__(self, client: Any, given: JobGiven, facts: Facts) -> None:
        self._client = client
        self._given = given
        self._facts = facts

    async def play(self) -> None:
        await self._create()
        await self._run()
        await self._update()
        await self._pause()
        await self._places()
        await self._delete()

    def _plain(self, job_id: str, **changes: Any) -> scheduler_v1.Job:
        """A job that only posts to the handler path of its id, every New Year."""
        target = {"uri": f"{self._given.handler}/{job_id}"}
        return scheduler_v1.Job(
            {"name": self._given.job_name(job_id), "schedule": YEARLY, "http_target": target} | changes
        )

    def _full(self) -> scheduler_v1.Job:
        return scheduler_v1.Job(
            name=self._given.job_name("full-1"),
            description="Every New Year, übergroß",
            schedule=YEARLY,
            time_zone=ZONE,
            attempt_deadline=dt.timedelta(seconds=30),
            retry_config=scheduler_v1.RetryConfig(
                retry_count=2,
                min_backoff_duration=dt.timedelta(milliseconds=100),
                max_backoff_duration=dt.timedelta(seconds=1),
                max_doublings=3,
            ),
            http_target=scheduler_v1.HttpTarget(
                uri=f"{self._given.handler}/full-1",
                http_method=scheduler_v1.HttpMethod.POST,
                headers={
                    "X-Mixed-Case": "preserve-me",
                    "Content-Type": "application/x-scenario",
                    "User-Agent": "mine",
                    "X-CloudScheduler": "mine",
                },
                body=BODY,
            ),
        )

    async def _create_job(self, job: scheduler_v1.Job) -> Any:
        return await now(self._client.create_job(request={"parent": self._given.parent, "job": job}))

    async def _get(self, job_id: str) -> Any:
        return await now(self._client.get_job(name=self._given.job_name(job_id)))

    async def _until(self, job_id: str, code: int) -> Facts:
        """Read a job until its status has the code, for ten seconds at most."""
        deadline = time.monotonic() + 10
        while (job := await self._get(job_id)).status.code != code:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        return _job_fact(job)

    async def _create(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        facts["create_job"] = _job_fact(await self._create_job(self._full()))
        facts["create_job_again"] = await refused(lambda: self._create_job(self._full()))
        facts["get_job"] = _job_fact(await self._get("full-1"))
        facts["bad_schedule"] = await refused(lambda: self._create_job(self._plain("bad", schedule="* * * * * *")))
        facts["bad_zone"] = await refused(lambda: self._create_job(self._plain("bad", time_zone="utc+8")))
        facts["bad_name"] = await refused(lambda: self._create_job(self._plain("not a valid id")))
        facts["create_unnamed"] = (await self._create_job(self._plain("unnamed", name=""))).name
        target = scheduler_v1.AppEngineHttpTarget(
            http_method=scheduler_v1.HttpMethod.PUT,
            app_engine_routing={"service": "worker", "version": "v1"},
            relative_uri="/work?a=1",
            headers={"X-Kind": "app-engine", "X-AppEngine-Cron": "true"},
            body=BODY,
        )
        job = scheduler_v1.Job(name=given.job_name("app-engine-1"), schedule=YEARLY, app_engine_http_target=target)
        facts["create_app_engine"] = _job_fact(await self._create_job(job))
        topic = scheduler_v1.PubsubTarget(topic_name=given.topic, data=BODY, attributes={"kind": "pub/sub", "ü": "é"})
        job = scheduler_v1.Job(name=given.job_name("pubsub-1"), schedule=YEARLY, pubsub_target=topic)
        facts["create_pubsub"] = _job_fact(await self._create_job(job))
        pages: list[int] = []
        names: list[str] = []
        pager = await now(client.list_jobs(request={"parent": given.parent, "page_size": 2}))
        async for page in each(pager.pages):
            pages.append(len(page.jobs))
            names.extend(job.name for job in page.jobs)
        facts["list_jobs"] = {"pages": pages, "names": names}
        facts["missing_job"] = await refused(lambda: self._get("never"))

    async def _run(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        facts["run_job"] = _job_fact(await now(client.run_job(name=given.job_name("full-1"))))
        facts["run_job_finished"] = await self._until("full-1", 0)
        retry = self._full().retry_config
        facts["flaky_job"] = _job_fact(await self._create_job(self._plain("flaky-1", retry_config=retry)))
        await now(client.run_job(name=given.job_name("flaky-1")))
        facts["flaky_job_finished"] = await self._until("flaky-1", 0)
        facts["failing_job"] = _job_fact(await self._create_job(self._plain("failing-1")))
        await now(client.run_job(name=given.job_name("failing-1")))
        facts["failing_job_finished"] = await self._until("failing-1", INTERNAL)
        facts["run_missing"] = await refused(lambda: client.run_job(name=given.job_name("never")))

    async def _update(self) -> None:
        client, facts = self._client, self._facts
        change = self._plain("full-1", description="Changed", time_zone="Asia/Bangkok")
        change.http_target.headers = {"X-New": "1"}
        change.retry_config = scheduler_v1.RetryConfig(max_doublings=4, retry_count=5)
        paths = ["description", "retry_config.max_doublings", "http_target.headers"]
        updated = client.update_job(request={"job": change, "update_mask": {"paths": paths}})
        facts["update_job"] = _job_fact(await now(updated))
        bad = {"job": change, "update_mask": {"paths": ["nowhere"]}}
        facts["bad_mask"] = await refused(lambda: client.update_job(request=bad))
        replaced = client.update_job(request={"job": self._plain("full-1")})
        facts["replace_job"] = _job_fact(await now(replaced))
        facts["get_replaced"] = _job_fact(await self._get("full-1"))
        facts["update_missing"] = await refused(lambda: client.update_job(request={"job": self._plain("never")}))

    async def _pause(self) -> None:
        client, facts, name = self._client, self._facts, self._given.job_name("full-1")
        facts["pause_job"] = _job_fact(await now(client.pause_job(name=name)))
        facts["pause_job_again"] = await refused(lambda: client.pause_job(name=name))
        facts["run_paused"] = _job_fact(await now(client.run_job(name=name)))
        facts["run_paused_finished"] = await self._until("full-1", 0)
        facts["resume_job"] = _job_fact(await now(client.resume_job(name=name)))
        facts["resume_job_again"] = await refused(lambda: client.resume_job(name=name))

    async def _places(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        project = given.parent.rsplit("/locations/", 1)[0]
        listed = await now(client.list_locations(request={"name": project}))
        facts["list_locations"] = [_location_fact(place) for place in listed.locations]
        facts["get_location"] = _location_fact(await now(client.get_location(request={"name": given.parent})))

    async def _delete(self) -> None:
        client, facts, name = self._client, self._facts, self._given.job_name("full-1")
        await now(client.delete_job(name=name))
        facts["delete_job"] = await refused(lambda: self._get("full-1"))
        facts["delete_job_again"] = await refused(lambda: client.delete_job(name=name))
        facts["recreate_job"] = _job_fact(await self._create_job(self._full()))
        await now(client.delete_job(name=name))

"""Cloud Scheduler in this process, called over gRPC or REST in either of its versions; see `wire.py`.

Everything behind it is real but the handlers, which answer as told; time stands still until a test moves it.
"""

from __future__ import annotations

import json
from typing import Any

from taskbell.api.grpc import GrpcAdapter
from taskbell.api.methods import Method, all_methods
from taskbell.api.rest import RestAdapter
from taskbell.service.access import AccessService
from taskbell.service.locations import LocationService
from taskbell.service.operations import OperationService
from taskbell.service.services import Services
from tests.conformance.wire import MAX_REQUEST_BYTES, PROJECT, Refused, Wire, json_or_message
from tests.loops.job_stage import JobStage
from tests.loops.stage import Stage

LOCATION = f"{PROJECT}/locations/us-central1"
JOB = f"{LOCATION}/jobs/j"
URL = "http://h/"
EVERY_MINUTE = "* * * * *"


def scheduler_methods(version: str) -> dict[str, Method]:
    """The rows of one version by RPC."""
    service = f"/google.cloud.scheduler.{version}.CloudScheduler/"
    return {
        method.grpc.removeprefix(service): method
        for method in all_methods()
        if method.grpc and method.grpc.startswith(service)
    }


class JobWire(Wire):
    """One Scheduler and one way to call it."""

    def __init__(self, transport: str, version: str = "v1") -> None:
        """Over `grpc` or `rest`, as `v1` or `v1beta1`."""
        self.transport = transport
        self.version = version
        self.jobs = jobs = JobStage()
        self.clock = jobs.clock
        self.stage = stage = Stage(clock=jobs.clock)
        services = Services(
            queues=stage.queues,
            tasks=stage.tasks,
            jobs=jobs.jobs,
            access=AccessService(stage.engine),
            locations=LocationService(stage.engine, ("us-central1", "europe-west1")),
            operations=OperationService(),
            clock=jobs.clock,
            limits=stage.limits,
        )
        adapter = GrpcAdapter if transport == "grpc" else RestAdapter
        self.adapter = adapter(all_methods(), services, MAX_REQUEST_BYTES)
        self._methods = scheduler_methods(version)

    async def call(self, rpc: str, **fields: Any) -> Any:
        """Call an RPC with the fields of its request; the response, or Refused."""
        method = self._methods[rpc]
        request = json_or_message(method.request, fields)
        if self.transport == "grpc":
            return await self._grpc(method, request)
        return await self._rest(method, request)

    async def create(self, name: str = JOB, *, parent: str = LOCATION, **fields: Any) -> Any:
        """A job that posts each minute, unless the fields say otherwise."""
        return await self.call("CreateJob", parent=parent, job=job_fields(name, **fields))

    async def create_refused(self, name: str = JOB, *, parent: str = LOCATION, **fields: Any) -> Refused:
        """The refusal of a create."""
        return await self.refused("CreateJob", parent=parent, job=job_fields(name, **fields))

    async def update(self, *paths: str, name: str = JOB, **fields: Any) -> Any:
        """Update a job with a mask, or without one."""
        update = {"job": {"name": name, **fields}}
        if paths:
            update["update_mask"] = {"paths": list(paths)}
        return await self.call("UpdateJob", **update)

    async def get(self, name: str = JOB) -> Any:
        """A job."""
        return await self.call("GetJob", name=name)


def job_fields(name: str = JOB, **fields: Any) -> dict[str, Any]:
    """The fields of a job with one target, HTTP unless others are named; those that are None are left out."""
    targets = {"http_target", "app_engine_http_target", "pubsub_target"}
    if not targets & set(fields):
        fields["http_target"] = {"uri": URL}
    found = {"name": name, "schedule": EVERY_MINUTE, **fields}
    return {key: value for key, value in found.items() if value is not None}


class RawRest:
    """Requests and answers of REST as bytes."""

    def __init__(self, wire: JobWire) -> None:
        """Over a wire of REST."""
        assert wire.transport == "rest"
        self._wire = wire

    async def call(self, verb: str, target: str, body: Any = None) -> tuple[int, bytes]:
        """One exchange."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = [(b"content-type", b"application/json"), (b"host", b"h")]
        status, _, answer = await self._wire.exchange(verb, target, headers, data)
        return status, answer

    async def ok(self, verb: str, target: str, body: Any = None) -> Any:
        """The JSON of an answer that must be 200."""
        status, answer = await self.call(verb, target, body)
        assert status == 200, answer
        return json.loads(answer)

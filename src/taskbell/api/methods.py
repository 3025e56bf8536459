"""One row per RPC; both adapters read this table and nothing is written per method twice.

A row says how the method is called over gRPC and over REST, which messages it takes and gives, which permission it will
need, and which handler answers. A row without a handler is known to the API and not built here: UNIMPLEMENTED.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from google.cloud import scheduler_v1, scheduler_v1beta1, tasks_v2
from google.cloud.location import locations_pb2
from google.iam.v1 import iam_policy_pb2, policy_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from taskbell.api import jobs, locations, tasks
from taskbell.api import scheduler_cmek as cmek
from taskbell.api import scheduler_v1beta1 as v1beta1
from taskbell.service.services import Services

Handler = Callable[[Services, Any, Any], Awaitable[Any]]
"""Services, request message and an empty response message to the response message."""


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC."""

    grpc: str | None
    """`/package.Service/Rpc`, or None where the method exists over REST alone."""
    verb: str
    path: str
    """`/v2/{parent=projects/*/locations/*}/queues`: literals, one bound field, perhaps `:verb` at the end."""
    body: str
    """What the JSON body is: "" nothing, "*" the request, otherwise a field of it."""
    request: Any
    response: Any
    permission: str
    handler: Handler | None = None


class Row(NamedTuple):
    """A method without what all methods of its service have in common."""

    rpc: str
    verb: str
    path: str
    body: str
    response: Any
    """A message type, or the name of one of the API's own."""
    permission: str
    request: Any = None
    """None: the API's own `{rpc}Request`."""


LOCATION = "projects/*/locations/*"
QUEUE = f"{LOCATION}/queues/*"
TASK = f"{QUEUE}/tasks/*"
JOB = f"{LOCATION}/jobs/*"
CMEK = f"{LOCATION}/cmekConfig"
EMPTY = empty_pb2.Empty
OPERATION = operations_pb2.Operation
_POLICY, _IAM = policy_pb2.Policy, iam_policy_pb2

TASKS_V2 = [
    Row("ListQueues", "GET", f"{{parent={LOCATION}}}/queues", "", "ListQueuesResponse", "queues.list"),
    Row("GetQueue", "GET", f"{{name={QUEUE}}}", "", "Queue", "queues.get"),
    Row("CreateQueue", "POST", f"{{parent={LOCATION}}}/queues", "queue", "Queue", "queues.create"),
    Row("UpdateQueue", "PATCH", f"{{queue.name={QUEUE}}}", "queue", "Queue", "queues.update"),
    Row("DeleteQueue", "DELETE", f"{{name={QUEUE}}}", "", EMPTY, "queues.delete"),
    Row("PurgeQueue", "POST", f"{{name={QUEUE}}}:purge", "*", "Queue", "queues.purge"),
    Row("PauseQueue", "POST", f"{{name={QUEUE}}}:pause", "*", "Queue", "queues.pause"),
    Row("ResumeQueue", "POST", f"{{name={QUEUE}}}:resume", "*", "Queue", "queues.resume"),
    Row("GetIamPolicy", "POST", f"{{resource={QUEUE}}}:getIamPolicy", "*", _POLICY, "queues.getIamPolicy",
        _IAM.GetIamPolicyRequest),
    Row("SetIamPolicy", "POST", f"{{resource={QUEUE}}}:setIamPolicy", "*", _POLICY, "queues.setIamPolicy",
        _IAM.SetIamPolicyRequest),
    Row("TestIamPermissions", "POST", f"{{resource={QUEUE}}}:testIamPermissions", "*",
        _IAM.TestIamPermissionsResponse, "", _IAM.TestIamPermissionsRequest),
    Row("ListTasks", "GET", f"{{parent={QUEUE}}}/tasks", "", "ListTasksResponse", "tasks.list"),
    Row("GetTask", "GET", f"{{name={TASK}}}", "", "Task", "tasks.get"),
    Row("CreateTask", "POST", f"{{parent={QUEUE}}}/tasks", "*", "Task", "tasks.create"),
    Row("DeleteTask", "DELETE", f"{{name={TASK}}}", "", EMPTY, "tasks.delete"),
    Row("RunTask", "POST", f"{{name={TASK}}}:run", "*", "Task", "tasks.run"),
    Row("BatchCreateTasks", "POST", f"{{parent={QUEUE}}}/tasks:batchCreate", "*", OPERATION, "tasks.create"),
    Row("BatchDeleteTasks", "POST", f"{{parent={QUEUE}}}/tasks:batchDelete", "*", OPERATION, "tasks.delete"),
    Row("GetCmekConfig", "GET", f"{{name={CMEK}}}", "", "CmekConfig", "cmekConfig.get"),
    Row("UpdateCmekConfig", "PATCH", f"{{cmek_config.name={CMEK}}}", "cmek_config", "CmekConfig", "cmekConfig.update"),
]  # fmt: skip

SCHEDULER = [
    Row("ListJobs", "GET", f"{{parent={LOCATION}}}/jobs", "", "ListJobsResponse", "jobs.list"),
    Row("GetJob", "GET", f"{{name={JOB}}}", "", "Job", "jobs.get"),
    Row("CreateJob", "POST", f"{{parent={LOCATION}}}/jobs", "job", "Job", "jobs.create"),
    Row("UpdateJob", "PATCH", f"{{job.name={JOB}}}", "job", "Job", "jobs.update"),
    Row("DeleteJob", "DELETE", f"{{name={JOB}}}", "", EMPTY, "jobs.delete"),
    Row("PauseJob", "POST", f"{{name={JOB}}}:pause", "*", "Job", "jobs.pause"),
    Row("ResumeJob", "POST", f"{{name={JOB}}}:resume", "*", "Job", "jobs.enable"),
    Row("RunJob", "POST", f"{{name={JOB}}}:run", "*", "Job", "jobs.run"),
]


def methods_of(  # noqa: PLR0917 - what a version of an API consists of
    service: str,
    base: str,
    rows: Iterable[Row],
    messages: ModuleType,
    handlers: ModuleType,
    adapt: Callable[[Handler], Handler] = lambda handler: handler,
) -> list[Method]:
    """The methods of one version of an API: each is answered by the handler that has its name in snake_case."""
    product = "cloudtasks" if "CloudTasks" in service else "cloudscheduler"

    def message(kind: Any) -> Any:
        return getattr(messages, kind).pb() if isinstance(kind, str) else kind

    return [
        Method(
            grpc=f"/{service}/{row.rpc}",
            verb=row.verb,
            path=f"{base}/{row.path}",
            body=row.body,
            request=message(row.request or f"{row.rpc}Request"),
            response=message(row.response),
            permission=row.permission and f"{product}.{row.permission}",
            handler=adapt(getattr(handlers, _snake(row.rpc))),
        )
        for row in rows
    ]


def mixin_methods(base: str, product: str) -> list[Method]:
    """Locations and Operations, as every version of every API has them under its own REST prefix."""
    one_operation = f"{base}/{{name={LOCATION}/operations/*}}"
    loc, ops, lo = "/google.cloud.location.Locations/", "/google.longrunning.Operations/", operations_pb2
    return [
        Method(loc + "ListLocations", "GET", f"{base}/{{name=projects/*}}/locations", "",
               locations_pb2.ListLocationsRequest, locations_pb2.ListLocationsResponse, f"{product}.locations.list",
               locations.list_locations),
        Method(loc + "GetLocation", "GET", f"{base}/{{name={LOCATION}}}", "", locations_pb2.GetLocationRequest,
               locations_pb2.Location, f"{product}.locations.get", locations.get_location),
        Method(ops + "GetOperation", "GET", one_operation, "", lo.GetOperationRequest, lo.Operation, "",
               locations.get_operation),
        Method(ops + "ListOperations", "GET", f"{base}/{{name={LOCATION}}}/operations", "",
               lo.ListOperationsRequest, lo.ListOperationsResponse, "", locations.list_operations),
        Method(ops + "DeleteOperation", "DELETE", one_operation, "", lo.DeleteOperationRequest, EMPTY, "",
               locations.delete_operation),
        Method(ops + "CancelOperation", "POST", f"{one_operation}:cancel", "*", lo.CancelOperationRequest, EMPTY, "",
               locations.cancel_operation),
    ]  # fmt: skip


REST_ONLY = [
    Method(None, "POST", f"/v2/{{queue={QUEUE}}}/tasks/{{task_id=*}}:buffer", "raw", EMPTY, EMPTY, ""),
    Method(None, "POST", f"/v2/{{queue={QUEUE}}}/tasks:buffer", "raw", EMPTY, EMPTY, ""),
]
"""Known to the API over REST alone, and not built yet."""

SCHEDULER_CMEK = [
    Method(None, "GET", f"/v1/{{name={CMEK}}}", "", cmek.GetCmekConfigRequest, cmek.CmekConfig,
           "cloudscheduler.cmekConfig.get", cmek.get_cmek_config),
    Method(None, "PATCH", f"/v1/{{cmek_config.name={CMEK}}}", "cmek_config", cmek.UpdateCmekConfigRequest, OPERATION,
           "cloudscheduler.cmekConfig.update", cmek.update_cmek_config),
]  # fmt: skip
"""Of v1, over REST alone."""

UNBUILT_SERVICES = ("/google.cloud.tasks.v2beta3.CloudTasks/", "/google.cloud.tasks.v2beta2.CloudTasks/")
UNBUILT_PREFIXES = ("/v2beta3/", "/v2beta2/", "/api/queue/update")


def all_methods() -> list[Method]:
    """The whole table."""
    scheduler = "google.cloud.scheduler.{}.CloudScheduler"
    return [
        *methods_of("google.cloud.tasks.v2.CloudTasks", "/v2", TASKS_V2, tasks_v2, tasks),
        *methods_of(scheduler.format("v1"), "/v1", SCHEDULER, scheduler_v1, jobs),
        *methods_of(scheduler.format("v1beta1"), "/v1beta1", SCHEDULER, scheduler_v1beta1, jobs, v1beta1.adapted),
        *REST_ONLY,
        *SCHEDULER_CMEK,
        *mixin_methods("/v2", "cloudtasks"),
        # Node's client of Cloud Tasks asks for locations under /v1 too, the mix-in's own prefix.
        *mixin_methods("/v1", "cloudscheduler"),
        *mixin_methods("/v1beta1", "cloudscheduler"),
    ]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()

"""One row per RPC; both adapters read this table and nothing is written per method twice.

A row says how the method is called over gRPC and over REST, which messages it takes and gives, which permission it will
need, and which handler answers. A row without a handler is known to the API and not built here: UNIMPLEMENTED.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from google.cloud import tasks_v2 as tasks_types
from google.cloud.location import locations_pb2
from google.iam.v1 import iam_policy_pb2, policy_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from taskbell.api import locations, tasks
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


QUEUES = "projects/*/locations/*/queues"
TASKS = f"{QUEUES}/*/tasks"
EMPTY = empty_pb2.Empty


def tasks_methods() -> list[Method]:
    """google.cloud.tasks.v2."""
    t, service, base = _pb, "/google.cloud.tasks.v2.CloudTasks/", "/v2"

    def row(  # noqa: PLR0917 - a row has as many columns as it has
        rpc: str, verb: str, path: str, body: str, response: Any, permission: str, handler: Handler, request: Any = None
    ) -> Method:
        request = request or t(rpc + "Request")
        return Method(
            service + rpc, verb, f"{base}/{path}", body, request, response, f"cloudtasks.{permission}", handler
        )

    queue, task, op = t("Queue"), t("Task"), operations_pb2.Operation
    location, one_queue, one_task = "projects/*/locations/*", f"{QUEUES}/*", f"{TASKS}/*"
    return [
        row(
            "ListQueues",
            "GET",
            f"{{parent={location}}}/queues",
            "",
            t("ListQueuesResponse"),
            "queues.list",
            tasks.list_queues,
        ),
        row("GetQueue", "GET", f"{{name={one_queue}}}", "", queue, "queues.get", tasks.get_queue),
        row(
            "CreateQueue", "POST", f"{{parent={location}}}/queues", "queue", queue, "queues.create", tasks.create_queue
        ),
        row("UpdateQueue", "PATCH", f"{{queue.name={one_queue}}}", "queue", queue, "queues.update", tasks.update_queue),
        row("DeleteQueue", "DELETE", f"{{name={one_queue}}}", "", EMPTY, "queues.delete", tasks.delete_queue),
        row("PurgeQueue", "POST", f"{{name={one_queue}}}:purge", "*", queue, "queues.purge", tasks.purge_queue),
        row("PauseQueue", "POST", f"{{name={one_queue}}}:pause", "*", queue, "queues.pause", tasks.pause_queue),
        row("ResumeQueue", "POST", f"{{name={one_queue}}}:resume", "*", queue, "queues.resume", tasks.resume_queue),
        row(
            "GetIamPolicy",
            "POST",
            f"{{resource={one_queue}}}:getIamPolicy",
            "*",
            policy_pb2.Policy,
            "queues.getIamPolicy",
            tasks.get_iam_policy,
            iam_policy_pb2.GetIamPolicyRequest,
        ),
        row(
            "SetIamPolicy",
            "POST",
            f"{{resource={one_queue}}}:setIamPolicy",
            "*",
            policy_pb2.Policy,
            "queues.setIamPolicy",
            tasks.set_iam_policy,
            iam_policy_pb2.SetIamPolicyRequest,
        ),
        row(
            "TestIamPermissions",
            "POST",
            f"{{resource={one_queue}}}:testIamPermissions",
            "*",
            iam_policy_pb2.TestIamPermissionsResponse,
            "",
            tasks.test_iam_permissions,
            iam_policy_pb2.TestIamPermissionsRequest,
        ),
        row(
            "ListTasks",
            "GET",
            f"{{parent={one_queue}}}/tasks",
            "",
            t("ListTasksResponse"),
            "tasks.list",
            tasks.list_tasks,
        ),
        row("GetTask", "GET", f"{{name={one_task}}}", "", task, "tasks.get", tasks.get_task),
        row("CreateTask", "POST", f"{{parent={one_queue}}}/tasks", "*", task, "tasks.create", tasks.create_task),
        row("DeleteTask", "DELETE", f"{{name={one_task}}}", "", EMPTY, "tasks.delete", tasks.delete_task),
        row("RunTask", "POST", f"{{name={one_task}}}:run", "*", task, "tasks.run", tasks.run_task),
        row(
            "BatchCreateTasks",
            "POST",
            f"{{parent={one_queue}}}/tasks:batchCreate",
            "*",
            op,
            "tasks.create",
            tasks.batch_create_tasks,
        ),
        row(
            "BatchDeleteTasks",
            "POST",
            f"{{parent={one_queue}}}/tasks:batchDelete",
            "*",
            op,
            "tasks.delete",
            tasks.batch_delete_tasks,
        ),
        row(
            "GetCmekConfig",
            "GET",
            f"{{name={location}/cmekConfig}}",
            "",
            t("CmekConfig"),
            "cmekConfig.get",
            tasks.get_cmek_config,
        ),
        row(
            "UpdateCmekConfig",
            "PATCH",
            f"{{cmek_config.name={location}/cmekConfig}}",
            "cmek_config",
            t("CmekConfig"),
            "cmekConfig.update",
            tasks.update_cmek_config,
        ),
    ]


def mixin_methods(base: str, product: str) -> list[Method]:
    """Locations and Operations, as every version of every API has them under its own REST prefix."""
    location = "projects/*/locations/*"
    operation = f"{{name={location}/operations/*}}"
    loc, ops = "/google.cloud.location.Locations/", "/google.longrunning.Operations/"
    return [
        Method(
            loc + "ListLocations",
            "GET",
            f"{base}/{{name=projects/*}}/locations",
            "",
            locations_pb2.ListLocationsRequest,
            locations_pb2.ListLocationsResponse,
            f"{product}.locations.list",
            locations.list_locations,
        ),
        Method(
            loc + "GetLocation",
            "GET",
            f"{base}/{{name={location}}}",
            "",
            locations_pb2.GetLocationRequest,
            locations_pb2.Location,
            f"{product}.locations.get",
            locations.get_location,
        ),
        Method(
            ops + "GetOperation",
            "GET",
            f"{base}/{operation}",
            "",
            operations_pb2.GetOperationRequest,
            operations_pb2.Operation,
            "",
            locations.get_operation,
        ),
        Method(
            ops + "ListOperations",
            "GET",
            f"{base}/{{name={location}}}/operations",
            "",
            operations_pb2.ListOperationsRequest,
            operations_pb2.ListOperationsResponse,
            "",
        ),
        Method(
            ops + "DeleteOperation",
            "DELETE",
            f"{base}/{operation}",
            "",
            operations_pb2.DeleteOperationRequest,
            EMPTY,
            "",
        ),
        Method(
            ops + "CancelOperation",
            "POST",
            f"{base}/{operation}:cancel",
            "*",
            operations_pb2.CancelOperationRequest,
            EMPTY,
            "",
        ),
    ]


def rest_only_methods() -> list[Method]:
    """Known to the API over REST alone, and not built yet."""
    empty = empty_pb2.Empty
    return [
        Method(None, "POST", f"/v2/{{queue={QUEUES}/*}}/tasks/{{task_id=*}}:buffer", "raw", empty, empty, ""),
        Method(None, "POST", f"/v2/{{queue={QUEUES}/*}}/tasks:buffer", "raw", empty, empty, ""),
    ]


UNBUILT_SERVICES = (
    "/google.cloud.tasks.v2beta3.CloudTasks/",
    "/google.cloud.tasks.v2beta2.CloudTasks/",
    "/google.cloud.scheduler.v1.CloudScheduler/",
    "/google.cloud.scheduler.v1beta1.CloudScheduler/",
)
UNBUILT_PREFIXES = ("/v2beta3/", "/v2beta2/", "/v1/", "/v1beta1/", "/api/queue/update")


def all_methods() -> list[Method]:
    """The whole table."""
    # Node's client asks for locations under the mix-in's own prefix, /v1, whatever the API's version is.
    mixins = [*mixin_methods("/v2", "cloudtasks"), *mixin_methods("/v1", "cloudscheduler")]
    return [*tasks_methods(), *rest_only_methods(), *mixins]


def _pb(name: str) -> Any:
    if name == "Empty":
        return EMPTY
    kind: Any = getattr(tasks_types, name)
    return kind.pb()

"""Plays the scenario through google-cloud-tasks, over each of its three transports.

One telling serves the blocking client and the asyncio client: `now` waits for what needs waiting for.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import inspect
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import (
    CloudTasksGrpcAsyncIOTransport,
    CloudTasksGrpcTransport,
    CloudTasksRestTransport,
)
from google.iam.v1 import policy_pb2
from google.rpc.code_pb2 import Code

from tests.clients.scenario import BODY, Given

Facts = dict[str, Any]


def play(transport: str, given: Given, facts: Facts) -> None:
    """Play the scenario over "grpc", "asyncio" or "rest", adding to `facts` as it goes."""
    asyncio.run(_play(transport, given, facts))


async def _play(transport: str, given: Given, facts: Facts) -> None:
    address = f"{given.host}:{given.port}"
    client: Any
    if transport == "asyncio":
        channel = grpc.aio.insecure_channel(address)
        client = tasks_v2.CloudTasksAsyncClient(transport=CloudTasksGrpcAsyncIOTransport(channel=channel))
    elif transport == "grpc":
        client = tasks_v2.CloudTasksClient(
            transport=CloudTasksGrpcTransport(channel=grpc.insecure_channel(address)),
        )
    else:
        client = tasks_v2.CloudTasksClient(
            transport=CloudTasksRestTransport(
                host=address,
                url_scheme="http",
                credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            )
        )
    try:
        await _Scenario(client, given, facts).play()
    finally:
        await now(client.transport.close())


async def now(value: Any) -> Any:
    """A value of the blocking client, or what the asyncio client makes us wait for."""
    return await value if inspect.isawaitable(value) else value


async def refused(call: Callable[[], Any]) -> Facts:
    """What a call was refused with; code "OK" when it was not."""
    try:
        await now(call())
    except exceptions.GoogleAPICallError as error:
        # Over REST the client adds method and URL to the message, and 409 is one class for two codes: ask the answer.
        if hasattr(error.response, "json"):
            answer = error.response.json()["error"]
            return {"code": answer["status"], "message": answer["message"]}
        # The asyncio client raises a failed operation without a code of its own, but with the operation's status.
        code = error.grpc_status_code.name if error.grpc_status_code else Code.Name(error.errors[0].code)
        return {"code": code, "message": error.message}
    return {"code": "OK", "message": ""}


# Messages are Any here: proto-plus declares durations and times as protobuf, and hands out datetime.
def _queue_fact(queue: Any) -> Facts:
    return {
        "name": queue.name,
        "state": queue.state.name,
        "rate": queue.rate_limits.max_dispatches_per_second,
        "burst": queue.rate_limits.max_burst_size,
        "concurrent": queue.rate_limits.max_concurrent_dispatches,
        "attempts": queue.retry_config.max_attempts,
        "min_backoff": queue.retry_config.min_backoff.total_seconds(),
        "max_backoff": queue.retry_config.max_backoff.total_seconds(),
        "doublings": queue.retry_config.max_doublings,
    }


def _task_fact(task: Any) -> Facts:
    request = task.http_request
    return {
        "name": task.name,
        "method": request.http_method.name,
        "url": request.url,
        "headers": dict(request.headers),
        "body": base64.b64encode(request.body).decode(),
        "view": task.view.name,
        "deadline": task.dispatch_deadline.total_seconds(),
        "schedule_time": task.schedule_time.timestamp(),
        "dispatches": task.dispatch_count,
        "responses": task.response_count,
    }


def _policy_fact(policy: policy_pb2.Policy) -> Facts:
    return {"bindings": [{"role": each.role, "members": list(each.members)} for each in policy.bindings]}


def _location_fact(place: Any) -> Facts:
    region = place.labels["cloud.googleapis.com/region"]
    return {"name": place.name, "id": place.location_id, "region": region}


class _Scenario:
    def __init__(self, client: Any, given: Given, facts: Facts) -> None:
        self._client = client
        self._given = given
        self._facts = facts
        self._future = dt.datetime.fromisoformat(given.future_time)

    async def play(self) -> None:
        await self._queues()
        await self._tasks()
        await self._paused()
        await self._batches()
        await self._ending()

    def _new_task(self, task_id: str, schedule_time: dt.datetime | None = None) -> dict[str, Any]:
        """A create request for the handler path of the same id; without an id the server names the task."""
        request = tasks_v2.HttpRequest(
            url=f"{self._given.handler}/{task_id}",
            http_method=tasks_v2.HttpMethod.POST,
            headers={"Content-Type": "application/x-scenario", "X-Mixed-Case": "preserve-me"},
            body=BODY,
        )
        name = self._given.task_name(task_id) if task_id else ""
        task = tasks_v2.Task(name=name, http_request=request, schedule_time=schedule_time)
        return {"parent": self._given.queue_name, "task": task}

    async def _create_task(self, task_id: str, schedule_time: dt.datetime | None = None) -> Any:
        return await now(self._client.create_task(request=self._new_task(task_id, schedule_time)))

    async def _get_task(self, task_id: str, view: str = "VIEW_UNSPECIFIED") -> Any:
        name = self._given.task_name(task_id)
        return await now(self._client.get_task(request={"name": name, "response_view": view}))

    async def _until_gone(self, task_id: str) -> Facts:
        """Read a task until the server refuses, for ten seconds at most."""
        deadline = time.monotonic() + 10
        while (last := await refused(lambda: self._get_task(task_id)))["code"] == "OK":
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        return last

    async def _list_tasks(self) -> Facts:
        pages: list[int] = []
        names: list[str] = []
        pager = await now(self._client.list_tasks(request={"parent": self._given.queue_name, "page_size": 2}))
        async for page in each(pager.pages):
            pages.append(len(page.tasks))
            names.extend(task.name for task in page.tasks)
        return {"pages": pages, "names": names}

    async def _queues(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        create = {"parent": given.parent, "queue": tasks_v2.Queue(name=given.queue_name)}
        facts["create_queue"] = _queue_fact(await now(client.create_queue(request=create)))
        facts["create_queue_again"] = await refused(lambda: client.create_queue(request=create))
        facts["get_queue"] = _queue_fact(await now(client.get_queue(name=given.queue_name)))
        listed = await now(client.list_queues(parent=given.parent))
        facts["list_queues"] = [queue.name async for queue in each(listed)]
        change = {
            "name": given.queue_name,
            "rate_limits": {"max_dispatches_per_second": 100, "max_concurrent_dispatches": 7},
            "retry_config": {"max_attempts": 5, "max_backoff": dt.timedelta(seconds=1)},
        }
        paths = ["rate_limits.max_dispatches_per_second", "retry_config.max_attempts", "retry_config.max_backoff"]
        updated = client.update_queue(request={"queue": change, "update_mask": {"paths": paths}})
        facts["update_queue"] = _queue_fact(await now(updated))
        nowhere = f"{given.parent}/queues/nowhere"
        facts["missing_queue"] = await refused(lambda: client.get_queue(name=nowhere))

    async def _tasks(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        facts["create_task"] = _task_fact(await self._create_task("named-1", self._future))
        facts["create_task_again"] = await refused(lambda: self._create_task("named-1", self._future))
        facts["get_task_basic"] = _task_fact(await self._get_task("named-1", "BASIC"))
        facts["get_task_full"] = _task_fact(await self._get_task("named-1", "FULL"))
        facts["bad_task_id"] = await refused(lambda: self._create_task("not a valid id"))
        facts["create_unnamed"] = [(await self._create_task("", self._future)).name for _ in range(3)]
        facts["list_tasks"] = await self._list_tasks()
        facts["missing_task"] = await refused(lambda: self._get_task("never"))
        facts["run_task"] = _task_fact(await now(client.run_task(name=given.task_name("named-1"))))
        facts["run_task_finished"] = await self._until_gone("named-1")
        facts["finished_name"] = await refused(lambda: self._create_task("named-1"))
        facts["deliver_task"] = _task_fact(await self._create_task("plain-1"))
        facts["deliver_task_finished"] = await self._until_gone("plain-1")
        facts["flaky_task"] = _task_fact(await self._create_task("flaky-1"))
        facts["flaky_task_finished"] = await self._until_gone("flaky-1")
        await self._create_task("doomed-1", self._future)
        await now(client.delete_task(name=given.task_name("doomed-1")))
        facts["delete_task"] = await refused(lambda: self._get_task("doomed-1"))
        facts["delete_missing_task"] = await refused(lambda: client.delete_task(name=given.task_name("never")))

    async def _paused(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        facts["pause_queue"] = _queue_fact(await now(client.pause_queue(name=given.queue_name)))
        facts["held_task"] = _task_fact(await self._create_task("held-1"))
        await self._access()
        await self._places()
        await self._cmek()
        facts["held_task_waits"] = _task_fact(await self._get_task("held-1"))
        facts["resume_called"] = time.time()
        facts["resume_queue"] = _queue_fact(await now(client.resume_queue(name=given.queue_name)))
        facts["held_task_finished"] = await self._until_gone("held-1")

    async def _access(self) -> None:
        client, facts, resource = self._client, self._facts, self._given.queue_name
        facts["get_iam_policy"] = _policy_fact(await now(client.get_iam_policy(request={"resource": resource})))
        policy = {"bindings": [{"role": "roles/cloudtasks.enqueuer", "members": ["user:ada@example.com"]}]}
        stored = client.set_iam_policy(request={"resource": resource, "policy": policy})
        facts["set_iam_policy"] = _policy_fact(await now(stored))
        facts["get_iam_policy_again"] = _policy_fact(await now(client.get_iam_policy(request={"resource": resource})))
        permissions = ["cloudtasks.tasks.create", "cloudtasks.queues.get"]
        held = client.test_iam_permissions(request={"resource": resource, "permissions": permissions})
        facts["test_iam_permissions"] = list((await now(held)).permissions)

    async def _places(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        project = given.parent.rsplit("/locations/", 1)[0]
        listed = await now(client.list_locations(request={"name": project}))
        facts["list_locations"] = [_location_fact(place) for place in listed.locations]
        facts["get_location"] = _location_fact(await now(client.get_location(request={"name": given.parent})))

    async def _cmek(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        name = f"{given.parent}/cmekConfig"

        def fact(config: tasks_v2.CmekConfig) -> Facts:
            return {"name": config.name, "kms_key": config.kms_key}

        facts["get_cmek_config"] = fact(await now(client.get_cmek_config(name=name)))
        change = {"cmek_config": {"name": name, "kms_key": given.kms_key}, "update_mask": {"paths": ["kms_key"]}}
        facts["update_cmek_config"] = fact(await now(client.update_cmek_config(request=change)))
        facts["get_cmek_config_again"] = fact(await now(client.get_cmek_config(name=name)))

    async def _batches(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        requests = [self._new_task(task_id, self._future) for task_id in ("batch-1", "batch-2")]
        create = {"parent": given.queue_name, "requests": requests}
        created = await now(client.batch_create_tasks(request=create))
        done = created.operation.done
        tasks = (await now(created.result())).tasks
        facts["batch_create"] = {"done": done, "names": [task.name for task in tasks]}
        again = await now(client.batch_create_tasks(request=create))
        facts["batch_create_again"] = await refused(again.result)
        names = [given.task_name("batch-1"), given.task_name("batch-2")]
        deleted = await now(client.batch_delete_tasks(request={"parent": given.queue_name, "names": names}))
        done = deleted.operation.done
        await now(deleted.result())
        facts["batch_delete"] = {"done": done, "left": (await self._list_tasks())["names"]}

    async def _ending(self) -> None:
        client, given, facts = self._client, self._given, self._facts
        purged = await now(client.purge_queue(name=given.queue_name))
        facts["purge_queue"] = {
            "state": purged.state.name,
            "purged": purged.purge_time is not None,
            "left": await self._list_tasks(),
        }
        await now(client.delete_queue(name=given.queue_name))
        facts["delete_queue"] = await refused(lambda: client.get_queue(name=given.queue_name))
        facts["delete_queue_again"] = await refused(lambda: client.delete_queue(name=given.queue_name))
        create = {"parent": given.parent, "queue": tasks_v2.Queue(name=given.queue_name)}
        facts["recreate_queue"] = await refused(lambda: client.create_queue(request=create))


async def each(values: Any) -> Any:
    """Iterate over what either client gives."""
    if hasattr(values, "__aiter__"):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value

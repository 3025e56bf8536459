"""Cloud Tasks' handlers: request message in, response message out, for every API version alike.

A handler unpacks the request with the version's codec, calls the service and packs the answer. Paging, views and batch
bookkeeping live here because they are matters of the wire, not of tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.rpc import status_pb2

from taskbell.api import tasks_v2 as v2
from taskbell.api.errors import GRPC_NUMBER, rpc_status
from taskbell.api.filters import matches
from taskbell.api.wire_time import set_instant
from taskbell.core import names
from taskbell.core.errors import InvalidArgument, TaskbellError
from taskbell.core.paging import cursor_of, page_size, page_token
from taskbell.core.task import DueKey, Task
from taskbell.service.services import Services

_SIZE_WORTH_MEASURING = 900_000
"""A request below this many bytes cannot become a task above the size limit: what the server adds is bounded."""
NONE_SUCCEEDED = "None of the requests succeeded, refer to {metadata}.failed_requests for individual error details"


async def list_queues(services: Services, request: Any, response: Any) -> Any:
    """ListQueues: by name; a filter looks at each queue of a page, so a filtered page may be short."""
    now, limits = services.clock.now(), services.limits
    scope = f"queues\n{request.parent}\n{request.filter}"
    cursor = cursor_of(request.page_token, scope, now)
    size = page_size(request.page_size, limits.queues_page)
    keep = matches(request.filter, v2.QueueMessage.DESCRIPTOR)
    queues = await services.queues.page(request.parent, cursor[0] if cursor else "", size + 1)
    response.queues.extend(m for m in map(v2.queue_message, queues[:size]) if keep(m))
    if len(queues) > size:
        response.next_page_token = page_token([queues[size - 1].name], scope, now + limits.page_token_life)
    return response


async def get_queue(services: Services, request: Any, response: Any) -> Any:
    """GetQueue."""
    return v2.queue_message(await services.queues.get(request.name))


async def create_queue(services: Services, request: Any, response: Any) -> Any:
    """CreateQueue."""
    names.check_queue_under(request.queue.name, request.parent)
    queue = v2.queue_of(request.queue, services.queues.blank(request.queue.name))
    return v2.queue_message(await services.queues.create(request.parent, queue))


async def update_queue(services: Services, request: Any, response: Any) -> Any:
    """UpdateQueue: an upsert."""
    name = request.queue.name
    names.check_queue_name(name)
    change = v2.queue_change(request.queue, request.update_mask.paths, services.queues.blank(name))
    return v2.queue_message(await services.queues.update(name, change))


async def delete_queue(services: Services, request: Any, response: Any) -> Any:
    """DeleteQueue."""
    await services.queues.delete(request.name)
    return response


async def purge_queue(services: Services, request: Any, response: Any) -> Any:
    """PurgeQueue."""
    return v2.queue_message(await services.queues.purge(request.name))


async def pause_queue(services: Services, request: Any, response: Any) -> Any:
    """PauseQueue."""
    return v2.queue_message(await services.queues.pause(request.name))


async def resume_queue(services: Services, request: Any, response: Any) -> Any:
    """ResumeQueue."""
    return v2.queue_message(await services.queues.resume(request.name))


async def get_iam_policy(services: Services, request: Any, response: Any) -> Any:
    """GetIamPolicy."""
    policy, etag = await services.access.policy(request.resource)
    response.ParseFromString(policy)
    response.etag = etag
    return response


async def set_iam_policy(services: Services, request: Any, response: Any) -> Any:
    """SetIamPolicy."""
    response.CopyFrom(request.policy)
    response.ClearField("etag")
    response.etag = await services.access.set_policy(
        request.resource, response.SerializeToString(deterministic=True), request.policy.etag
    )
    return response


async def test_iam_permissions(services: Services, request: Any, response: Any) -> Any:
    """TestIamPermissions."""
    response.permissions.extend(await services.access.held_permissions(request.resource, request.permissions))
    return response


async def list_tasks(services: Services, request: Any, response: Any) -> Any:
    """ListTasks: earliest first."""
    now, limits = services.clock.now(), services.limits
    scope = f"tasks\n{request.parent}"
    cursor = cursor_of(request.page_token, scope, now)
    size = page_size(request.page_size, limits.tasks_page)
    after = DueKey(*cursor) if cursor else None
    bodies = request.response_view == v2.FULL
    tasks, has_more = await services.tasks.page(request.parent, after, size, bodies=bodies)
    response.tasks.extend(v2.task_message(task, request.response_view) for task in tasks)
    if has_more:
        response.next_page_token = page_token(list(tasks[-1].due_key), scope, now + limits.page_token_life)
    return response


async def get_task(services: Services, request: Any, response: Any) -> Any:
    """GetTask."""
    return v2.task_message(await services.tasks.get(request.name), request.response_view)


async def create_task(services: Services, request: Any, response: Any) -> Any:
    """CreateTask."""
    task = prepared(services, request.parent, request.task)
    (refusal,) = await services.tasks.create([task])
    if refusal is not None:
        raise refusal
    return v2.task_message(task, request.response_view)


def prepared(services: Services, parent: str, message: Any) -> Task:
    """The task of a create request, checked up to its size."""
    task = services.tasks.prepare(parent, v2.draft_of(message))
    if message.ByteSize() > _SIZE_WORTH_MEASURING and v2.stored_size(task) > services.limits.task_size:
        raise InvalidArgument("Task size too large")
    return task


async def delete_task(services: Services, request: Any, response: Any) -> Any:
    """DeleteTask."""
    await services.tasks.delete(request.name)
    return response


async def run_task(services: Services, request: Any, response: Any) -> Any:
    """RunTask."""
    return v2.task_message(await services.tasks.run(request.name), request.response_view)


async def batch_create_tasks(services: Services, request: Any, response: Any) -> Any:
    """BatchCreateTasks: each request by itself; the operation is done when it is answered."""
    names.check_queue_name(request.parent)
    _check_batch("requests", len(request.requests), services.limits.batch_create)
    if any(item.parent not in ("", request.parent) for item in request.requests):
        raise InvalidArgument("Every request of a batch must have the same parent as the batch.")
    batch = Batch(services, request, len(request.requests))
    if (earlier := batch.earlier()) is not None:
        return earlier
    tasks: dict[int, Task] = {}
    for index, item in enumerate(request.requests):
        with batch.noting(index):
            tasks[index] = prepared(services, request.parent, item.task)
    answers = await services.tasks.create(list(tasks.values()))
    batch.failed.update({i: answer for i, answer in zip(tasks, answers, strict=True) if answer is not None})
    result = v2.BatchCreateTasksResponse()
    views = [item.response_view for item in request.requests]
    result.tasks.extend(v2.task_message(task, views[i]) for i, task in tasks.items() if i not in batch.failed)
    return batch.finished(v2.BatchCreateTasksMetadata(), result)


async def batch_delete_tasks(services: Services, request: Any, response: Any) -> Any:
    """BatchDeleteTasks: each name by itself; the operation is done when it is answered."""
    names.check_queue_name(request.parent)
    _check_batch("names", len(request.names), services.limits.batch_delete)
    batch = Batch(services, request, len(request.names))
    if (earlier := batch.earlier()) is not None:
        return earlier

    async def delete(index: int, name: str) -> None:
        with batch.noting(index):
            if not name.startswith(request.parent + "/tasks/"):
                raise InvalidArgument(f"{name} must begin with {request.parent}.")
            await services.tasks.delete(name)

    # All at once, so that they share a commit.
    await asyncio.gather(*(delete(index, name) for index, name in enumerate(request.names)))
    return batch.finished(v2.BatchDeleteTasksMetadata(), empty_pb2.Empty())


def _check_batch(field: str, count: int, most: int) -> None:
    if count == 0:
        raise InvalidArgument(f"A batch needs at least one of {field}.")
    if count > most:
        raise InvalidArgument(f"A batch may have at most {most} {field}, not {count}.")


class Batch:
    """The bookkeeping of one batch call: which of its parts were refused, and the operation it ends in."""

    def __init__(self, services: Services, request: Any, count: int) -> None:
        self._services = services
        self._request = request
        self._count = count
        self._scope = f"{request.DESCRIPTOR.name}\n{request.parent}"
        self._start_time = services.clock.now()
        self.failed: dict[int, TaskbellError] = {}

    def earlier(self) -> Any | None:
        """The operation of an earlier call with the same request id."""
        return self._services.operations.earlier(self._scope, self._request.request_id)

    @contextlib.contextmanager
    def noting(self, index: int) -> Iterator[None]:
        """Note a refusal as that of part `index`, and go on."""
        try:
            yield
        except TaskbellError as refusal:
            self.failed[index] = refusal

    def finished(self, metadata: Any, result: Any) -> Any:
        """The operation, kept for callers who ask again."""
        services, states = self._services, type(metadata).State
        set_instant(metadata.start_time, self._start_time)
        set_instant(metadata.end_time, services.clock.now())
        for index, refusal in self.failed.items():
            metadata.failed_requests[index].CopyFrom(rpc_status(refusal))
        location = names.split_queue_name(self._request.parent)[0]
        operation = operations_pb2.Operation(name=services.operations.new_name(location), done=True)
        if len(self.failed) == self._count:
            metadata.state = states.Value("FAILED")
            message = NONE_SUCCEEDED.format(metadata=metadata.DESCRIPTOR.name)
            operation.error.CopyFrom(status_pb2.Status(code=GRPC_NUMBER["ABORTED"], message=message))
        else:
            metadata.state = states.Value("PARTIALLY_SUCCEEDED" if self.failed else "SUCCEEDED")
            operation.response.Pack(result)
        operation.metadata.Pack(metadata)
        services.operations.keep(operation.name, operation, self._scope, self._request.request_id)
        return operation


async def get_cmek_config(services: Services, request: Any, response: Any) -> Any:
    """GetCmekConfig."""
    response.name = request.name
    response.kms_key = await services.locations.kms_key(request.name)
    return response


async def update_cmek_config(services: Services, request: Any, response: Any) -> Any:
    """UpdateCmekConfig: only kms_key can be set."""
    config = request.cmek_config
    bad = [path for path in request.update_mask.paths if path not in ("kms_key", "name", "*")]
    if bad:
        raise InvalidArgument(f"Invalid mask for CmekConfig: {bad[0]}")
    response.name = config.name
    response.kms_key = await services.locations.set_kms_key(config.name, config.kms_key)
    return response

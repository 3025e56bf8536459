"""Tasks as rows and rows as tasks."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from taskbell.core.task import Task
from taskbell.engines.record import (
    decode_attempt,
    decode_retry_config,
    decode_target,
    encode_attempt,
    encode_request,
)

ROW_OVERHEAD = 1024
"""What `Task.size` counts besides the body."""


class NewTask(NamedTuple):
    """A task on its way into the table; the writer adds the generation, which only it knows."""

    id: int
    queue: str
    name: str | None
    create_time: int
    columns: tuple[Any, ...]
    """Everything after the generation, in the order of `insert_tasks`."""


def new_task(task: Task) -> NewTask:
    """The task ready to be inserted. Runs in the caller's thread, so that the writer has less to do."""
    name = task.task_id if task.named else None
    columns = (
        name,
        task.schedule_time,
        task.create_time,
        task.dispatch_count,
        task.response_count,
        task.execution_count,
        task.first_dispatch_time,
        task.previous_response,
        encode_attempt(task.last_attempt),
        encode_request(task),
        task.target.body,
    )
    return NewTask(task.id, task.queue, name, task.create_time, columns)


def retry_fields(retry: Task) -> tuple[Any, ...]:
    """What `retry_tasks` sets, headed by the id."""
    return (
        retry.id,
        retry.schedule_time,
        retry.dispatch_count,
        retry.response_count,
        retry.execution_count,
        retry.first_dispatch_time,
        retry.previous_response,
        encode_attempt(retry.last_attempt),
    )


def task_of(queue: str, fields: list[Any], body: bytes) -> Task:
    """The task of the fields that `due_page`, `task_by_name` and `task_by_id` select."""
    request = fields[10]
    name = fields[1]
    return Task(
        id=fields[0],
        queue=queue,
        task_id=str(fields[0]) if name is None else name,
        named=name is not None,
        target=decode_target(request, body),
        schedule_time=fields[2],
        create_time=fields[3],
        dispatch_deadline=request.get("dispatch_deadline"),
        retry_config=decode_retry_config(request),
        dispatch_count=fields[4],
        response_count=fields[5],
        execution_count=fields[6],
        first_dispatch_time=fields[7],
        last_attempt=decode_attempt(fields[9]),
        previous_response=fields[8],
    )


def task_of_row(queue: str, row: tuple[str, bytes]) -> Task:
    """The task of a row of `task_by_name` or `task_by_id`."""
    fields, body = row
    return task_of(queue, json.loads(fields), body)


def numbered_id(task_id: str) -> int | None:
    """The id that a task without a chosen name would have under this text, or None: canonical decimals only."""
    if task_id.isascii() and task_id.isdigit() and task_id[0] != "0" and len(task_id) < 20:
        number = int(task_id)
        return number if number < 2**63 else None
    return None

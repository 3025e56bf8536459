"""Jobs and executions as rows, and rows as jobs and executions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from taskbell.core.job import Disposition, Execution, Job, JobState, Progress
from taskbell.core.task import Status
from taskbell.engines.record import decode_job_request, encode_job_request


def job_columns(job: Job) -> tuple[Any, ...]:
    """The parameters of `insert_job` and `update_job`."""
    return (
        job.id,
        job.name,
        job.schedule,
        job.time_zone,
        job.description,
        job.state.value,
        job.user_update_time,
        encode_job_request(job),
        job.target.body,
    )


def timer_columns(job: Job) -> tuple[Any, ...]:
    """The parameters of `put_timer`."""
    return (job.id, job.revision, job.next_time, job.last_attempt_time, *_status_columns(job.status))


def job_of(fields: Sequence[Any], body: bytes) -> Job:
    """The job of the fields that `job_by_name`, `job_page` and `all_jobs` select, and its body."""
    target, attempt_deadline, retry_config = decode_job_request(json.loads(fields[7]), body)
    return Job(
        id=fields[0],
        name=fields[1],
        target=target,
        schedule=fields[2],
        time_zone=fields[3],
        description=fields[4],
        state=JobState(fields[5]),
        retry_config=retry_config,
        attempt_deadline=attempt_deadline,
        revision=fields[8],
        user_update_time=fields[6],
        next_time=fields[9],
        last_attempt_time=fields[10],
        status=_status(fields[11], fields[12]),
    )


def execution_columns(execution: Execution) -> tuple[Any, ...]:
    """The parameters of `put_executions` and `insert_absent_execution`, headed by the key."""
    return (
        execution.job_id,
        execution.instant,
        int(execution.is_forced),
        execution.disposition.value,
        execution.progress.value,
        execution.header_time,
        execution.start_time,
        execution.last_attempt_time,
        execution.end_time,
        execution.attempts,
        execution.failures,
        execution.retry_time,
        execution.response,
        *_status_columns(execution.status),
        execution.reason,
    )


def execution_of(fields: Sequence[Any], job: str) -> Execution:
    """The execution of the fields that `execution_page`, `execution_by_key` and `open_executions` select."""
    return Execution(
        job_id=fields[0],
        job=job,
        instant=fields[1],
        disposition=Disposition(fields[2]),
        progress=Progress(fields[3]),
        header_time=fields[4],
        start_time=fields[5],
        last_attempt_time=fields[6],
        end_time=fields[7],
        attempts=fields[8],
        failures=fields[9],
        retry_time=fields[10],
        response=fields[11],
        status=_status(fields[12], fields[13]),
        reason=fields[14],
    )


def _status_columns(status: Status | None) -> tuple[int, str] | tuple[None, None]:
    return (None, None) if status is None else (status.code, status.message)


def _status(code: int | None, message: str | None) -> Status | None:
    return None if code is None or message is None else Status(code, message)

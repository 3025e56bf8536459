"""The verbs that change single jobs, and the sweeping of histories, each inside the writer's transaction.

As in `verbs.py`, every function checks first and writes last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taskbell.core.errors import JOB_NOT_FOUND, AlreadyExists, NotFound, job_exists
from taskbell.core.instant import Instant
from taskbell.core.job import Execution, Job
from taskbell.engines.sqlite.batch import Batch
from taskbell.engines.sqlite.job_rows import execution_columns, job_columns, job_of, timer_columns
from taskbell.engines.sqlite.queries import QUERIES


def create_job(batch: Batch, job: Job) -> None:
    """Insert a job."""
    if batch.execute("job_id", job.name).fetchone() is not None:
        raise AlreadyExists(job_exists(job.name))
    batch.execute("insert_job", *job_columns(job))
    batch.execute("put_timer", *timer_columns(job))


def update_job(batch: Batch, name: str, change: Callable[[Job], tuple[Job, Sequence[Execution]]]) -> Job:
    """Replace a job by what `change` makes of it; an edit ends the wait for a retry."""
    stored = _stored(batch, name)
    job, executions = change(stored)
    batch.execute("update_job", *job_columns(job))
    batch.execute("put_timer", *timer_columns(job))
    if job.revision > stored.revision:
        waiting = {"now": job.user_update_time, "job_id": job.id}
        batch.connection.execute(QUERIES["cancel_waiting"], waiting)
    for execution in executions:
        batch.execute("insert_absent_execution", *execution_columns(execution))
    return job


def delete_job(batch: Batch, name: str, now: Instant) -> Job:
    """Remove a job, and leave its history to the sweeper."""
    job = _stored(batch, name)
    batch.execute("cancel_open", now, job.id)
    batch.execute("delete_job", job.id)
    batch.execute("delete_timer", job.id)
    batch.execute("insert_deleted_job", job.id)
    return job


def force(batch: Batch, execution: Execution) -> bool:
    """Insert a forced execution of a job that is there."""
    if batch.execute("timer", execution.job_id).fetchone() is None:
        return False
    if not batch.execute("insert_absent_execution", *execution_columns(execution)).rowcount:
        return False
    batch.execute("clear_status", execution.job_id)
    return True


def sweep_executions(batch: Batch, before: Instant, limit: int) -> int:
    """Remove closed executions of deleted jobs, then the oldest of the others."""
    left = limit
    while left and (found := batch.execute("first_deleted_job").fetchone()) is not None:
        removed = batch.execute("delete_some_of_job", found[0], left).rowcount
        if removed < left:
            batch.execute("forget_deleted_job", found[0])
        left -= removed
    if left:
        left -= batch.execute("delete_old_executions", before, left).rowcount
    return limit - left


def _stored(batch: Batch, name: str) -> Job:
    row = batch.execute("job_by_name", name).fetchone()
    if row is None:
        raise NotFound(JOB_NOT_FOUND)
    return job_of(row, row[-1])

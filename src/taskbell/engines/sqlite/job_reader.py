"""Reading jobs and executions beside the writer, each read from one state of the store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taskbell.core.errors import JOB_NOT_FOUND, REQUESTED_ENTITY_NOT_FOUND, NotFound
from taskbell.core.instant import Instant
from taskbell.core.job import Execution, Job
from taskbell.engine import ExecutionKey, HistoryFilter
from taskbell.engines.sqlite.job_rows import execution_of, job_of
from taskbell.engines.sqlite.queries import QUERIES

_INLINE_BYTES = 4096
"""Bodies up to here come with their page, longer ones one by one, so that a page's text stays small."""
_ABOVE_ALL = 2
"""More than any `is_forced`."""


def named_job(connection: sqlite3.Connection, name: str) -> Job:
    """One job, or NotFound."""
    row = connection.execute(QUERIES["job_by_name"], (name,)).fetchone()
    if row is None:
        raise NotFound(JOB_NOT_FOUND)
    return job_of(row, row[-1])


def job_page(connection: sqlite3.Connection, parent: str, after: str, limit: int) -> list[Job]:
    """Jobs of a location in the order of their names."""
    prefix = parent + "/jobs/"
    parameters = {
        "after": max(after, prefix),
        "end": parent + "/jobs0",  # The first text after all that begin with the prefix.
        "limit": limit,
        "inline_bytes": _INLINE_BYTES,
    }
    with _snapshot(connection):
        (page,) = connection.execute(QUERIES["job_page"], parameters).fetchone()
        jobs = [job_of(fields, _body(connection, fields)) for fields in json.loads(page)]
    # The rows were read in this order; that the aggregate keeps it is SQLite's habit, not its promise.
    return sorted(jobs, key=lambda job: job.name)


def all_jobs(connection: sqlite3.Connection) -> list[Job]:
    """Every job."""
    return [job_of(row, row[-1]) for row in connection.execute(QUERIES["all_jobs"])]


def open_executions(connection: sqlite3.Connection) -> list[Execution]:
    """Every open execution."""
    return [execution_of(row, row[-1]) for row in connection.execute(QUERIES["open_executions"])]


def execution_page(
    connection: sqlite3.Connection, job: str, before: ExecutionKey | None, limit: int, wanted: HistoryFilter
) -> list[Execution]:
    """A page of a job's history, newest first."""
    instant, is_forced = wanted.until - 1, _ABOVE_ALL
    if before is not None and before.instant <= instant:
        instant, is_forced = before.instant, int(before.is_forced)
    with _snapshot(connection):
        parameters = {
            "job_id": _job_id(connection, job),
            "since": wanted.since,
            "instant": instant,
            "is_forced": is_forced,
            "among": json.dumps(sorted(wanted.among)),
            "limit": limit,
        }
        (page,) = connection.execute(QUERIES["execution_page"], parameters).fetchone()
    executions = [execution_of(fields, job) for fields in json.loads(page)]
    return sorted(executions, key=lambda execution: (execution.instant, execution.is_forced), reverse=True)


def one_execution(connection: sqlite3.Connection, job: str, instant: Instant, *, is_forced: bool) -> Execution:
    """One execution, or the NotFound that fits."""
    with _snapshot(connection):
        key = (_job_id(connection, job), instant, int(is_forced))
        row = connection.execute(QUERIES["execution_by_key"], key).fetchone()
    if row is None:
        raise NotFound(REQUESTED_ENTITY_NOT_FOUND)
    return execution_of(row, job)


def _job_id(connection: sqlite3.Connection, name: str) -> int:
    row: tuple[int] | None = connection.execute(QUERIES["job_id"], (name,)).fetchone()
    if row is None:
        raise NotFound(JOB_NOT_FOUND)
    return row[0]


def _body(connection: sqlite3.Connection, fields: list[Any]) -> bytes:
    if fields[-1] is not None:
        return bytes.fromhex(fields[-1])
    row: tuple[bytes] = connection.execute(QUERIES["job_body"], (fields[0],)).fetchone()
    return row[0]


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """One state of the store for several statements: what is deleted between them is still seen."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")

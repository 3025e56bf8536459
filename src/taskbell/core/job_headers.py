"""The headers of Cloud Scheduler's requests (wire.md section 9.6): what a job keeps, and what an execution carries."""

from __future__ import annotations

from taskbell.core.execution import execution_key
from taskbell.core.headers import APP_ENGINE_USER_AGENT, JOB_PREFIXES, is_reserved
from taskbell.core.job import Execution, Job
from taskbell.core.target import AppEngineTarget, Headers, HttpTarget

HTTP_USER_AGENT = "Google-Cloud-Scheduler"


def stored_job_headers(target: HttpTarget | AppEngineTarget) -> Headers:
    """What a job's target keeps: the caller's headers with their casing, the service's User-Agent, a body's type.

    Stored headers that come back in an update give the same result, so that a client that sends what it read sees no
    difference.
    """
    kept = [(name, value) for name, value in target.headers if not is_reserved(name, JOB_PREFIXES)]
    kept.append(("User-Agent", _user_agent(target)))
    if target.body and not any(name.lower() == "content-type" for name, _ in kept):
        kept.append(("Content-Type", "application/octet-stream"))
    if target.body and isinstance(target, AppEngineTarget):
        kept.append(("Content-Length", str(len(target.body))))
    return tuple(kept)


def _user_agent(target: HttpTarget | AppEngineTarget) -> str:
    if isinstance(target, HttpTarget):
        return HTTP_USER_AGENT
    agents = [value for name, value in target.headers if name.lower() == "user-agent"]
    if agents and agents[0].endswith(APP_ENGINE_USER_AGENT):
        return agents[0]
    return " ".join([*agents, APP_ENGINE_USER_AGENT])


def execution_headers(job: Job, execution: Execution, schedule_time: str | None, bearer: str | None) -> Headers:
    """The headers of one attempt; `schedule_time` is the text of the ScheduleTime header, the same over all attempts.

    An Idempotency-Key among the job's own headers gives way to ours: it would be one key for all executions, and every
    handler that de-duplicates would do the work of the first one alone.
    """
    assert isinstance(job.target, HttpTarget | AppEngineTarget)
    replaced = {"idempotency-key", "content-length"}
    if bearer is not None:
        replaced.add("authorization")
    headers = [pair for pair in job.target.headers if pair[0].lower() not in replaced]
    if bearer is not None:
        headers.append(("Authorization", f"Bearer {bearer}"))
    headers.append(("X-CloudScheduler", "true"))
    headers.append(("X-CloudScheduler-JobName", job.name[job.name.rindex("/") + 1 :]))
    if schedule_time is not None:
        headers.append(("X-CloudScheduler-ScheduleTime", schedule_time))
    headers.append(("Idempotency-Key", execution_key(execution)))
    return tuple(headers)

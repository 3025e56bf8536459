"""Cloud Scheduler's handlers: request message in, response message out."""

from __future__ import annotations

from typing import Any

from taskbell.api import scheduler_v1 as v1
from taskbell.core import names
from taskbell.core.errors import InvalidArgument
from taskbell.core.job import Job
from taskbell.core.paging import cursor_of, page_size, page_token
from taskbell.service.services import Services


async def list_jobs(services: Services, request: Any, response: Any) -> Any:
    """ListJobs: by name."""
    now, limits = services.clock.now(), services.limits
    scope = f"jobs\n{request.parent}"
    cursor = cursor_of(request.page_token, scope, now)
    size = page_size(request.page_size, limits.jobs_page)
    jobs = await services.jobs.page(request.parent, cursor[0] if cursor else "", size + 1)
    response.jobs.extend(map(v1.job_message, jobs[:size]))
    if len(jobs) > size:
        response.next_page_token = page_token([jobs[size - 1].name], scope, now + limits.page_token_life)
    return response


async def get_job(services: Services, request: Any, response: Any) -> Any:
    """GetJob."""
    return v1.job_message(await services.jobs.get(request.name))


async def create_job(services: Services, request: Any, response: Any) -> Any:
    """CreateJob."""
    if request.job.name:
        names.check_job_name(request.job.name)
    job = v1.job_of(request.job)
    _check_size(services, request.job)
    return v1.job_message(await services.jobs.create(request.parent, job))


async def update_job(services: Services, request: Any, response: Any) -> Any:
    """UpdateJob: not an upsert."""
    names.check_job_name(request.job.name)
    _check_size(services, request.job)
    change = v1.job_change(request.job, request.update_mask.paths)
    return v1.job_message(await services.jobs.update(request.job.name, change))


async def delete_job(services: Services, request: Any, response: Any) -> Any:
    """DeleteJob."""
    await services.jobs.delete(request.name)
    return response


async def pause_job(services: Services, request: Any, response: Any) -> Any:
    """PauseJob."""
    return v1.job_message(await services.jobs.pause(request.name))


async def resume_job(services: Services, request: Any, response: Any) -> Any:
    """ResumeJob."""
    return v1.job_message(await services.jobs.resume(request.name))


async def run_job(services: Services, request: Any, response: Any) -> Any:
    """RunJob: the job as it is just after the dispatch, its status not known yet."""
    job: Job = await services.jobs.run(request.name)
    return v1.job_message(job)


def _check_size(services: Services, message: Any) -> None:
    if message.ByteSize() > services.limits.job_size:
        raise InvalidArgument(f"The job is too large: at most {services.limits.job_size} bytes are allowed.")

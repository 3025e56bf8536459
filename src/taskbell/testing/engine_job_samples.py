"""Jobs and executions for the engine suite, and all that can be seen of them as one comparable value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskbell.core.errors import TaskbellError
from taskbell.core.instant import MINUTE, Instant
from taskbell.core.job import Disposition, Execution, Job, Progress
from taskbell.core.task import Status
from taskbell.engine import Engine, ExecutionKey, HistoryFilter, Progression, Tick
from taskbell.testing.engine_samples import LOCATION, START, TARGET

JOB = f"{LOCATION}/jobs/j"
OTHER_JOB = f"{LOCATION}/jobs/other"
FIRST = START + MINUTE
"""The first instant of sample jobs; they go on each minute."""
ALL = HistoryFilter()
GONE = ("NOT_FOUND", "Job not found.")


def sample_job(engine: Engine, name: str = JOB, **settings: Any) -> Job:
    """A new job with a fresh id that is to fire a minute from the start."""
    fields: dict[str, Any] = {"target": TARGET, "schedule": "* * * * *", "user_update_time": START, "next_time": FIRST}
    return Job(id=engine.next_id(START), name=name, **(fields | settings))


async def add_job(engine: Engine, name: str = JOB, **settings: Any) -> Job:
    """Create one sample job and return it."""
    job = sample_job(engine, name, **settings)
    await engine.create_job(job)
    return job


def fired(job: Job, instant: Instant | None = None, **fields: Any) -> Execution:
    """The execution of an instant, by default the job's next one, whose first attempt is out."""
    if instant is None:
        assert job.next_time is not None
        instant = job.next_time
    settings: dict[str, Any] = {"disposition": Disposition.FIRED, "progress": Progress.OPEN, "header_time": instant}
    return Execution(job_id=job.id, job=job.name, instant=instant, **(settings | fields))


def closed(job: Job, instant: Instant, disposition: Disposition = Disposition.MISSED) -> Execution:
    """The row of an instant that did not start."""
    return Execution(job.id, job.name, instant, disposition, reason="It did not come to it.")


def step(job: Job, *executions: Execution, wait: int | None = MINUTE) -> Tick:
    """The tick that handles the job's next instant, by default by firing it, and goes on after `wait` or not at all."""
    assert job.next_time is not None
    return Tick(job, executions or (fired(job),), None if wait is None else job.next_time + wait)


def ended(execution: Execution, **fields: Any) -> Execution:
    """The execution after one more attempt, its last, which succeeded."""
    now = execution.instant + 7
    settings: dict[str, Any] = {
        "progress": Progress.SUCCEEDED,
        "start_time": execution.start_time or now,
        "last_attempt_time": now,
        "end_time": now + 5,
        "attempts": execution.attempts + 1,
        "retry_time": None,
        "response": 200,
        "status": Status(0, ""),
    }
    return replace(execution, **(settings | fields))


def failed(execution: Execution, *, wait: int = MINUTE) -> Execution:
    """The execution after one more attempt, which failed; it waits for a retry."""
    return ended(
        execution,
        progress=Progress.OPEN,
        end_time=None,
        failures=execution.failures + 1,
        retry_time=execution.instant + wait,
        response=503,
        status=Status(14, "UNAVAILABLE(14): HTTP status code 503"),
    )


async def advance(engine: Engine, *ticks: Tick) -> None:
    """Apply ticks that must not be refused."""
    assert await engine.tick(ticks) == [True] * len(ticks)


async def record(engine: Engine, *executions: Execution) -> None:
    """Record attempts that must not be refused."""
    answers = await engine.progress([Progression(execution) for execution in executions])
    assert answers == [True] * len(executions)


async def history(engine: Engine, job: str = JOB, wanted: HistoryFilter = ALL) -> list[Execution]:
    """A job's executions, newest first."""
    return await engine.executions(job, None, 1000, wanted)


async def walked(engine: Engine, job: str, size: int, wanted: HistoryFilter = ALL) -> list[Execution]:
    """The same, read in pages of a size."""
    seen: list[Execution] = []
    before: ExecutionKey | None = None
    while page := await engine.executions(job, before, size, wanted):
        assert len(page) <= size
        seen += page
        before = ExecutionKey(page[-1].instant, page[-1].is_forced)
    return seen


async def jobs_state(engine: Engine, names: list[str]) -> dict[str, Any]:
    """All that can be seen of an engine's jobs, with what becomes of look-ups of the given names."""
    jobs = sorted(await engine.all_jobs(), key=lambda job: job.name)
    state: dict[str, Any] = {
        "jobs": jobs,
        "open": sorted(await engine.open_executions(), key=lambda each: (each.job_id, each.instant, each.is_forced)),
    }
    for name in names:
        try:
            state[name] = (await engine.job(name), await history(engine, name))
        except TaskbellError as error:
            state[name] = (error.code, error.message)
    return state

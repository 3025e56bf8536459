"""The reference engine's jobs and executions; a part of `memory.py`, with the same duties."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from taskbell.core.errors import JOB_NOT_FOUND, REQUESTED_ENTITY_NOT_FOUND, AlreadyExists, NotFound, job_exists
from taskbell.core.instant import Instant
from taskbell.core.job import Disposition, Execution, Job, Progress
from taskbell.engine import ExecutionKey, HistoryFilter, Progression, Tick


@dataclass(slots=True)
class _JobShelf:
    """A job with its history."""

    job: Job
    executions: dict[ExecutionKey, Execution] = field(default_factory=dict)
    keys: list[ExecutionKey] = field(default_factory=list)
    """The keys of all executions, sorted."""

    def put(self, execution: Execution) -> None:
        key = _key(execution)
        if key not in self.executions:
            bisect.insort(self.keys, key)
        self.executions[key] = execution

    def remove(self, key: ExecutionKey) -> None:
        del self.executions[key]
        del self.keys[bisect.bisect_left(self.keys, key)]

    def may_take(self, execution: Execution) -> bool:
        """Whether nothing stands at the key, or only what an edit had dropped."""
        stored = self.executions.get(_key(execution))
        return stored is None or stored.disposition is Disposition.SUPERSEDED

    def cancel(self, execution: Execution, now: Instant) -> None:
        self.put(replace(execution, progress=Progress.CANCELLED, end_time=now, retry_time=None))

    def open_executions(self) -> list[Execution]:
        return [execution for execution in self.executions.values() if execution.is_open]

    def old(self, before: Instant) -> Iterator[ExecutionKey]:
        """Keys of closed executions before an instant."""
        end = bisect.bisect_left(self.keys, ExecutionKey(before, is_forced=False))
        return (key for key in self.keys[:end] if not self.executions[key].is_open)


class MemoryJobs:
    """See `taskbell.engine.JobEngine` for what every verb promises."""

    def __init__(self) -> None:
        self._jobs: dict[str, _JobShelf] = {}
        self._jobs_by_id: dict[int, _JobShelf] = {}
        self._deleted_jobs: list[_JobShelf] = []

    async def create_job(self, job: Job) -> None:
        """Insert a job."""
        if job.name in self._jobs:
            raise AlreadyExists(job_exists(job.name))
        self._jobs[job.name] = self._jobs_by_id[job.id] = _JobShelf(job)

    async def update_job(self, name: str, change: Callable[[Job], tuple[Job, Sequence[Execution]]]) -> Job:
        """Replace a job."""
        shelf = self._job_shelf(name)
        former = shelf.job
        shelf.job, executions = change(former)
        if shelf.job.revision > former.revision:
            _cancel_waiting(shelf, shelf.job.user_update_time)
        for execution in executions:
            if _key(execution) not in shelf.executions:
                shelf.put(execution)
        return shelf.job

    async def job(self, name: str) -> Job:
        """One job."""
        return self._job_shelf(name).job

    async def jobs(self, parent: str, after: str, limit: int) -> list[Job]:
        """Jobs of a location after a name."""
        prefix = parent + "/jobs/"
        names = sorted(name for name in self._jobs if name.startswith(prefix) and name > after)
        return [self._jobs[name].job for name in names[:limit]]

    async def all_jobs(self) -> list[Job]:
        """Every job."""
        return [shelf.job for shelf in self._jobs.values()]

    async def delete_job(self, name: str, now: Instant) -> Job:
        """Remove a job."""
        shelf = self._job_shelf(name)
        for execution in shelf.open_executions():
            shelf.cancel(execution, now)
        del self._jobs[name], self._jobs_by_id[shelf.job.id]
        self._deleted_jobs.append(shelf)
        return shelf.job

    async def tick(self, ticks: Sequence[Tick]) -> list[bool]:
        """Apply steps."""
        return [self._tick(tick) for tick in ticks]

    def _tick(self, tick: Tick) -> bool:
        shelf = self._jobs_by_id.get(tick.job.id)
        if shelf is None:
            return False
        job = shelf.job
        if (job.revision, job.next_time) != (tick.job.revision, tick.job.next_time):
            return False
        if len({_key(execution) for execution in tick.executions}) < len(tick.executions):
            return False
        if not all(map(shelf.may_take, tick.executions)):
            return False
        for execution in tick.executions:
            shelf.put(execution)
        shelf.job = replace(job, next_time=tick.next_time)
        return True

    async def force(self, execution: Execution) -> bool:
        """Insert a forced execution."""
        shelf = self._jobs_by_id.get(execution.job_id)
        if shelf is None or _key(execution) in shelf.executions:
            return False
        shelf.put(execution)
        shelf.job = replace(shelf.job, status=None)
        return True

    async def progress(self, progressions: Sequence[Progression]) -> list[bool]:
        """Record attempts."""
        return [self._progress(progression) for progression in progressions]

    def _progress(self, progression: Progression) -> bool:
        execution = progression.execution
        shelf = self._jobs_by_id.get(execution.job_id)
        stored = None if shelf is None else shelf.executions.get(_key(execution))
        if shelf is None or stored is None or not stored.is_open:
            return False
        is_cancelled = execution.progress is Progress.CANCELLED
        if stored.attempts >= execution.attempts + is_cancelled:
            return False
        shelf.put(execution)
        was_attempted = execution.attempts > 0
        shelf.job = replace(
            shelf.job,
            last_attempt_time=execution.last_attempt_time if was_attempted else shelf.job.last_attempt_time,
            status=execution.status if was_attempted else shelf.job.status,
            next_time=progression.next_time if shelf.job.next_time is None else shelf.job.next_time,
        )
        return True

    async def open_executions(self) -> list[Execution]:
        """Every open execution."""
        return [execution for shelf in self._jobs.values() for execution in shelf.open_executions()]

    async def executions(
        self, job: str, before: ExecutionKey | None, limit: int, wanted: HistoryFilter
    ) -> list[Execution]:
        """One page of a job's history."""
        shelf = self._job_shelf(job)
        until = ExecutionKey(wanted.until, is_forced=False)
        end = bisect.bisect_left(shelf.keys, until if before is None else min(before, until))
        page: list[Execution] = []
        for key in reversed(shelf.keys[:end]):
            if len(page) == limit or key.instant < wanted.since:
                break
            execution = shelf.executions[key]
            if not wanted.among or execution.disposition in wanted.among:
                page.append(execution)
        return page

    async def execution(self, job: str, instant: Instant, *, is_forced: bool) -> Execution:
        """One execution."""
        execution = self._job_shelf(job).executions.get(ExecutionKey(instant, is_forced))
        if execution is None:
            raise NotFound(REQUESTED_ENTITY_NOT_FOUND)
        return execution

    async def sweep_executions(self, before: Instant, limit: int) -> int:
        """Remove closed executions of deleted jobs, then the oldest of the others."""
        left = limit
        while self._deleted_jobs and left:
            shelf = self._deleted_jobs[0]
            keys = shelf.keys[:left]
            for key in keys:
                shelf.remove(key)
            left -= len(keys)
            if not shelf.keys:
                del self._deleted_jobs[0]
        old = sorted((key, job_id) for job_id, shelf in self._jobs_by_id.items() for key in shelf.old(before))[:left]
        for key, job_id in old:
            self._jobs_by_id[job_id].remove(key)
        return limit - left + len(old)

    def _job_shelf(self, name: str) -> _JobShelf:
        shelf = self._jobs.get(name)
        if shelf is None:
            raise NotFound(JOB_NOT_FOUND)
        return shelf


def _cancel_waiting(shelf: _JobShelf, now: Instant) -> None:
    """End the scheduled executions whose next attempt is still to come."""
    for execution in shelf.open_executions():
        if execution.retry_time is not None and execution.retry_time > now and not execution.is_forced:
            shelf.cancel(execution, now)


def _key(execution: Execution) -> ExecutionKey:
    return ExecutionKey(execution.instant, execution.is_forced)

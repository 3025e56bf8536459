"""The verbs of `JobEngine`: what changes something goes to the writer, the rest to the readers.

Ticks and progressions are collected over a whole batch (`job_batch.py`), single changes run by themselves
(`job_verbs.py`), reads are in `job_reader.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taskbell.core.instant import Instant
from taskbell.core.job import Execution, Job
from taskbell.engine import ExecutionKey, HistoryFilter, Progression, Tick
from taskbell.engines.sqlite import job_reader, job_verbs
from taskbell.engines.sqlite.batch import Batch
from taskbell.engines.sqlite.rows import ROW_OVERHEAD
from taskbell.engines.sqlite.threads import Threads
from taskbell.engines.sqlite.writer import Operation


@dataclass(slots=True, eq=False)
class TickJobs(Operation):
    """Apply steps of schedules."""

    ticks: Sequence[Tick] = ()

    def run(self, batch: Batch) -> None:
        answers = [True] * len(self.ticks)
        self.outcome = answers
        batch.jobs.tick(self.ticks, answers)


@dataclass(slots=True, eq=False)
class ProgressExecutions(Operation):
    """Record attempts."""

    progressions: Sequence[Progression] = ()

    def run(self, batch: Batch) -> None:
        answers = [True] * len(self.progressions)
        self.outcome = answers
        batch.jobs.progress(self.progressions, answers)


class SqliteJobs(Threads):
    """See `taskbell.engine.JobEngine` for what every verb promises."""

    async def create_job(self, job: Job) -> None:
        """Insert a job."""
        await self._change(lambda batch: job_verbs.create_job(batch, job), len(job.target.body))

    async def update_job(self, name: str, change: Callable[[Job], tuple[Job, Sequence[Execution]]]) -> Job:
        """Replace a job."""
        job: Job = await self._change(lambda batch: job_verbs.update_job(batch, name, change))
        return job

    async def job(self, name: str) -> Job:
        """One job."""
        return await self._read(lambda connection: job_reader.named_job(connection, name))

    async def jobs(self, parent: str, after: str, limit: int) -> list[Job]:
        """Jobs of a location after a name."""
        return await self._read(lambda connection: job_reader.job_page(connection, parent, after, limit))

    async def all_jobs(self) -> list[Job]:
        """Every job."""
        return await self._read(job_reader.all_jobs)

    async def delete_job(self, name: str, now: Instant) -> Job:
        """Remove a job."""
        job: Job = await self._change(lambda batch: job_verbs.delete_job(batch, name, now))
        return job

    async def tick(self, ticks: Sequence[Tick]) -> list[bool]:
        """Apply steps."""
        writer = self._open_writer()
        operation = TickJobs(writer.future(), ROW_OVERHEAD * len(ticks), self._ids.last, ticks=ticks)
        answers: list[bool] = await writer.submit(operation)
        return answers

    async def force(self, execution: Execution) -> bool:
        """Insert a forced execution."""
        is_inserted: bool = await self._change(lambda batch: job_verbs.force(batch, execution))
        return is_inserted

    async def progress(self, progressions: Sequence[Progression]) -> list[bool]:
        """Record attempts."""
        writer = self._open_writer()
        size = ROW_OVERHEAD * len(progressions)
        operation = ProgressExecutions(writer.future(), size, self._ids.last, progressions=progressions)
        answers: list[bool] = await writer.submit(operation)
        return answers

    async def open_executions(self) -> list[Execution]:
        """Every open execution."""
        return await self._read(job_reader.open_executions)

    async def executions(
        self, job: str, before: ExecutionKey | None, limit: int, wanted: HistoryFilter
    ) -> list[Execution]:
        """One page of a job's history."""
        return await self._read(lambda connection: job_reader.execution_page(connection, job, before, limit, wanted))

    async def execution(self, job: str, instant: Instant, *, is_forced: bool) -> Execution:
        """One execution."""
        return await self._read(
            lambda connection: job_reader.one_execution(connection, job, instant, is_forced=is_forced)
        )

    async def sweep_executions(self, before: Instant, limit: int) -> int:
        """Remove what is of deleted jobs or older."""
        removed: int = await self._change(lambda batch: job_verbs.sweep_executions(batch, before, limit))
        return removed

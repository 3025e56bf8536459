"""The storage contract: every verb is one transaction, and hot verbs take lists.

An engine keeps queues, tasks, tombstones, policies and small secrets. The service and the loops know only this page;
`engines/` holds the implementations and `taskbell.testing.engine_suite` judges them all.

Durability: when a verb returns, its effect is on disk (an embedded engine without a disk says so by its name). When the
caller dies before the verb returns, the effect is whole or absent. A verb that raises `Unavailable` or
`ResourceExhausted` had no effect.

Order: verbs that change something take effect in the order in which they were called, and their results are handed out
in that order; so a caller that learns of a delete after a settle knows that the delete was last.

Ids: `next_id` hands out time-ordered integers, larger than every id handed out before, on this file, ever. Tasks are
created with ids taken just before the call, without an await between, so that `purge_queue` can cover exactly the tasks
whose creation was asked for before it.

Purge and queue deletion are O(1): tasks they cover vanish from every verb at once, their rows are removed later by
`sweep` in small batches, and their names stay blocked meanwhile as after a delete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from taskbell.core.errors import TaskbellError
from taskbell.core.instant import EARLIEST, LATEST, Instant, Span
from taskbell.core.job import Disposition, Execution, Job
from taskbell.core.queue import Queue, QueueState
from taskbell.core.task import DueKey, Task


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of one attempt's task.

    `task` is the task as the attempt saw it; `retry` is the task as it shall stand for its next attempt, or None when
    the task is over (success, attempts exhausted).
    """

    task: Task
    retry: Task | None


class Swept(NamedTuple):
    """What one `sweep` removed."""

    expired_tasks: int
    purged_tasks: int
    tombstones: int
    queues: int

    @property
    def total(self) -> int:
        """All rows removed; zero means that nothing was left to do."""
        return sum(self)


@dataclass(frozen=True, slots=True)
class Tick:
    """One step of a job's schedule: what became of instants that came, and the next one.

    It applies only if the stored job still has this id and revision and its next_time is `job.next_time`; so a timer
    that was set before an edit, or a second one for the same instant, changes nothing.
    """

    job: Job
    """As the ticker knows it."""
    executions: tuple[Execution, ...]
    """Rows to insert."""
    next_time: Instant | None


@dataclass(frozen=True, slots=True)
class Progression:
    """How an attempt left its execution. It applies only if the stored execution is open and has fewer attempts.

    One that cancels its execution without a further attempt applies as well: the stored one then has as many.
    """

    execution: Execution
    """As it stands now: replaces the row."""
    next_time: Instant | None = None
    """For end-time intervals, on the end of a run: the job's next instant; set only if the job waits for one."""


class ExecutionKey(NamedTuple):
    """The order of a job's history."""

    instant: Instant
    is_forced: bool


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which rows of a job's history are wanted."""

    among: frozenset[Disposition] = frozenset()
    """Empty: any disposition."""
    since: Instant = EARLIEST
    until: Instant = LATEST
    """Exclusive."""


class JobEngine(Protocol):
    """What an engine keeps for Cloud Scheduler: jobs, and the executions that are their history.

    The primary key of executions is the lock that no bug of ownership can pick: one scheduled instant of one job is
    inserted once, ever.
    """

    async def create_job(self, job: Job) -> None:
        """Store a new job. AlreadyExists, "Job {name} already exists.": a job has the name."""

    async def update_job(self, name: str, change: Callable[[Job], tuple[Job, Sequence[Execution]]]) -> Job:
        """Replace a job by the first part of `change(stored)` and return it; insert the executions of the second part.

        Rows whose key exists stay as they are. When the revision grew, an open scheduled execution that waits for a
        retry (its retry_time is after the job's user_update_time) is CANCELLED with that as its end_time; one whose
        attempt is out goes on. `change` is pure and may raise to refuse. NotFound, "Job not found.": no such job.
        """

    async def job(self, name: str) -> Job:
        """One job. NotFound, "Job not found.": no such job."""

    async def jobs(self, parent: str, after: str, limit: int) -> list[Job]:
        """Jobs of a location in the order of their names, strictly after the name `after`."""

    async def all_jobs(self) -> list[Job]:
        """Every job, for start-up."""

    async def delete_job(self, name: str, now: Instant) -> Job:
        """Remove a job and return it as it was; the name is free at once.

        Its open executions are CANCELLED; its history is no longer listed and goes with the next sweeps. NotFound, "Job
        not found.": no such job.
        """

    async def tick(self, ticks: Sequence[Tick]) -> list[bool]:
        """Apply steps, each whole or not at all; True where it applied.

        A step is refused when the key of any of its executions exists; only a SUPERSEDED row gives way to the new one,
        since an edit may bring an instant back that an earlier edit had dropped.
        """

    async def force(self, execution: Execution) -> bool:
        """Insert a forced execution and set the job's status to None, so that it reads as not attempted.

        False: the job, by id, is gone, or the key exists.
        """

    async def progress(self, progressions: Sequence[Progression]) -> list[bool]:
        """Record attempts; True where the row changed.

        The job's last_attempt_time and status follow its execution's, if the job still has the id and the execution was
        attempted at all.
        """

    async def open_executions(self) -> list[Execution]:
        """Every open execution of every job, for start-up."""

    async def executions(
        self, job: str, before: ExecutionKey | None, limit: int, wanted: HistoryFilter
    ) -> list[Execution]:
        """One page of a job's history, newest first, strictly before the key.

        NotFound: no such job.
        """

    async def execution(self, job: str, instant: Instant, *, is_forced: bool) -> Execution:
        """One row. NotFound: no such job, or "Requested entity was not found."."""

    async def sweep_executions(self, before: Instant, limit: int) -> int:
        """Remove up to `limit` closed executions that are of deleted jobs or older than `before`; return how many."""


class Engine(JobEngine, Protocol):
    """One database. Every method may raise `Unavailable` (try again) or `ResourceExhausted` (disk full)."""

    async def open(self) -> None:
        """Open or create the store and bring its schema up to date.

        Raises `FailedPrecondition` with one clear sentence when another server holds the store or the schema is newer.
        """

    async def close(self) -> None:
        """Commit what was accepted and release the store. Idempotent."""

    def next_id(self, now: Instant) -> int:
        """A new id, larger than all before; positive, below 2**63, about `milliseconds << 21`."""

    # Tasks, hot.

    async def create_tasks(self, tasks: Sequence[Task]) -> list[TaskbellError | None]:
        """Insert each task whose queue exists and whose name is free; one answer per task, None where it was inserted.

        NotFound: no such queue. AlreadyExists: the name is live, or within its tombstone window (two texts), at the
        task's own create_time. Tasks of one call are independent: a refused one does not hold back the others.
        """

    async def settle(self, settlements: Sequence[Settlement], now: Instant) -> list[bool]:
        """Apply outcomes; True where the row changed.

        Over (`retry` is None): the row goes, whatever its counters; a tombstone stays if the caller chose the name.
        Retry: schedule time, counters and last attempt are replaced in one update, only if the row's dispatch_count is
        still below the retry's (so a late answer of an older attempt changes nothing). Rows that are gone, purged, or
        of a deleted queue are left alone: False.
        """

    async def due_tasks(self, queue: str, after: DueKey | None, limit: int, max_bytes: int) -> list[Task]:
        """Up to `limit` tasks of the queue in `due_key` order, strictly after `after`, at least one if there is one,
        stopping once the sum of `Task.size` has passed `max_bytes`. Empty for a queue that does not exist.
        """

    # Tasks, by name.

    async def task(self, queue: str, task_id: str, now: Instant) -> Task:
        """One task. NotFound: no queue; never existed; or existed recently (three texts)."""

    async def tasks(self, queue: str, after: DueKey | None, limit: int, *, bodies: bool) -> list[Task]:
        """One page in `due_key` order. `bodies=False` leaves every body empty. NotFound: no such queue."""

    async def delete_task(self, queue: str, task_id: str, now: Instant) -> Task:
        """Remove one task (tombstone if named) and return it as it was. NotFound as `task`, but one text:
        "Requested entity was not found." for never existed and for tombstoned alike.
        """

    # Queues.

    async def create_queue(self, queue: Queue, now: Instant) -> None:
        """AlreadyExists: it exists. FailedPrecondition: a queue of this name was deleted within its tombstone."""

    async def update_queue(self, name: str, change: Callable[[Queue | None], Queue], now: Instant) -> Queue:
        """Replace a queue by `change(stored or None)` and return it; upsert. `change` is pure and may raise to refuse.

        FailedPrecondition: the name is tombstoned.
        """

    async def queue(self, name: str) -> Queue:
        """One queue. NotFound: missing or tombstoned."""

    async def queues(self, parent: str, after: str, limit: int) -> list[Queue]:
        """Queues of a location in the order of their names (code points), strictly after the name `after`."""

    async def all_queues(self) -> list[Queue]:
        """Every queue, for start-up and metrics."""

    async def set_queue_state(self, name: str, state: QueueState) -> Queue:
        """Pause or resume. NotFound: missing or tombstoned."""

    async def purge_queue(self, name: str, now: Instant) -> tuple[Queue, int]:
        """Remove all tasks whose creation was asked for before this call; set purge_time.

        Returns the queue and the greatest id covered. NotFound: missing or tombstoned.
        """

    async def delete_queue(self, name: str, now: Instant, tombstone: Span) -> None:
        """Remove a queue with its tasks, policy and names; block the name for `tombstone` (0: not at all).

        NotFound ("Requested entity was not found."): missing or tombstoned. A later queue of the same name starts empty
        and with all task names free.
        """

    # Small things.

    async def policy(self, resource: str) -> bytes | None:
        """The serialized google.iam.v1.Policy of a resource, or None."""

    async def set_policy(self, resource: str, policy: bytes, expected: bytes | None) -> bool:
        """Replace a policy; with `expected`, only if that is the stored one (None stands for any). True if replaced."""

    async def record(self, key: str) -> bytes | None:
        """A small keyed record (CMEK configurations, the token issuer's key), or None."""

    async def put_record(self, key: str, value: bytes, *, replace: bool = True) -> bytes:
        """Store a record and return what is stored now; with `replace=False` an existing one stays and is returned."""

    # Upkeep.

    async def sweep(self, now: Instant, limit: int) -> Swept:
        """Remove up to `limit` rows of each kind: tasks past their queue's task_ttl (tombstone if named), tasks of
        purges and deleted queues, tombstones that ended, queue tombstones that ended and have no rows left.
        """

    async def depths(self) -> dict[str, int]:
        """Waiting tasks per queue, possibly a little stale, cheap enough to ask every few seconds."""

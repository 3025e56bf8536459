"""A job: Cloud Scheduler's recurring definition, and an execution: one occurrence of it (wire.md sections 7 and 9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from taskbell.core.instant import HOUR, SECOND, Instant, Span
from taskbell.core.target import AppEngineTarget, HttpTarget, PubsubTarget
from taskbell.core.task import Status

JobTarget = HttpTarget | AppEngineTarget | PubsubTarget


class JobState(StrEnum):
    """Job.State of the wire."""

    ENABLED = "ENABLED"
    PAUSED = "PAUSED"
    DISABLED = "DISABLED"
    UPDATE_FAILED = "UPDATE_FAILED"


@dataclass(frozen=True, slots=True)
class JobRetryConfig:
    """When a failed execution is tried again; the table of wire.md section 9.4 says how the first two combine."""

    retry_count: int = 0
    max_retry_duration: Span = 0
    min_backoff: Span = 5 * SECOND
    max_backoff: Span = HOUR
    max_doublings: int = 5


@dataclass(frozen=True, slots=True)
class Job:
    """A job as stored. `name` is its full resource name.

    `id` is handed out by the engine at creation: a job that is deleted and created again under its name is another job.
    `revision` grows with every change that callers make (update, pause, resume), so that a timer set before it is void.
    """

    id: int
    name: str
    target: JobTarget
    schedule: str
    """As sent."""
    time_zone: str = ""
    """As sent."""
    description: str = ""
    state: JobState = JobState.ENABLED
    retry_config: JobRetryConfig = JobRetryConfig()
    attempt_deadline: Span | None = None
    revision: int = 0
    user_update_time: Instant = 0
    next_time: Instant | None = None
    """The next scheduled instant; None while an end-time interval waits for its run to end."""
    last_attempt_time: Instant | None = None
    status: Status | None = None
    """Of the last attempt that ended; None: none has since the job was created or last run by force."""


class Disposition(StrEnum):
    """What became of a scheduled instant, or why an execution exists."""

    FIRED = "fired"
    """Started on time."""
    LATE = "late"
    """Started after its time: after downtime, or delayed by a running execution."""
    FORCED = "forced"
    """Started by RunJob."""
    SKIPPED_OVERLAP = "skipped_overlap"
    """Another execution, or its wait for a retry, was open."""
    SKIPPED_PAUSED = "skipped_paused"
    MISSED = "missed"
    """The server was down, and another instant or none was made up for."""
    SUPERSEDED = "superseded"
    """An edit replaced the schedule before the instant came."""


STARTED = frozenset({Disposition.FIRED, Disposition.LATE, Disposition.FORCED})


class Progress(StrEnum):
    """Where an execution that started stands."""

    OPEN = "open"
    """An attempt is out or a retry is waited for."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Its retries are spent."""
    CANCELLED = "cancelled"
    """Its job was edited, paused or deleted while it waited for a retry."""
    NONE = "none"
    """It never started."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One row of a job's history. (`job_id`, `disposition is FORCED`, `instant`) is its key."""

    job_id: int
    job: str
    """The job's full name."""
    instant: Instant
    """The scheduled instant; of a forced run the instant of the call, made unique."""
    disposition: Disposition
    progress: Progress = Progress.NONE
    header_time: Instant | None = None
    """What the ScheduleTime header says, the same over all attempts; None: no such header."""
    start_time: Instant | None = None
    """Begin of the first attempt."""
    last_attempt_time: Instant | None = None
    end_time: Instant | None = None
    attempts: int = 0
    failures: int = 0
    """Failed attempts that count against retry_count (App Engine's 503 does not)."""
    retry_time: Instant | None = None
    """When the next attempt is due, while one is waited for."""
    response: int | None = None
    """HTTP status of the last answer."""
    status: Status | None = None
    """Of the last attempt that ended."""
    reason: str = ""
    """One sentence, for people."""

    @property
    def is_forced(self) -> bool:
        """Whether RunJob started it."""
        return self.disposition is Disposition.FORCED

    @property
    def is_open(self) -> bool:
        """Whether more attempts may come."""
        return self.progress is Progress.OPEN

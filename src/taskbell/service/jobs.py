"""Jobs: what Cloud Scheduler's RPCs mean (wire.md section 7)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from taskbell.clock import Clock
from taskbell.core import names
from taskbell.core.app_engine import hosted
from taskbell.core.errors import FailedPrecondition, InvalidArgument, TaskbellError
from taskbell.core.execution import MOST_RETRIES, first_time, forced, has_come, passed_over, superseded
from taskbell.core.headers import headers_size
from taskbell.core.instant import MILLISECOND, Instant, Span, span_text
from taskbell.core.job import Execution, Job, JobRetryConfig, JobState, JobTarget
from taskbell.core.job_headers import stored_job_headers
from taskbell.core.limits import Limits
from taskbell.core.schedule import Schedule, parse_schedule
from taskbell.core.target import (
    APP_ENGINE_BODY_METHODS,
    HTTP_BODY_METHODS,
    AppEngineTarget,
    HttpTarget,
    PubsubTarget,
)
from taskbell.core.url import check_relative_uri, check_url
from taskbell.engine import Engine, ExecutionKey, HistoryFilter
from taskbell.service.scheduling import Scheduling
from taskbell.service.tasks import check_header

APP_ENGINE_METHODS = frozenset({"POST", "GET", "HEAD", "PUT", "DELETE"})


class JobService:
    """The job RPCs over one engine."""

    def __init__(
        self, engine: Engine, scheduling: Scheduling, clock: Clock, limits: Limits, *, forced_header: str
    ) -> None:
        """`forced_header`: which time a forced run's ScheduleTime header says: "next", "now", or "omit"."""
        self._engine = engine
        self._scheduling = scheduling
        self._clock = clock
        self._limits = limits
        self._forced_header = forced_header

    async def create(self, parent: str, job: Job) -> Job:
        """Store a job as a caller asks for it; without a name it gets a random one."""
        names.parse_location(parent)
        name = job.name or f"{parent}/jobs/{secrets.token_hex(10)}"
        names.check_job_under(name, parent)
        now = self._clock.now()
        job = replace(job, name=name, id=self._engine.next_id(now), state=JobState.ENABLED, user_update_time=now)
        job, schedule = self._checked(job)
        job = replace(job, next_time=first_time(schedule, now))
        await self._engine.create_job(job)
        self._scheduling.job_changed(job)
        return job

    async def get(self, name: str) -> Job:
        """One job."""
        names.check_job_name(name)
        return self._scheduling.current(await self._engine.job(name))

    async def page(self, parent: str, after: str, limit: int) -> list[Job]:
        """Jobs of a location by name, after a name."""
        names.parse_location(parent)
        return [self._scheduling.current(job) for job in await self._engine.jobs(parent, after, limit)]

    async def update(self, name: str, change: Callable[[Job], Job]) -> Job:
        """Lay `change` over a stored job; its state stays, its next instant is counted from now."""
        names.check_job_name(name)
        now = self._clock.now()

        def changed(stored: Job) -> tuple[Job, Sequence[Execution]]:
            job = replace(
                change(stored),
                id=stored.id,
                name=stored.name,
                state=stored.state,
                status=stored.status,
                last_attempt_time=stored.last_attempt_time,
                revision=stored.revision + 1,
                user_update_time=now,
            )
            job, schedule = self._checked(job)
            is_rescheduled = (job.schedule, job.time_zone) != (stored.schedule, stored.time_zone)
            # An interval begins again with every update, also because the run it waited for may just have been closed.
            if not is_rescheduled and schedule.is_aligned:
                return replace(job, next_time=stored.next_time), ()
            job = replace(job, next_time=first_time(schedule, now))
            is_dropped = has_come(stored, now) or is_rescheduled
            return job, _superseded(stored, now) if is_dropped and job.next_time != stored.next_time else ()

        return await self._update(name, changed)

    async def pause(self, name: str) -> Job:
        """Stop firing. FailedPrecondition: it is not enabled."""
        return await self._set_state(name, JobState.ENABLED, JobState.PAUSED)

    async def resume(self, name: str) -> Job:
        """Fire again, from now on. FailedPrecondition: it is not paused."""
        return await self._set_state(name, JobState.PAUSED, JobState.ENABLED)

    async def delete(self, name: str) -> None:
        """Remove a job; its name is free at once."""
        names.check_job_name(name)
        self._scheduling.job_deleted(await self._engine.delete_job(name, self._clock.now()))

    async def run(self, name: str) -> Job:
        """Start an execution now, beside whatever runs and whatever the job's state is."""
        names.check_job_name(name)
        job = await self._engine.job(name)
        instant = self._clock.now()
        while True:
            execution = forced(job, instant, self._forced_header_time(job, instant))
            if await self._engine.force(execution):
                break
            job, instant = await self._engine.job(name), instant + 1
        self._scheduling.run(job, execution)
        return self._scheduling.current(replace(job, status=None))

    async def history(
        self, name: str, before: ExecutionKey | None, limit: int, wanted: HistoryFilter
    ) -> list[Execution]:
        """Executions of a job, newest first."""
        names.check_job_name(name)
        return await self._engine.executions(name, before, limit, wanted)

    async def execution(self, name: str, instant: Instant, *, is_forced: bool) -> Execution:
        """What became of one instant."""
        names.check_job_name(name)
        return await self._engine.execution(name, instant, is_forced=is_forced)

    async def _set_state(self, name: str, before: JobState, after: JobState) -> Job:
        names.check_job_name(name)
        now = self._clock.now()

        def changed(stored: Job) -> tuple[Job, Sequence[Execution]]:
            if stored.state is not before:
                raise FailedPrecondition(f"The job is {stored.state.value}: it must be {before.value}.")
            job = replace(stored, state=after, revision=stored.revision + 1, user_update_time=now)
            if after is not JobState.ENABLED:
                return job, ()
            schedule = parse_schedule(stored.schedule, stored.time_zone)
            if has_come(stored, now):
                return replace(job, next_time=first_time(schedule, now)), passed_over(stored, schedule, now)
            # An instant to come stands, also that of an interval, which counts from the end of the run before.
            return replace(job, next_time=stored.next_time or first_time(schedule, now)), ()

        return await self._update(name, changed)

    async def _update(self, name: str, changed: Callable[[Job], tuple[Job, Sequence[Execution]]]) -> Job:
        job = await self._engine.update_job(name, changed)
        self._scheduling.job_changed(job)
        return self._scheduling.current(job)

    def _checked(self, job: Job) -> tuple[Job, Schedule]:
        """The job as stored, and its schedule."""
        schedule = parse_schedule(job.schedule, job.time_zone)
        if len(job.description) > self._limits.description_length:
            raise InvalidArgument(
                f"Job.description must be at most {self._limits.description_length} characters, "
                f"not {len(job.description)}."
            )
        check_job_retry_config(job.retry_config)
        target = checked_job_target(job.target, job.name, self._limits)
        deadline = checked_attempt_deadline(target, job.attempt_deadline, self._limits)
        return replace(job, target=target, attempt_deadline=deadline), schedule

    def _forced_header_time(self, job: Job, now: Instant) -> Instant | None:
        """What the ScheduleTime header of a forced run says; Google documents the next scheduled time."""
        try:
            schedule = parse_schedule(job.schedule, job.time_zone)
        except TaskbellError:
            return None  # A schedule stored by an earlier version that this one refuses.
        if schedule.kind != "unix-cron" or self._forced_header == "omit":
            return None
        return now if self._forced_header == "now" else schedule.next_after(now)


def _superseded(stored: Job, now: Instant) -> tuple[Execution, ...]:
    """The rows of the instants that an edit drops."""
    try:
        schedule = parse_schedule(stored.schedule, stored.time_zone)
    except TaskbellError:
        return ()  # A schedule stored by an earlier version that this one refuses.
    return superseded(stored, schedule, now)


def check_job_retry_config(config: JobRetryConfig) -> None:
    """Refuse retry settings out of range (wire.md section 9.4)."""
    if not 0 <= config.retry_count <= MOST_RETRIES:
        raise InvalidArgument(f"RetryConfig.retryCount must be between 0 and {MOST_RETRIES}, not {config.retry_count}.")
    if config.max_retry_duration < 0:
        raise InvalidArgument("RetryConfig.maxRetryDuration cannot be negative.")
    if config.min_backoff < 0:
        raise InvalidArgument("RetryConfig.minBackoffDuration cannot be negative.")
    if config.max_backoff < 0:
        raise InvalidArgument("RetryConfig.maxBackoffDuration cannot be negative.")
    if config.min_backoff > config.max_backoff:
        raise InvalidArgument("RetryConfig.minBackoffDuration must be less than or equal to maxBackoffDuration.")
    if config.max_doublings < 0:
        raise InvalidArgument("RetryConfig.maxDoublings cannot be negative.")


def checked_job_target(target: JobTarget | None, job_name: str, limits: Limits) -> JobTarget:
    """The target as stored: checked, its headers completed."""
    if target is None:
        raise InvalidArgument("Job.target is not set: expected one of httpTarget, appEngineHttpTarget, pubsubTarget.")
    if isinstance(target, HttpTarget):
        if not target.url:
            raise InvalidArgument("HttpTarget.uri is required.")
        check_url(target.url, limits.url_length)
        _check_payload("HttpTarget", target, HTTP_BODY_METHODS, limits)
    elif isinstance(target, AppEngineTarget):
        if target.method not in APP_ENGINE_METHODS:
            raise InvalidArgument(f"AppEngineHttpTarget.httpMethod cannot be {target.method}.")
        routing = hosted(job_name, target.routing)
        target = replace(target, relative_uri=target.relative_uri or "/", routing=routing)
        check_relative_uri(target.relative_uri, limits.url_length)
        _check_payload("AppEngineHttpTarget", target, APP_ENGINE_BODY_METHODS, limits)
    else:
        _check_pubsub(target, job_name)
        return target
    return replace(target, headers=stored_job_headers(target))


def _check_payload(
    kind: str, target: HttpTarget | AppEngineTarget, body_methods: frozenset[str], limits: Limits
) -> None:
    if target.body and target.method not in body_methods:
        allowed = ", ".join(sorted(body_methods))
        raise InvalidArgument(f"{kind}.body can only be set with the methods {allowed}, not {target.method}.")
    for name, value in target.headers:
        check_header(kind, name, value)
    if headers_size(target.headers) >= limits.headers_size:
        raise InvalidArgument(f"{kind}.headers must be smaller than {limits.headers_size} bytes in total.")


def _check_pubsub(target: PubsubTarget, job_name: str) -> None:
    project = names.split_job_name(job_name).project
    prefix = f"projects/{project}/topics/"
    if not target.topic.startswith(prefix) or "/" in target.topic[len(prefix) :] or target.topic == prefix:
        raise InvalidArgument(f"PubsubTarget.topicName must be formatted: projects/{project}/topics/<TOPIC_ID>.")
    if not target.body and not target.attributes:
        raise InvalidArgument("PubsubTarget needs data or at least one attribute.")


def checked_attempt_deadline(target: JobTarget, deadline: Span | None, limits: Limits) -> Span | None:
    """The attempt deadline as stored; Pub/Sub has none, and App Engine's default is its service's."""
    if isinstance(target, PubsubTarget):
        return deadline
    if isinstance(target, AppEngineTarget):
        longest, deadline = limits.max_app_engine_deadline, deadline or None
    else:
        longest, deadline = limits.max_http_deadline, deadline or limits.default_attempt_deadline
    if deadline is None:
        return None
    if not limits.min_dispatch_deadline <= deadline <= longest:
        bounds = f"[{span_text(limits.min_dispatch_deadline)}, {span_text(longest)}]"
        raise InvalidArgument(f"Job.attemptDeadline must be between {bounds}.")
    return deadline // MILLISECOND * MILLISECOND

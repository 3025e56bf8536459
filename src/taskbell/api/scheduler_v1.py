"""google.cloud.scheduler.v1 messages as core's values and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.cloud import scheduler_v1

from taskbell.api.masks import merged
from taskbell.api.tasks_v2 import fill_routing, fill_token, method_of, routing_of, token_of
from taskbell.api.wire_time import set_instant, set_span, span_of
from taskbell.core.job import Job, JobRetryConfig, JobState, JobTarget
from taskbell.core.target import METHODS, AppEngineTarget, HttpTarget, PubsubTarget

JobMessage: Any = scheduler_v1.Job.pb()
_OUTPUT_ONLY = frozenset({"name", "state", "status", "user_update_time", "schedule_time", "last_attempt_time"})
_STATE_NUMBER = {JobState.ENABLED: 1, JobState.PAUSED: 2, JobState.DISABLED: 3, JobState.UPDATE_FAILED: 4}
_METHOD_NUMBER = {method: number for number, method in enumerate(METHODS, start=1)}
NOT_ATTEMPTED = -1
"""status.code of a job that has not been attempted yet (seen on the real service)."""


def job_of(message: Any) -> Job:
    """A job as sent. Output-only fields are ignored."""
    return Job(
        id=0,
        name=message.name,
        target=target_of(message),
        schedule=message.schedule,
        time_zone=message.time_zone,
        description=message.description,
        retry_config=retry_config_of(message.retry_config),
        attempt_deadline=(
            span_of(message.attempt_deadline, "Job.attemptDeadline") if message.HasField("attempt_deadline") else None
        ),
    )


def target_of(message: Any) -> JobTarget:
    """The target of a job; the service refuses a missing one."""
    kind = message.WhichOneof("target")
    if kind == "http_target":
        target = message.http_target
        return HttpTarget(
            target.uri, method_of(target.http_method), tuple(target.headers.items()), target.body, token_of(target)
        )
    if kind == "app_engine_http_target":
        target = message.app_engine_http_target
        return AppEngineTarget(
            target.relative_uri,
            method_of(target.http_method),
            tuple(target.headers.items()),
            target.body,
            routing_of(target.app_engine_routing),
        )
    if kind == "pubsub_target":
        target = message.pubsub_target
        return PubsubTarget(target.topic_name, target.data, tuple(target.attributes.items()))
    missing: Any = None
    return missing  # type: ignore[no-any-return]  # JobService says what was expected.


def retry_config_of(message: Any) -> JobRetryConfig:
    """Retry settings; absent durations and zero doublings mean the default."""
    default = JobRetryConfig()

    def span(field: str, name: str, otherwise: int) -> int:
        return span_of(getattr(message, field), f"RetryConfig.{name}") if message.HasField(field) else otherwise

    return JobRetryConfig(
        retry_count=message.retry_count,
        max_retry_duration=span("max_retry_duration", "maxRetryDuration", 0),
        min_backoff=span("min_backoff_duration", "minBackoffDuration", default.min_backoff),
        max_backoff=span("max_backoff_duration", "maxBackoffDuration", default.max_backoff),
        max_doublings=message.max_doublings or default.max_doublings,
    )


def job_change(message: Any, paths: Sequence[str]) -> Callable[[Job], Job]:
    """UpdateJob: lay the masked fields of `message` over a stored job. Raises InvalidArgument for a bad mask."""
    merged(JobMessage(), message, paths, _OUTPUT_ONLY)

    def change(stored: Job) -> Job:
        return job_of(merged(job_message(stored), message, paths, _OUTPUT_ONLY))

    return change


def job_message(job: Job) -> Any:
    """A job as the wire shows it: defaults filled in, status -1 before the first attempt has ended."""
    message = JobMessage(
        name=job.name,
        description=job.description,
        schedule=job.schedule,
        time_zone=job.time_zone or "UTC",
        state=_STATE_NUMBER[job.state],
    )
    fill_target(message, job.target)
    fill_retry_config(message.retry_config, job.retry_config)
    if job.attempt_deadline is not None:
        set_span(message.attempt_deadline, job.attempt_deadline)
    set_instant(message.user_update_time, job.user_update_time)
    if job.next_time is not None:
        set_instant(message.schedule_time, job.next_time)
    if job.last_attempt_time is not None:
        set_instant(message.last_attempt_time, job.last_attempt_time)
    message.status.SetInParent()
    message.status.code = NOT_ATTEMPTED if job.status is None else job.status.code
    return message


def fill_target(message: Any, target: JobTarget) -> None:
    """The target as stored; never a bearer."""
    if isinstance(target, PubsubTarget):
        pubsub = message.pubsub_target
        pubsub.topic_name, pubsub.data = target.topic, target.body
        pubsub.attributes.update(target.attributes)
        return
    if isinstance(target, HttpTarget):
        request = message.http_target
        request.uri = target.url
        fill_token(request, target.token)
    else:
        request = message.app_engine_http_target
        request.relative_uri = target.relative_uri
        request.app_engine_routing.SetInParent()
        fill_routing(request.app_engine_routing, target.routing)
    request.http_method = _METHOD_NUMBER[target.method]
    request.headers.update(target.headers)
    request.body = target.body


def fill_retry_config(message: Any, config: JobRetryConfig) -> None:
    """Retry settings as the wire shows them, with every default."""
    message.retry_count = config.retry_count
    message.max_retry_duration.SetInParent()
    set_span(message.max_retry_duration, config.max_retry_duration)
    set_span(message.min_backoff_duration, config.min_backoff)
    message.min_backoff_duration.SetInParent()
    set_span(message.max_backoff_duration, config.max_backoff)
    message.max_backoff_duration.SetInParent()
    message.max_doublings = config.max_doublings

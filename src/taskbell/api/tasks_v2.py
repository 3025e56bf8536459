"""google.cloud.tasks.v2 messages as core's values and back. Nothing here decides; that is the service's part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.cloud import tasks_v2

from taskbell.api.masks import merged
from taskbell.api.wire_time import instant_of, set_instant, set_span, span_of
from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import SECOND
from taskbell.core.queue import Queue, QueueState, RateLimits, RetryConfig
from taskbell.core.target import (
    METHODS,
    AppEngineTarget,
    HttpOverride,
    HttpTarget,
    OAuthToken,
    OidcToken,
    Routing,
    Token,
)
from taskbell.core.task import Task
from taskbell.service.tasks import Draft

VERSION = "v2"
FULL = 2
BASIC = 1

TaskMessage: Any = tasks_v2.Task.pb()
QueueMessage: Any = tasks_v2.Queue.pb()
_QUEUE_OUTPUT_ONLY = frozenset({"name", "state", "purge_time"})
_STATE_NUMBER = {QueueState.RUNNING: 1, QueueState.PAUSED: 2, QueueState.DISABLED: 3}
_METHOD_NUMBER = {method: number for number, method in enumerate(METHODS, start=1)}
_SCHEMES = (None, "http", "https")


def draft_of(message: Any) -> Draft:
    """A task as a caller asks for it. Output-only fields are ignored."""
    kind = message.WhichOneof("message_type")
    target: HttpTarget | AppEngineTarget | None = None
    if kind == "http_request":
        target = http_target_of(message.http_request)
    elif kind == "app_engine_http_request":
        target = app_engine_target_of(message.app_engine_http_request)
    return Draft(
        name=message.name,
        target=target,
        schedule_time=(
            instant_of(message.schedule_time, "Task.scheduleTime") if message.HasField("schedule_time") else None
        ),
        dispatch_deadline=(
            span_of(message.dispatch_deadline, "Task.dispatchDeadline")
            if message.HasField("dispatch_deadline")
            else None
        ),
        retry_config=(
            retry_config_of(message.retry_config, RetryConfig()) if message.HasField("retry_config") else None
        ),
    )


def http_target_of(message: Any) -> HttpTarget:
    """An HTTP target as sent."""
    return HttpTarget(
        url=message.url,
        method=method_of(message.http_method),
        headers=tuple(message.headers.items()),
        body=message.body,
        token=token_of(message),
    )


def app_engine_target_of(message: Any) -> AppEngineTarget:
    """An App Engine target as sent; the routing's host is the server's to say."""
    return AppEngineTarget(
        relative_uri=message.relative_uri,
        method=method_of(message.http_method),
        headers=tuple(message.headers.items()),
        body=message.body,
        routing=routing_of(message.app_engine_routing),
    )


def method_of(number: int) -> str:
    """HttpMethod's name; unspecified means POST."""
    if not 0 <= number <= len(METHODS):
        raise InvalidArgument(f"httpMethod {number} is unknown: expected one of {', '.join(METHODS)}.")
    return METHODS[max(number, 1) - 1]


def routing_of(message: Any) -> Routing:
    """App Engine routing without its output-only host."""
    return Routing(message.service, message.version, message.instance)


def token_of(message: Any) -> Token | None:
    """The authorization of a target or of a queue's override."""
    kind = message.WhichOneof("authorization_header")
    if kind == "oidc_token":
        return OidcToken(message.oidc_token.service_account_email, message.oidc_token.audience)
    if kind == "oauth_token":
        return OAuthToken(message.oauth_token.service_account_email, message.oauth_token.scope)
    return None


def retry_config_of(message: Any, default: RetryConfig) -> RetryConfig:
    """Retry settings; zeros and absent durations mean the default, -1 attempts no limit."""
    attempts = message.max_attempts
    duration = span_of(message.max_retry_duration, "RetryConfig.maxRetryDuration")
    return RetryConfig(
        max_attempts=None if attempts == -1 else attempts or default.max_attempts,
        max_retry_duration=duration or None,
        min_backoff=(
            span_of(message.min_backoff, "RetryConfig.minBackoff")
            if message.HasField("min_backoff")
            else default.min_backoff
        ),
        max_backoff=(
            span_of(message.max_backoff, "RetryConfig.maxBackoff")
            if message.HasField("max_backoff")
            else default.max_backoff
        ),
        max_doublings=message.max_doublings or default.max_doublings,
    )


def queue_of(message: Any, blank: Queue) -> Queue:
    """A queue as sent, over the server's defaults. Output-only fields are ignored."""
    rate, defaults = message.rate_limits, blank.rate_limits
    return Queue(
        name=message.name,
        rate_limits=RateLimits(
            max_dispatches_per_second=rate.max_dispatches_per_second or defaults.max_dispatches_per_second,
            max_burst_size=defaults.max_burst_size,
            max_concurrent_dispatches=rate.max_concurrent_dispatches or defaults.max_concurrent_dispatches,
        ),
        retry_config=retry_config_of(message.retry_config, blank.retry_config),
        routing_override=(
            routing_of(message.app_engine_routing_override) if message.HasField("app_engine_routing_override") else None
        ),
        http_override=http_override_of(message.http_target) if message.HasField("http_target") else None,
        log_sampling_ratio=(
            message.stackdriver_logging_config.sampling_ratio
            if message.HasField("stackdriver_logging_config")
            else None
        ),
        task_ttl=blank.task_ttl,
        tombstone_ttl=blank.tombstone_ttl,
    )


def http_override_of(message: Any) -> HttpOverride:
    """A queue's HTTP target as sent; presence matters, since it says what to override."""
    uri = message.uri_override
    if not 0 <= uri.scheme < len(_SCHEMES):
        raise InvalidArgument(f"UriOverride.scheme {uri.scheme} is unknown: expected HTTP or HTTPS.")
    return HttpOverride(
        has_uri=message.HasField("uri_override"),
        scheme=(_SCHEMES[uri.scheme] or "https") if uri.HasField("scheme") else None,
        host=uri.host if uri.HasField("host") else None,
        port=uri.port if uri.HasField("port") else None,
        path=uri.path_override.path if uri.HasField("path_override") else None,
        query=uri.query_override.query_params if uri.HasField("query_override") else None,
        if_not_exists=None if uri.uri_override_enforce_mode == 0 else uri.uri_override_enforce_mode == 1,
        method=method_of(message.http_method) if message.http_method else None,
        headers=tuple((item.header.key, item.header.value) for item in message.header_overrides),
        token=token_of(message),
    )


def queue_change(message: Any, paths: Sequence[str], blank: Queue) -> Callable[[Queue], Queue]:
    """UpdateQueue: lay the masked fields of `message` over a stored queue. Raises InvalidArgument for a bad mask."""
    merged(QueueMessage(), message, paths, _QUEUE_OUTPUT_ONLY)

    def change(stored: Queue) -> Queue:
        return queue_of(merged(queue_message(stored), message, paths, _QUEUE_OUTPUT_ONLY), blank)

    return change


def queue_message(queue: Queue) -> Any:
    """A queue as the wire shows it."""
    message = QueueMessage(name=queue.name, state=_STATE_NUMBER[queue.state])
    limits = queue.rate_limits
    message.rate_limits.max_dispatches_per_second = limits.max_dispatches_per_second
    message.rate_limits.max_burst_size = limits.max_burst_size
    message.rate_limits.max_concurrent_dispatches = limits.max_concurrent_dispatches
    fill_retry_config(message.retry_config, queue.retry_config)
    if queue.purge_time is not None:
        set_instant(message.purge_time, queue.purge_time)
    if queue.routing_override is not None:
        message.app_engine_routing_override.SetInParent()
        fill_routing(message.app_engine_routing_override, queue.routing_override)
    if queue.log_sampling_ratio is not None:
        message.stackdriver_logging_config.SetInParent()
        message.stackdriver_logging_config.sampling_ratio = queue.log_sampling_ratio
    if queue.http_override is not None:
        message.http_target.SetInParent()
        fill_http_override(message.http_target, queue.http_override)
    return message


def fill_retry_config(message: Any, config: RetryConfig) -> None:
    """Retry settings as the wire shows them: every default filled in, no limit on attempts as -1."""
    message.max_attempts = -1 if config.max_attempts is None else config.max_attempts
    if config.max_retry_duration is not None:
        set_span(message.max_retry_duration, config.max_retry_duration)
    message.min_backoff.SetInParent()
    set_span(message.min_backoff, config.min_backoff)
    message.max_backoff.SetInParent()
    set_span(message.max_backoff, config.max_backoff)
    message.max_doublings = config.max_doublings


def fill_routing(message: Any, routing: Routing) -> None:
    """App Engine routing with the host that the server chose."""
    message.service, message.version, message.instance = routing.service, routing.version, routing.instance
    message.host = routing.host


def fill_token(message: Any, token: Token | None) -> None:
    """The authorization of a target; never the bearer itself."""
    if isinstance(token, OidcToken):
        message.oidc_token.service_account_email = token.service_account_email
        message.oidc_token.audience = token.audience
    elif isinstance(token, OAuthToken):
        message.oauth_token.service_account_email = token.service_account_email
        message.oauth_token.scope = token.scope


def fill_http_override(message: Any, override: HttpOverride) -> None:
    """A queue's HTTP target as it was sent."""
    if override.has_uri:
        uri = message.uri_override
        uri.SetInParent()
        if override.scheme is not None:
            uri.scheme = _SCHEMES.index(override.scheme)
        if override.host is not None:
            uri.host = override.host
        if override.port is not None:
            uri.port = override.port
        if override.path is not None:
            uri.path_override.SetInParent()
            uri.path_override.path = override.path
        if override.query is not None:
            uri.query_override.SetInParent()
            uri.query_override.query_params = override.query
        if override.if_not_exists is not None:
            uri.uri_override_enforce_mode = 1 if override.if_not_exists else 2
    if override.method is not None:
        message.http_method = _METHOD_NUMBER[override.method]
    for key, value in override.headers:
        header = message.header_overrides.add().header
        header.key, header.value = key, value
    fill_token(message, override.token)


def task_message(task: Task, view: int) -> Any:
    """A task in a view: BASIC hides the body."""
    view = FULL if view == FULL else BASIC
    message = TaskMessage(name=task.name, view=view)
    target = task.target
    if isinstance(target, HttpTarget):
        request = message.http_request
        request.url = target.url
        fill_token(request, target.token)
    else:
        request = message.app_engine_http_request
        request.relative_uri = target.relative_uri
        fill_routing(request.app_engine_routing, target.routing)
    request.http_method = _METHOD_NUMBER[target.method]
    headers = request.headers
    for name, value in target.headers:
        headers[name] = value
    if view == FULL:
        request.body = target.body
    set_instant(message.schedule_time, task.schedule_time)
    set_instant(message.create_time, task.create_time // SECOND * SECOND)
    if task.dispatch_deadline is not None:
        set_span(message.dispatch_deadline, task.dispatch_deadline)
    if task.retry_config is not None:
        fill_retry_config(message.retry_config, task.retry_config)
    if task.dispatch_count:
        fill_attempts(message, task)
    return message


def fill_attempts(message: Any, task: Task) -> None:
    """Counters and attempts; of the first attempt only its dispatch time is kept."""
    message.dispatch_count = task.dispatch_count
    message.response_count = task.response_count
    if task.first_dispatch_time is not None:
        set_instant(message.first_attempt.dispatch_time, task.first_dispatch_time)
    last = task.last_attempt
    if last is not None:
        set_instant(message.last_attempt.schedule_time, last.schedule_time)
        set_instant(message.last_attempt.dispatch_time, last.dispatch_time)
        if last.response_time is not None:
            set_instant(message.last_attempt.response_time, last.response_time)
        if last.status is not None:
            message.last_attempt.response_status.code = last.status.code
            message.last_attempt.response_status.message = last.status.message


def stored_size(task: Task) -> int:
    """Bytes of the serialized task in full, which is what the size limit counts."""
    size: int = task_message(task, FULL).ByteSize()
    return size


BatchCreateTasksResponse: Any = tasks_v2.BatchCreateTasksResponse.pb()
BatchCreateTasksMetadata: Any = tasks_v2.BatchCreateTasksMetadata.pb()
BatchDeleteTasksMetadata: Any = tasks_v2.BatchDeleteTasksMetadata.pb()

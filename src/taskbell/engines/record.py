"""Values as text: how engines that keep rows write targets, attempts and queue settings, and read them back exactly.

JSON, ASCII only (so that any database's text type takes it), and only what differs from the defaults. Bodies are not
here: they are bytes and get a column of their own.
"""

from __future__ import annotations

import json
from dataclasses import astuple
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

from taskbell.core.instant import Span
from taskbell.core.job import Job, JobRetryConfig, JobTarget
from taskbell.core.queue import Queue, QueueState, RateLimits, RetryConfig
from taskbell.core.target import (
    AppEngineTarget,
    Headers,
    HttpOverride,
    HttpTarget,
    OAuthToken,
    OidcToken,
    PubsubTarget,
    Routing,
    Token,
)
from taskbell.core.task import Attempt, Status, Task

_JOB_RETRY_CONFIG = JobRetryConfig()
_encode = json.JSONEncoder(separators=(",", ":")).encode


def _plain_request(target: HttpTarget, deadline: Span | None) -> str:
    """The same text as the general way, for the tasks that are created by the thousand, at a tenth of the cost.

    `json` makes an encoder for each call, and the headers of most tasks are the same few.
    """
    url, method = encode_basestring_ascii(target.url), encode_basestring_ascii(target.method)
    end = "}" if deadline is None else f',"dispatch_deadline":{deadline}}}'
    return f'{{"url":{url},"method":{method},"headers":{_headers_text(target.headers)}{end}'


@lru_cache(maxsize=256)
def _headers_text(headers: Headers) -> str:
    return _encode(headers)


def encode_request(task: Task) -> str:
    """What a task asks for, without its body: the target, the deadline, the task's own retry configuration."""
    target = task.target
    if isinstance(target, HttpTarget) and target.token is None and task.retry_config is None:
        return _plain_request(target, task.dispatch_deadline)
    record = _target_record(target)
    if task.dispatch_deadline is not None:
        record["dispatch_deadline"] = task.dispatch_deadline
    if task.retry_config is not None:
        record["retry_config"] = astuple(task.retry_config)
    return _encode(record)


def decode_target(record: dict[str, Any], body: bytes) -> HttpTarget | AppEngineTarget:
    """The target of an encoded request, already parsed, with its body."""
    headers = _headers(record["headers"])
    if "url" in record:
        return HttpTarget(record["url"], record["method"], headers, body, _token(record.get("token")))
    return AppEngineTarget(record["relative_uri"], record["method"], headers, body, Routing(*record["routing"]))


def encode_job_request(job: Job) -> str:
    """What a job asks for, without the body: the target, the deadline, the retry configuration."""
    record = _target_record(job.target)
    if job.attempt_deadline is not None:
        record["attempt_deadline"] = job.attempt_deadline
    if job.retry_config != _JOB_RETRY_CONFIG:
        record["retry_config"] = astuple(job.retry_config)
    return _encode(record)


def decode_job_request(record: dict[str, Any], body: bytes) -> tuple[JobTarget, Span | None, JobRetryConfig]:
    """The target, the deadline and the retry configuration of an encoded job request, already parsed."""
    retry = record.get("retry_config")
    return (
        PubsubTarget(record["topic"], body, _headers(record["attributes"]))
        if "topic" in record
        else decode_target(record, body),
        record.get("attempt_deadline"),
        _JOB_RETRY_CONFIG if retry is None else JobRetryConfig(*retry),
    )


def decode_retry_config(record: dict[str, Any]) -> RetryConfig | None:
    """The task's own retry configuration of an encoded request, already parsed."""
    retry = record.get("retry_config")
    return None if retry is None else RetryConfig(*retry)


def encode_attempt(attempt: Attempt | None) -> str | None:
    """An attempt as text; None stays None."""
    return None if attempt is None else _encode(attempt)


def decode_attempt(record: list[Any] | None) -> Attempt | None:
    """An encoded attempt, already parsed."""
    if record is None:
        return None
    schedule_time, dispatch_time, response_time, status = record
    return Attempt(schedule_time, dispatch_time, response_time, None if status is None else Status(*status))


def encode_settings(queue: Queue) -> str:
    """What a queue's columns do not hold: pacing, retries, overrides, logging."""
    record: dict[str, Any] = {
        "rate_limits": astuple(queue.rate_limits),
        "retry_config": astuple(queue.retry_config),
    }
    if queue.routing_override is not None:
        record["routing_override"] = astuple(queue.routing_override)
    if queue.http_override is not None:
        record["http_override"] = _override_record(queue.http_override)
    if queue.log_sampling_ratio is not None:
        record["log_sampling_ratio"] = queue.log_sampling_ratio
    return _encode(record)


def decode_queue(columns: tuple[str, str, int | None, int, int, str]) -> Queue:
    """A queue of its name, state, purge_time, task_ttl, tombstone_ttl and encoded settings."""
    name, state, purge_time, task_ttl, tombstone_ttl, settings = columns
    record = json.loads(settings)
    routing = record.get("routing_override")
    override = record.get("http_override")
    return Queue(
        name,
        RateLimits(*record["rate_limits"]),
        RetryConfig(*record["retry_config"]),
        QueueState(state),
        purge_time,
        None if routing is None else Routing(*routing),
        None if override is None else _override(override),
        record.get("log_sampling_ratio"),
        task_ttl,
        tombstone_ttl,
    )


def _target_record(target: JobTarget) -> dict[str, Any]:
    if isinstance(target, PubsubTarget):
        return {"topic": target.topic, "attributes": target.attributes}
    record: dict[str, Any]
    if isinstance(target, HttpTarget):
        record = {"url": target.url, "method": target.method, "headers": target.headers}
        if target.token is not None:
            record["token"] = _token_record(target.token)
    else:
        record = {"relative_uri": target.relative_uri, "method": target.method, "headers": target.headers}
        record["routing"] = astuple(target.routing)
    return record


def _headers(record: list[list[str]]) -> Headers:
    return tuple((name, value) for name, value in record)


def _token_record(token: Token) -> list[str]:
    if isinstance(token, OidcToken):
        return ["oidc", token.service_account_email, token.audience]
    return ["oauth", token.service_account_email, token.scope]


def _token(record: list[str] | None) -> Token | None:
    if record is None:
        return None
    kind, email, aim = record
    return OidcToken(email, aim) if kind == "oidc" else OAuthToken(email, aim)


def _override_record(override: HttpOverride) -> dict[str, Any]:
    return {
        "uri": (override.scheme, override.host, override.port, override.path, override.query),
        "if_not_exists": override.if_not_exists,
        "has_uri": override.has_uri,
        "method": override.method,
        "headers": override.headers,
        "token": None if override.token is None else _token_record(override.token),
    }


def _override(record: dict[str, Any]) -> HttpOverride:
    scheme, host, port, path, query = record["uri"]
    return HttpOverride(
        scheme,
        host,
        port,
        path,
        query,
        if_not_exists=record["if_not_exists"],
        has_uri=record["has_uri"],
        method=record["method"],
        headers=_headers(record["headers"]),
        token=_token(record["token"]),
    )

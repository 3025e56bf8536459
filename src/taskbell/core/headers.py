"""The exact headers a dispatch carries (wire.md section 5.4), and which of the caller's are kept."""

from __future__ import annotations

import hashlib

from taskbell.core.instant import decimal_seconds
from taskbell.core.target import Headers, HttpTarget
from taskbell.core.task import Task

HTTP_USER_AGENT = "Google-Cloud-Tasks"
APP_ENGINE_USER_AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"
_COMPUTED = frozenset({"host", "content-length", "user-agent", "transfer-encoding", "connection"})
_TASK_PREFIXES = ("x-google-", "x-appengine-", "x-cloudtasks-")
JOB_PREFIXES = ("x-google-", "x-appengine-", "x-cloudscheduler")


def is_reserved(name: str, prefixes: tuple[str, ...] = _TASK_PREFIXES) -> bool:
    """Whether a caller's header is the service's to set: forged ones are dropped in any case of letters."""
    lower = name.lower()
    return lower in _COMPUTED or lower.startswith(prefixes)


def stored_http_headers(headers: Headers) -> Headers:
    """What an HTTP task keeps: the caller's headers with their casing, and the service's User-Agent."""
    kept = [(name, value) for name, value in headers if not is_reserved(name)]
    kept.append(("User-Agent", HTTP_USER_AGENT))
    return tuple(kept)


def stored_app_engine_headers(headers: Headers, body: bytes) -> Headers:
    """What an App Engine task keeps: the caller's User-Agent first; with a body also its length and a type."""
    agents = [value for name, value in headers if name.lower() == "user-agent"]
    kept = [(name, value) for name, value in headers if not is_reserved(name)]
    kept.append(("User-Agent", " ".join([*agents, APP_ENGINE_USER_AGENT])))
    if body:
        kept.append(("Content-Length", str(len(body))))
        if not any(name.lower() == "content-type" for name, _ in headers):
            kept.append(("Content-Type", "application/octet-stream"))
    return tuple(kept)


def headers_size(headers: Headers) -> int:
    """Bytes of all names and values."""
    return sum(len(name.encode()) + len(value.encode()) for name, value in headers)


def idempotency_key(task: Task) -> str:
    """One key for all attempts of one task, and for no other task ever: the id tells apart tasks that reuse a name."""
    return hashlib.sha256(f"{task.name}/{task.id}".encode()).hexdigest()[:32]


def dispatch_headers(task: Task, headers: Headers, bearer: str | None) -> Headers:
    """The headers of an attempt that is out; Host and Content-Length are the sender's.

    `task` is as `core.attempt.dispatched` left it; `headers` are its target's, with what its queue lays over them.
    """
    # Ours, unless the task's creator chose one: that one is never overwritten.
    has_key = any(len(name) == 15 and name.lower() == "idempotency-key" for name, _ in headers)
    key = () if has_key else (("Idempotency-Key", idempotency_key(task)),)
    if isinstance(task.target, HttpTarget):
        if bearer is not None:
            headers = (
                *(pair for pair in headers if pair[0].lower() != "authorization"),
                ("Authorization", f"Bearer {bearer}"),
            )
        return (*headers, *_service_headers("X-CloudTasks-", task), *_http_retry_headers(task), *key)
    kept = (pair for pair in headers if pair[0] != "Content-Length")
    return (*kept, *_service_headers("X-AppEngine-", task), *_app_engine_retry_headers(task), *key)


def _service_headers(prefix: str, task: Task) -> Headers:
    return (
        (prefix + "QueueName", task.queue[task.queue.rindex("/") + 1 :]),
        (prefix + "TaskName", task.task_id),
        (prefix + "TaskRetryCount", str(task.dispatch_count - 1)),
        (prefix + "TaskExecutionCount", str(task.execution_count)),
        (prefix + "TaskETA", decimal_seconds(task.schedule_time)),
    )


def _http_retry_headers(task: Task) -> Headers:
    if task.previous_response is None:
        return ()
    return (
        ("X-CloudTasks-TaskPreviousResponse", str(task.previous_response)),
        ("X-CloudTasks-TaskRetryReason", ""),
    )


def _app_engine_retry_headers(task: Task) -> Headers:
    if task.previous_response is None:
        return ()
    return (
        ("X-AppEngine-TaskPreviousResponse", str(task.previous_response)),
        ("X-AppEngine-TaskRetryReason", "App Error" if task.previous_response else "Instance Unavailable"),
    )

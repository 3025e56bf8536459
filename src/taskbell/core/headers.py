"""The exact headers a dispatch carries (wire.md section 5.4), and which of the caller's are kept."""

from __future__ import annotations

import hashlib

from taskbell.core.instant import decimal_seconds
from taskbell.core.target import Headers, HttpTarget
from taskbell.core.task import Task

HTTP_USER_AGENT = "Google-Cloud-Tasks"
APP_ENGINE_USER_AGENT = "AppEngine-Google; (+http://code.google.com/appengine)"
_COMPUTED = frozenset({"host", "content-length", "user-agent", "transfer-encoding", "connection"})
_RESERVED_PREFIXES = ("x-google-", "x-appengine-", "x-cloudtasks-")


def is_reserved(name: str) -> bool:
    """Whether a caller's header is the service's to set: forged ones are dropped in any case of letters."""
    lower = name.lower()
    return lower in _COMPUTED or lower.startswith(_RESERVED_PREFIXES)


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


def dispatch_headers(task: Task, bearer: str | None) -> Headers:
    """The headers of the attempt that `task` is about to make; Host and Content-Length are the sender's."""
    if isinstance(task.target, HttpTarget):
        return _http_headers(task, bearer)
    return _app_engine_headers(task)


def _http_headers(task: Task, bearer: str | None) -> Headers:
    headers = list(task.target.headers)
    if bearer is not None:
        headers = [(name, value) for name, value in headers if name.lower() != "authorization"]
        headers.append(("Authorization", f"Bearer {bearer}"))
    headers += _service_headers("X-CloudTasks-", task)
    if task.previous_response is not None:
        headers.append(("X-CloudTasks-TaskPreviousResponse", str(task.previous_response)))
        headers.append(("X-CloudTasks-TaskRetryReason", ""))
    return _with_key(headers, task)


def _app_engine_headers(task: Task) -> Headers:
    headers = [(name, value) for name, value in task.target.headers if name != "Content-Length"]
    headers += _service_headers("X-AppEngine-", task)
    if task.previous_response is not None:
        reason = "App Error" if task.previous_response else "Instance Unavailable"
        headers.append(("X-AppEngine-TaskPreviousResponse", str(task.previous_response)))
        headers.append(("X-AppEngine-TaskRetryReason", reason))
    return _with_key(headers, task)


def _service_headers(prefix: str, task: Task) -> list[tuple[str, str]]:
    return [
        (prefix + "QueueName", task.queue[task.queue.rindex("/") + 1 :]),
        (prefix + "TaskName", task.task_id),
        (prefix + "TaskRetryCount", str(task.dispatch_count)),
        (prefix + "TaskExecutionCount", str(task.execution_count)),
        (prefix + "TaskETA", decimal_seconds(task.schedule_time)),
    ]


def _with_key(headers: list[tuple[str, str]], task: Task) -> Headers:
    """Ours, unless the task's creator chose one: that one is never overwritten."""
    if not any(name.lower() == "idempotency-key" for name, _ in headers):
        headers.append(("Idempotency-Key", idempotency_key(task)))
    return tuple(headers)

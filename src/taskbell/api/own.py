"""Calls that Google lacks, under `/taskbell/v1/`: the history of a job, why an instant went as it did, previews.

    GET /taskbell/v1/{job's full name}/executions?outcome=&since=&until=&pageSize=&pageToken=
    GET /taskbell/v1/{job's full name}/executions/{instant}:why[?forced=true]
    GET /taskbell/v1/schedules:preview?schedule=&timeZone=&after=&count=
    GET /taskbell/v1/retries:preview?retryCount=&maxRetryDuration=&...

They answer JSON, and refusals in Google's error body.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import structlog

from taskbell.api.asgi import Receive, Scope, Send, respond
from taskbell.api.errors import HTTP_STATUS, rest_body
from taskbell.api.time_text import duration_nanos, timestamp_nanos
from taskbell.core.errors import Internal, InvalidArgument, NotFound, TaskbellError, Unimplemented
from taskbell.core.execution import retry_waits
from taskbell.core.instant import EARLIEST, LATEST, SECOND, Instant, Span, rfc3339
from taskbell.core.job import Disposition, Execution, JobRetryConfig, Progress
from taskbell.core.paging import cursor_of, page_size, page_token
from taskbell.core.queue import RetryConfig
from taskbell.core.retry import waits
from taskbell.core.schedule import fires, parse_schedule
from taskbell.engine import ExecutionKey, HistoryFilter
from taskbell.service.jobs import check_job_retry_config
from taskbell.service.queues import check_retry_config
from taskbell.service.services import Services

log = structlog.get_logger("taskbell.own")

PREFIX = "/taskbell/v1/"
_PAGE = 500
_PREVIEWED = 1000
_EXECUTIONS = re.compile(r"(?P<job>projects/[^/]+/locations/[^/]+/jobs/[^/]+)/executions(?:/(?P<instant>[^/]+):why)?")
_JSON = ((b"content-type", b"application/json; charset=UTF-8"), (b"x-content-type-options", b"nosniff"))

Query = Mapping[str, str]


class OwnCalls:
    """Answers GET below the prefix."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One call."""
        status = 200
        try:
            answer = await self._answer(scope)
        except TaskbellError as refusal:
            status, answer = HTTP_STATUS[refusal.code], rest_body(refusal)
        except Exception:
            log.exception("call.failed", path=scope["path"])
            status, answer = 500, rest_body(Internal("Internal error: see the server's log."))
        await respond(send, status, json.dumps(answer).encode(), _JSON)

    async def _answer(self, scope: Scope) -> dict[str, Any]:
        if scope["method"] != "GET":
            raise Unimplemented(f"{scope['method']} is not known here: use GET.")
        query = _query_of(scope)
        path = scope["path"][len(PREFIX) :]
        # Previews take up to a few seconds for schedules that seldom fire; other callers need not wait for them.
        if path == "schedules:preview":
            return await asyncio.to_thread(preview_schedule, query, self._services.clock.now())
        if path == "retries:preview":
            return await asyncio.to_thread(preview_retries, query)
        match = _EXECUTIONS.fullmatch(path)
        if match is None:
            raise NotFound(f"The path {scope['path']} is not known.")
        if match["instant"] is None:
            return await self._history(match["job"], query)
        return await self._why(match["job"], match["instant"], query)

    async def _history(self, job: str, query: Query) -> dict[str, Any]:
        """One page of a job's executions, newest first."""
        _check_names(query, "outcome", "since", "until", "pageSize", "pageToken")
        now, limits = self._services.clock.now(), self._services.limits
        scope = "\n".join(("executions", job, query.get("outcome", ""), query.get("since", ""), query.get("until", "")))
        cursor = cursor_of(query.get("pageToken", ""), scope, now)
        size = page_size(_whole(query, "pageSize", 0), _PAGE)
        wanted = HistoryFilter(
            among=_dispositions(query.get("outcome", "")),
            since=_instant(query, "since", EARLIEST),
            until=_instant(query, "until", LATEST),
        )
        before = ExecutionKey(*cursor) if cursor else None
        executions = await self._services.jobs.history(job, before, size + 1, wanted)
        answer: dict[str, Any] = {"executions": [execution_json(execution) for execution in executions[:size]]}
        if len(executions) > size:
            last = executions[size - 1]
            expire_time = now + limits.page_token_life
            answer["nextPageToken"] = page_token([last.instant, last.is_forced], scope, expire_time)
        return answer

    async def _why(self, job: str, text: str, query: Query) -> dict[str, Any]:
        """One sentence about one instant."""
        _check_names(query, "forced")
        instant = _instant({"instant": text}, "instant", 0)
        if (forced := query.get("forced", "false")) not in {"true", "false"}:
            raise InvalidArgument(f"forced is {forced!r}: expected true or false.")
        execution = await self._services.jobs.execution(job, instant, is_forced=forced == "true")
        return {"why": sentence(execution), "execution": execution_json(execution)}


def preview_schedule(query: Query, now: Instant) -> dict[str, Any]:
    """The next fires of a schedule; of an end-time interval, as if every run were instant."""
    _check_names(query, "schedule", "timeZone", "after", "count")
    schedule = parse_schedule(query.get("schedule", ""), query.get("timeZone", ""))
    count = _whole(query, "count", 10)
    if not 0 < count <= _PREVIEWED:
        raise InvalidArgument(f"count must be a whole number from 1 to {_PREVIEWED}, not {count}.")
    found = fires(schedule, _instant(query, "after", now), count)
    return {"kind": schedule.kind, "fires": [rfc3339(instant) for instant in found]}


def preview_retries(query: Query) -> dict[str, Any]:
    """The waits before each retry, in seconds, if every attempt failed at once; of a job's or of a queue's settings."""
    job_fields = {"retryCount", "minBackoffDuration", "maxBackoffDuration"}
    queue_fields = {"maxAttempts", "minBackoff", "maxBackoff"}
    _check_names(query, "maxRetryDuration", "maxDoublings", "count", *job_fields, *queue_fields)
    if job_fields & query.keys() and queue_fields & query.keys():
        raise InvalidArgument("Name the fields of a job's retryConfig or those of a queue's, not both.")
    most = _whole(query, "count", 100)
    if not 0 < most <= _PREVIEWED:
        raise InvalidArgument(f"count must be a whole number from 1 to {_PREVIEWED}, not {most}.")
    if queue_fields & query.keys():
        return {"waits": _seconds(waits(_queue_config(query), most))}
    return {"waits": _seconds(retry_waits(_job_config(query), most))}


def _job_config(query: Query) -> JobRetryConfig:
    default = JobRetryConfig()
    config = JobRetryConfig(
        retry_count=_whole(query, "retryCount", 0),
        max_retry_duration=_span(query, "maxRetryDuration", 0),
        min_backoff=_span(query, "minBackoffDuration", default.min_backoff),
        max_backoff=_span(query, "maxBackoffDuration", default.max_backoff),
        max_doublings=_whole(query, "maxDoublings", 0) or default.max_doublings,
    )
    check_job_retry_config(config)
    return config


def _queue_config(query: Query) -> RetryConfig:
    default = RetryConfig()
    attempts = _whole(query, "maxAttempts", 0)
    config = RetryConfig(
        max_attempts=None if attempts == -1 else attempts or default.max_attempts,
        max_retry_duration=_span(query, "maxRetryDuration", 0) or None,
        min_backoff=_span(query, "minBackoff", default.min_backoff),
        max_backoff=_span(query, "maxBackoff", default.max_backoff),
        max_doublings=_whole(query, "maxDoublings", 0) or default.max_doublings,
    )
    check_retry_config(config)
    return config


def _seconds(spans: list[Span]) -> list[float]:
    return [span // SECOND if span % SECOND == 0 else span / SECOND for span in spans]


def execution_json(execution: Execution) -> dict[str, Any]:
    """A row of the history; what does not apply is left out."""
    shown = {
        "instant": rfc3339(execution.instant),
        "outcome": execution.disposition.value,
        "progress": execution.progress.value,
        "startTime": _text(execution.start_time),
        "lastAttemptTime": _text(execution.last_attempt_time),
        "nextAttemptTime": _text(execution.retry_time),
        "endTime": _text(execution.end_time),
        "attempts": execution.attempts,
        "response": execution.response,
        "status": execution.status and {"code": execution.status.code, "message": execution.status.message},
        "reason": sentence(execution),
    }
    return {key: value for key, value in shown.items() if value is not None}


_SAID = {
    Disposition.FIRED: "It fired on time.",
    Disposition.LATE: "It fired late.",
    Disposition.FORCED: "It was run by force.",
}


_ENDED = {
    Progress.NONE: "",
    Progress.OPEN: "It has not ended.",
    Progress.SUCCEEDED: "It succeeded.",
    Progress.FAILED: "It failed.",
    Progress.CANCELLED: "It was cancelled, since its job was changed or deleted.",
}


def sentence(execution: Execution) -> str:
    """Why the instant went as it did."""
    reason = execution.reason or _SAID.get(execution.disposition, "")
    return f"{reason} {_ENDED[execution.progress]}".strip()


def _text(instant: Instant | None) -> str | None:
    return None if instant is None else rfc3339(instant)


def _query_of(scope: Scope) -> dict[str, str]:
    text = scope.get("query_string", b"").decode("latin-1")
    pairs = parse_qsl(text, keep_blank_values=True)
    query: dict[str, str] = {}
    for name, value in pairs:
        if name in query:
            raise InvalidArgument(f"The query has {name!r} twice.")
        query[name] = value
    return query


def _check_names(query: Query, *known: str) -> None:
    for name in query:
        if name not in known:
            raise InvalidArgument(f"The query has {name!r}: expected {', '.join(sorted(known))}.")


def _whole(query: Query, name: str, default: int) -> int:
    text = query.get(name)
    if text is None or text == "":
        return default
    if not text.removeprefix("-").isdecimal() or len(text) > 12:
        raise InvalidArgument(f"{name} is {text!r}: expected a whole number.")
    return int(text)


def _instant(query: Query, name: str, default: Instant) -> Instant:
    text = query.get(name)
    if text is None:
        return default
    # The plus of an offset, not encoded, arrives as a space.
    nanos = timestamp_nanos(text.replace(" ", "+"))
    if nanos is None:
        raise InvalidArgument(f"{name} is {text!r}: expected a time of RFC 3339, such as 2027-03-14T07:00:00Z.")
    return nanos // 1000


def _span(query: Query, name: str, default: Span) -> Span:
    text = query.get(name)
    if text is None:
        return default
    nanos = duration_nanos(text)
    if nanos is None:
        raise InvalidArgument(f"{name} is {text!r}: expected seconds with an s, such as 10s or 0.5s.")
    return nanos // 1000


def _dispositions(text: str) -> frozenset[Disposition]:
    try:
        return frozenset(Disposition(word) for word in text.split(",") if word)
    except ValueError:
        known = ", ".join(item.value for item in Disposition)
        raise InvalidArgument(f"outcome is {text!r}: expected some of {known}.") from None

"""Tasks: what the task RPCs mean (wire.md sections 4.7 to 4.11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from taskbell.clock import Clock
from taskbell.core import names
from taskbell.core.app_engine import hosted
from taskbell.core.errors import REQUESTED_ENTITY_NOT_FOUND, InvalidArgument, NotFound, TaskbellError
from taskbell.core.headers import headers_size, stored_app_engine_headers, stored_http_headers
from taskbell.core.instant import SECOND, Instant, Span, rfc3339, span_text, to_datetime
from taskbell.core.limits import Limits
from taskbell.core.queue import RetryConfig
from taskbell.core.target import (
    APP_ENGINE_BODY_METHODS,
    HTTP_BODY_METHODS,
    AppEngineTarget,
    HttpTarget,
    OidcToken,
    Target,
)
from taskbell.core.task import DueKey, Task
from taskbell.core.url import check_relative_uri, check_url
from taskbell.engine import Engine
from taskbell.events import Events, TaskCreated
from taskbell.service.dispatch import Dispatch
from taskbell.service.queues import check_retry_config

PAGE_BYTES = 2 << 20
"""Bytes of bodies after which a page ends; with one task more it stays below the 4 MiB that gRPC clients accept."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A task as a caller asks for it, before the service has completed it."""

    name: str
    target: Target | None
    schedule_time: Instant | None = None
    dispatch_deadline: Span | None = None
    retry_config: RetryConfig | None = None


class TaskService:
    """The task RPCs over one engine."""

    def __init__(self, engine: Engine, dispatch: Dispatch, clock: Clock, limits: Limits, events: Events) -> None:
        self._engine = engine
        self._dispatch = dispatch
        self._clock = clock
        self._limits = limits
        self._events = events

    def prepare(self, parent: str, draft: Draft) -> Task:
        """Check a draft and complete it to the task that will be stored. Raises InvalidArgument."""
        names.check_queue_name(parent)
        chosen = names.chosen_task_id(draft.name, parent) if draft.name else None
        if draft.target is None:
            raise InvalidArgument("Task.payload_type is not set.")
        now = self._clock.now()
        schedule_time = draft.schedule_time if draft.schedule_time and draft.schedule_time > now else now
        if schedule_time - now > self._limits.schedule_horizon:
            raise InvalidArgument(self._too_far(schedule_time))
        target = checked_target(draft.target, self._limits)
        if isinstance(target, AppEngineTarget):
            target = replace(target, routing=hosted(parent, target.routing))
        if draft.retry_config is not None:
            check_retry_config(draft.retry_config)
        new_id = self._engine.next_id(now)
        return Task(
            id=new_id,
            queue=parent,
            task_id=chosen or str(new_id),
            named=chosen is not None,
            target=target,
            schedule_time=schedule_time,
            create_time=now,
            dispatch_deadline=checked_deadline(target, draft.dispatch_deadline, self._limits),
            retry_config=draft.retry_config,
        )

    async def create(self, tasks: Sequence[Task]) -> list[TaskbellError | None]:
        """Store prepared tasks; called without an await after `prepare`. One answer per task, None where stored."""
        answers = await self._engine.create_tasks(tasks)
        stored = [task for task, answer in zip(tasks, answers, strict=True) if answer is None]
        self._dispatch.offer(stored)
        for task in stored:
            self._events.emit(TaskCreated(task))
        return answers

    async def get(self, name: str) -> Task:
        """One task, with the attempt that is out right now."""
        queue, task_id = names.split_task_name(name)
        return self._dispatch.current(await self._engine.task(queue, task_id, self._clock.now()))

    async def page(self, parent: str, after: DueKey | None, limit: int, *, bodies: bool) -> tuple[list[Task], bool]:
        """One page of a queue's tasks, earliest first, and whether there are more.

        With bodies a page ends early once it has passed `PAGE_BYTES`, so that clients can receive it.
        """
        names.check_queue_name(parent)
        if bodies:
            await self._engine.queue(parent)
            tasks = await self._engine.due_tasks(parent, after, limit, PAGE_BYTES)
        else:
            tasks = await self._engine.tasks(parent, after, limit, bodies=False)
        has_more = bool(tasks) and bool(await self._engine.tasks(parent, tasks[-1].due_key, 1, bodies=False))
        return [self._dispatch.current(task) for task in tasks], has_more

    async def delete(self, name: str) -> None:
        """Remove a task; an attempt that is out is not recalled and its outcome is ignored."""
        queue, task_id = names.split_task_name(name)
        self._dispatch.forget(await self._engine.delete_task(queue, task_id, self._clock.now()))

    async def run(self, name: str) -> Task:
        """Dispatch a task now, whatever its time and its queue's state."""
        queue, task_id = names.split_task_name(name)

        async def read() -> Task:
            try:
                return await self._engine.task(queue, task_id, self._clock.now())
            except NotFound as gone:
                raise NotFound(REQUESTED_ENTITY_NOT_FOUND) from gone

        return await self._dispatch.run(queue, read)

    def _too_far(self, schedule_time: Instant) -> str:
        text = rfc3339(schedule_time, _pacific_offset(schedule_time))
        return (
            f"The Task.scheduleTime, {text}, is too far in the future. "
            f"Schedule time must be no more than {span_text(self._limits.schedule_horizon)} in the future."
        )


def checked_target(target: Target, limits: Limits) -> Target:
    """The target as stored: checked, its headers completed."""
    if isinstance(target, HttpTarget):
        check_url(target.url, limits.url_length)
        _check_payload("HttpRequest", target, HTTP_BODY_METHODS, limits)
        if target.token is not None and not target.token.service_account_email:
            kind = "oidcToken" if isinstance(target.token, OidcToken) else "oauthToken"
            raise InvalidArgument(f"HttpRequest.{kind}.serviceAccountEmail is required.")
        headers = stored_http_headers(target.headers)
        return HttpTarget(target.url, target.method, headers, target.body, target.token)
    relative_uri = target.relative_uri or "/"
    check_relative_uri(relative_uri, limits.url_length)
    _check_payload("AppEngineHttpRequest", target, APP_ENGINE_BODY_METHODS, limits)
    return replace(target, relative_uri=relative_uri, headers=stored_app_engine_headers(target.headers, target.body))


def _check_payload(kind: str, target: Target, body_methods: frozenset[str], limits: Limits) -> None:
    if target.body and target.method not in body_methods:
        allowed = ", ".join(sorted(body_methods))
        raise InvalidArgument(f"{kind}.body can only be set with the methods {allowed}, not {target.method}.")
    for name, value in target.headers:
        check_header(kind, name, value)
    if headers_size(target.headers) >= limits.headers_size:
        raise InvalidArgument(f"{kind}.headers must be smaller than {limits.headers_size} bytes in total.")


_TOKEN_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def check_header(kind: str, name: str, value: str) -> None:
    """Refuse what could never be sent as a header field (RFC 9110 section 5)."""
    if not name or not _TOKEN_CHARACTERS.issuperset(name):
        raise InvalidArgument(f"{kind}.headers has an invalid name {name!r}: expected letters, digits and hyphens.")
    if any(character in "\r\n\0" for character in value):
        raise InvalidArgument(f"{kind}.headers has an invalid value for {name!r}: line breaks are not allowed.")


def checked_deadline(target: Target, deadline: Span | None, limits: Limits) -> Span | None:
    """The dispatch deadline as stored: HTTP tasks have a default, App Engine tasks leave it to their service."""
    if isinstance(target, AppEngineTarget):
        longest, deadline = limits.max_app_engine_deadline, deadline or None
    else:
        longest, deadline = limits.max_http_deadline, limits.default_http_deadline if deadline is None else deadline
    if deadline is None:
        return None
    if not limits.min_dispatch_deadline <= deadline <= longest:
        bounds = f"[{span_text(limits.min_dispatch_deadline)}, {span_text(longest)}]"
        raise InvalidArgument(f"Task.dispatchDeadline must be between {bounds}.")
    return deadline // 1000 * 1000


def _pacific_offset(instant: Instant) -> Span:
    """US Pacific time's offset, in which the real service prints; UTC where the machine has no zone data."""
    try:
        offset = to_datetime(instant).astimezone(ZoneInfo("America/Los_Angeles")).utcoffset()
    except ZoneInfoNotFoundError:
        return 0
    return 0 if offset is None else int(offset.total_seconds()) * SECOND

"""From a delivery to its key: one key for all deliveries of one piece of work, and for no other.

The rule, in this order (the first that applies):

1. the handler's own function;
2. the `Idempotency-Key` header: Taskbell's own, or what the task's creator or the calling service set;
3. Cloud Scheduler's headers: sha256 of `JobName/ScheduleTime`, as the guide's sample has it, or of
   `namespace/JobName/ScheduleTime` when a namespace is given, since a job's name is unique in its location only;
4. Cloud Tasks' headers, over HTTP or from App Engine: queue and task name.

Header names are compared without case, because each server and proxy writes them its own way. What is missing, empty,
half there or there twice with different values is a MissingKeyError, to be answered 400: it never becomes a key that
other deliveries would share. Nothing here is authenticated: check the caller first (`idempotency/verify.py`).

All keys are sha256 in hexadecimal, so that every store takes them. Those of rules 1, 2 and 4 hash a tagged list, so
that no header can be chosen to give another rule's key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qs

from taskbell.idempotency.errors import MissingKeyError
from taskbell.idempotency.store import KEY_LENGTH_MAX

Pairs = tuple[tuple[str, str], ...]


class Kind(StrEnum):
    """What sent a delivery, as far as its headers tell."""

    SCHEDULER = "scheduler"
    TASKS = "tasks"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Key:
    """What de-duplicates a delivery."""

    text: str
    """The key in the store."""
    source: str
    """Where it came from, for logs: `Idempotency-Key abc`, `job report at 2026-…`."""
    kind: Kind = Kind.OTHER
    """What sent the delivery, which says how long it may take and how long it may come again."""

    def __post_init__(self) -> None:
        """Refuse what some store would not take."""
        if not 0 < len(self.text) <= KEY_LENGTH_MAX or "/" in self.text or not all("!" <= c <= "~" for c in self.text):
            raise MissingKeyError(
                f"A key is 1 to {KEY_LENGTH_MAX} visible ASCII characters without a slash, not {self.text!r:.300}"
            )


@dataclass(frozen=True, slots=True)
class Delivery:
    """The parts of a request that a key may come from. Make one with `Delivery.of`."""

    headers: Pairs
    path: str = ""
    query: str = ""

    @classmethod
    def of(cls, headers: Any, *, path: str = "", query: str = "") -> Delivery:
        """From headers in any shape: a mapping, a framework's header object, or pairs, of text or bytes."""
        return cls(tuple(_pairs(headers)), path, query)

    @classmethod
    def of_environ(cls, environ: Mapping[str, Any]) -> Delivery:
        """From a WSGI environ."""
        headers = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
        return cls.of(headers, path=environ.get("PATH_INFO", ""), query=environ.get("QUERY_STRING", ""))

    def header(self, name: str) -> str | None:
        """The value of a header; None when it is not there. Empty, or two values that differ, is an error."""
        values = {value.strip() for key, value in self.headers if key.lower() == name.lower()}
        if len(values) > 1:
            raise MissingKeyError(f"{name} is there more than once, with different values")
        if values == {""}:
            raise MissingKeyError(f"{name} is empty")
        return values.pop() if values else None

    def required(self, name: str, beside: str | None = None) -> str:
        """The value of a header that must be there."""
        value = self.header(name)
        if value is None:
            raise MissingKeyError(f"{name} is missing" + (f", and {beside} alone names nothing" if beside else ""))
        return value

    @property
    def kind(self) -> Kind:
        """What sent it."""
        names = {name.lower() for name, _ in self.headers}
        if any(name.startswith("x-cloudscheduler") for name in names):
            return Kind.SCHEDULER
        if any(name in names for name in ("x-cloudtasks-taskname", "x-appengine-taskname")):
            return Kind.TASKS
        return Kind.OTHER

    @property
    def is_app_engine(self) -> bool:
        """Whether it came as App Engine's own requests do: to those, 503 means an overloaded system."""
        return any(
            name.lower().startswith("x-appengine-") or (name.lower() == "user-agent" and "AppEngine-Google" in value)
            for name, value in self.headers
        )


Namespace = str | Callable[[Delivery], str]
Own = Callable[[Delivery], str | Key | None]


def from_header(name: str) -> Callable[[Delivery], str]:
    """The namespace is the value of this header, which a job's target carries for it."""
    return lambda delivery: delivery.required(name)


def from_query(name: str) -> Callable[[Delivery], str]:
    """The namespace is the value of this parameter of the query."""

    def namespace(delivery: Delivery) -> str:
        values = set(parse_qs(delivery.query, keep_blank_values=True).get(name, []))
        if len(values) != 1 or values == {""}:
            raise MissingKeyError(f"The query must have one {name}")
        return values.pop()

    return namespace


def from_path(position: int) -> Callable[[Delivery], str]:
    """The namespace is this segment of the path, counted from 0: of `/runs/eu/report`, 1 is `eu`."""

    def namespace(delivery: Delivery) -> str:
        segments = delivery.path.strip("/").split("/")
        if not -len(segments) <= position < len(segments) or not segments[position]:
            raise MissingKeyError(f"The path has no segment {position}")
        return segments[position]

    return namespace


@dataclass(frozen=True, slots=True)
class KeyRule:
    """How the deliveries of one handler are told apart. Without arguments it fits one handler of one project."""

    own: Own | None = None
    """Gives a text that names the work, or a ready `Key`, or None to let the headers decide."""
    namespace: Namespace | None = None
    """What sets deliveries apart that look the same: the project and location of a job, or the service that handles."""

    def key(self, delivery: Delivery) -> Key:
        """The key of a delivery, or MissingKeyError."""
        return replace(self._key(delivery), kind=delivery.kind)

    def _key(self, delivery: Delivery) -> Key:
        namespace = self.namespace(delivery) if callable(self.namespace) else self.namespace
        if namespace == "":
            raise MissingKeyError("The namespace is empty")
        chosen = self.own(delivery) if self.own is not None else None
        if isinstance(chosen, Key):
            return chosen
        if chosen is not None:
            return own_key(chosen, namespace)
        header = delivery.header("Idempotency-Key")
        if header is not None:
            return Key(_tagged("idempotency-key", namespace, header), f"Idempotency-Key {header}")
        return _job_key(delivery, namespace) or _task_key(delivery, namespace) or _no_key()


def own_key(text: str, namespace: str | None = None) -> Key:
    """The key of a piece of work that the program itself has named: an order's number, a message's id."""
    if not text:
        raise MissingKeyError("The name of the work is empty")
    return Key(_tagged("own", namespace, text), f"own key {text}")


def fingerprint(*parts: str | bytes) -> str:
    """A fingerprint of a request: its method, path, body, or whatever must be the same under one key."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode() if isinstance(part, str) else part
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()


def _job_key(delivery: Delivery, namespace: str | None) -> Key | None:
    names = ("X-CloudScheduler-JobName", "X-CloudScheduler-ScheduleTime")
    pair = _whole(delivery, *names)
    if pair is None:
        return None
    text = "/".join(pair if namespace is None else (namespace, *pair))
    return Key(hashlib.sha256(text.encode()).hexdigest(), f"job {pair[0]} at {pair[1]}")


def _task_key(delivery: Delivery, namespace: str | None) -> Key | None:
    for prefix in ("X-CloudTasks-", "X-AppEngine-"):
        pair = _whole(delivery, f"{prefix}QueueName", f"{prefix}TaskName")
        if pair is not None:
            return Key(_tagged("task", namespace, *pair), f"task {pair[1]} of queue {pair[0]}")
    return None


def _whole(delivery: Delivery, first: str, second: str) -> tuple[str, str] | None:
    """Both headers or neither."""
    if delivery.header(first) is None and delivery.header(second) is None:
        return None
    return delivery.required(first, beside=second), delivery.required(second, beside=first)


def _no_key() -> Key:
    raise MissingKeyError(
        "Neither Idempotency-Key, nor X-CloudScheduler-JobName and -ScheduleTime, "
        "nor X-CloudTasks-QueueName and -TaskName"
    )


def _tagged(tag: str, namespace: str | None, *parts: str) -> str:
    # JSON keeps the parts apart whatever characters they hold, and None from any text.
    return hashlib.sha256(json.dumps([tag, namespace, *parts]).encode()).hexdigest()


def _pairs(headers: Any) -> Iterable[tuple[str, str]]:
    items = headers.items() if hasattr(headers, "items") else headers
    for name, value in items:
        for one in value if isinstance(value, list | tuple) else (value,):
            yield _text(name), _text(one)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)

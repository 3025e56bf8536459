"""Every setting of the server, with its meaning, unit, default and why; and the only reader of the environment.

A setting comes, in this order, from a flag of `taskbell serve` (`--log-level`), from the environment
(`TASKBELL_LOG_LEVEL`), from a `taskbell.toml` (`log_level`), or is its default. Each field below is one setting; its
metadata is what the command line's help and the reference in the docs print.

Spans are written as a number with a unit: `250ms`, `30s`, `10m`, `24h`, `7d`; `0` means none.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from taskbell.core.app_engine import Application
from taskbell.core.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Span
from taskbell.core.limits import GOOGLE, Limits

PREFIX = "TASKBELL_"
HANDOVER = "TASKBELL_RESOLVED_SETTINGS"
"""Carries resolved settings through the exec of the server process."""
CONFIG_FILE = "taskbell.toml"

_UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)\Z")


class SettingError(Exception):
    """A setting is wrong; the message says which, where it came from, and what was expected."""


def parse_span(text: str) -> Span:
    """A span from its text; raises ValueError saying what was expected."""
    if text == "0":
        return 0
    match = _SPAN.match(text)
    if match is None:
        raise ValueError("expected a number with a unit, such as 250ms, 30s, 10m, 24h or 7d")
    return round(float(match[1]) * _UNITS[match[2]])


def print_span(span: Span) -> str:
    """A span's text in the largest unit that keeps it whole."""
    if span == 0:
        return "0"
    for unit in ("d", "h", "m", "s"):
        if span % _UNITS[unit] == 0:
            return f"{span // _UNITS[unit]}{unit}"
    return f"{span // MILLISECOND}ms"


def _boolean(text: str) -> bool:
    lower = text.lower()
    if lower not in {"true", "false", "1", "0", "yes", "no"}:
        raise ValueError("expected true or false")
    return lower in {"true", "1", "yes"}


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _application(text: str) -> tuple[str, ...]:
    entries = _listed(text)
    Application.parse(entries)
    return entries


def _root_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("expected a URL that begins with http:// or https://")
    return text


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}")
        return text

    return parse


def _number(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not least <= value <= most:
            raise ValueError(f"expected a number from {least:g} to {most:g}")
        return value

    return parse


def _integer(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError(f"expected a whole number from {least} to {most}")
        return value

    return parse


def _setting(default: Any, parse: Callable[[str], Any], text: str, *, variable: str | None = None) -> Any:
    """One setting: its default, how its text is read, what it means; and a variable that other programs know."""
    return field(default=default, metadata={"parse": parse, "help": text, "variable": variable})


@dataclass(frozen=True, slots=True)
class Settings:
    """A server's settings, resolved and checked."""

    # Where it runs.
    store: str = _setting("sqlite:taskbell.db", str, "Where state is kept: sqlite:PATH, or memory: (gone at exit).")
    host: str = _setting("127.0.0.1", str, "Address to listen on. Anything but loopback needs --insecure for now.")
    port: int = _setting(8123, _integer(1, 65535), "Port to listen on: gRPC and REST share it.")
    server: str = _setting(
        "auto",
        _choice("auto", "pyvoy", "hypercorn"),
        "HTTP server: pyvoy (Envoy, fast), hypercorn (runs everywhere, slower), or auto.",
    )
    insecure: bool = _setting(
        False, _boolean, "Listen on other addresses than loopback although callers are not checked."
    )
    log_level: str = _setting(
        "info", _choice("debug", "info", "warning", "error"), "Least level that is logged. debug: one line per attempt."
    )
    log_format: str = _setting("text", _choice("text", "json"), "How log lines look on stderr.")
    grace: Span = _setting(10 * SECOND, parse_span, "On SIGTERM, how long attempts that are out may take to end.")

    # What callers see.
    locations: tuple[str, ...] = _setting(
        ("us-central1",), _listed, "Locations that ListLocations names first, comma-separated. Others work as well."
    )
    max_request_bytes: int = _setting(
        10 * 1024 * 1024, _integer(64 * 1024, 1 << 30), "Largest request body in bytes; a batch of tasks must fit."
    )
    issuer: str = _setting(
        "", str, "Issuer URL in ID tokens, under which handlers reach this server. Default: http://HOST:PORT."
    )
    token_source: str = _setting(
        "taskbell",
        _choice("taskbell", "google"),
        "Who signs ID tokens: this server, or Google through configured Google credentials.",
    )

    # Targets besides HTTP.
    app_engine: tuple[str, ...] = _setting(
        (),
        _application,
        "App Engine services and their addresses, comma-separated: SERVICE[:VERSION[:INSTANCE]]=URL[;SCALING], "
        "or *=URL with {service} in it. SCALING is automatic, manual, basic or flexible.",
    )
    pubsub_endpoint: str = _setting(
        "https://pubsub.googleapis.com", _root_url, "Where jobs with Pub/Sub targets publish, with Google credentials."
    )
    pubsub_emulator_host: str = _setting(
        "",
        str,
        "HOST:PORT of a Pub/Sub emulator to publish to, without credentials. PUBSUB_EMULATOR_HOST works as well.",
        variable="PUBSUB_EMULATOR_HOST",
    )

    # Limits, Google's by default.
    max_dispatches_per_second: float = _setting(
        GOOGLE.max_dispatches_per_second, _number(0.001, 1e6), "Highest rate a queue may be given, per second."
    )
    max_concurrent_dispatches: int = _setting(
        GOOGLE.max_concurrent_dispatches, _integer(1, 1_000_000), "Highest concurrency a queue may be given."
    )
    schedule_horizon: Span = _setting(
        GOOGLE.schedule_horizon, parse_span, "How far in the future a task may be scheduled."
    )
    task_ttl: Span = _setting(GOOGLE.task_ttl, parse_span, "How long a task may live, dispatched or not.")
    task_tombstone: Span = _setting(
        GOOGLE.task_tombstone,
        parse_span,
        "How long a chosen task name stays taken after its task is gone; 0: not at all.",
    )
    queue_tombstone: Span = _setting(
        GOOGLE.queue_tombstone, parse_span, "How long a queue's name stays taken after a delete; 0: not at all."
    )

    # Jobs.
    catch_up: Span | None = _setting(
        None,
        parse_span,
        "How late a job may start after downtime. Default: one period of its schedule, at most an hour.",
    )
    overlap: str = _setting(
        "skip",
        _choice("skip", "delay"),
        "What becomes of an instant that comes while an execution of its job is open: skipped, or one start delayed "
        "until the end. Windows of groc schedules always skip.",
    )
    forced_schedule_time: str = _setting(
        "next",
        _choice("next", "now", "omit"),
        "What X-CloudScheduler-ScheduleTime says on a forced run: the next scheduled time, the call's, or no header.",
    )
    history: Span = _setting(30 * DAY, parse_span, "How long the executions of jobs are kept.")
    max_open_executions: int = _setting(
        2000, _integer(1, 1_000_000), "Executions of jobs that are attempted at once; others wait their turn."
    )

    # Memory.
    window_tasks: int = _setting(
        1000, _integer(1, 1_000_000), "Waiting tasks held in memory for each queue; the rest stays in the store."
    )
    window_bytes: int = _setting(
        4 << 20, _integer(1024, 1 << 32), "Bytes of waiting tasks held in memory for each queue."
    )

    @property
    def limits(self) -> Limits:
        """The limits as core takes them."""
        return Limits(
            max_dispatches_per_second=self.max_dispatches_per_second,
            max_concurrent_dispatches=self.max_concurrent_dispatches,
            default_concurrent_dispatches=min(GOOGLE.default_concurrent_dispatches, self.max_concurrent_dispatches),
            schedule_horizon=self.schedule_horizon,
            task_ttl=self.task_ttl,
            task_tombstone=self.task_tombstone,
            queue_tombstone=self.queue_tombstone,
        )

    @property
    def url(self) -> str:
        """Where clients on this machine reach the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def is_google_signed(self) -> bool:
        """Whether Google signs ID tokens."""
        return self.token_source == "google"  # noqa: S105 - not a secret

    @property
    def issuer_url(self) -> str:
        """The issuer of ID tokens."""
        return self.issuer.rstrip("/") or self.url

    @property
    def application(self) -> Application:
        """The App Engine services that are mapped to addresses."""
        return Application.parse(self.app_engine)

    @property
    def pubsub_url(self) -> str:
        """The root of the Pub/Sub API that is published to."""
        return f"http://{self.pubsub_emulator_host}" if self.pubsub_emulator_host else self.pubsub_endpoint

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")


def resolve(flags: Mapping[str, str | None], config: Path | None = None) -> Settings:
    """Settings from flags, the environment, a file and defaults. Raises SettingError for the first wrong one."""
    values: dict[str, Any] = {}
    values.update(_from_file(config))
    values.update(_from_environment())
    for key, text in flags.items():
        if text is not None:
            values[key] = _parsed(key, text, f"--{key.replace('_', '-')}")
    settings = Settings(**values)
    if not settings.is_loopback and not settings.insecure:
        raise SettingError(
            f"host {settings.host!r} is not a loopback address and callers are not checked: "
            "pass --insecure to listen on it all the same, or put an authenticating proxy in front of 127.0.0.1"
        )
    return settings


def _from_environment() -> dict[str, Any]:
    values = {}
    for item in fields(Settings):
        name = PREFIX + item.name.upper()
        if name not in os.environ and item.metadata["variable"]:
            name = item.metadata["variable"]
        text = os.environ.get(name)
        # Kubernetes sets TASKBELL_PORT=tcp://... for a service of this name; that is not meant for us.
        if text is not None and not (item.name == "port" and text.startswith("tcp://")):
            values[item.name] = _parsed(item.name, text, f"environment variable {name}")
    return values


def _from_file(config: Path | None) -> dict[str, Any]:
    path = config or Path(CONFIG_FILE)
    if config is None and not path.exists():
        return {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is not a TOML file: {error}") from error
    known = {item.name for item in fields(Settings)}
    values = {}
    for key, value in table.items():
        if key not in known:
            raise SettingError(f"{path}: there is no setting {key!r}; expected one of {', '.join(sorted(known))}")
        values[key] = _parsed(key, _toml_text(value, f"{path}: {key}"), f"{path}: {key}")
    return values


def _toml_text(value: Any, source: str) -> str:
    """A TOML value as it would be written on the command line."""
    if isinstance(value, dict):
        raise SettingError(f"{source} is a table: expected a value, since settings have no sections")
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(key: str, text: str, source: str) -> Any:
    item = next(item for item in fields(Settings) if item.name == key)
    try:
        return item.metadata["parse"](text)
    except ValueError as error:
        reason = str(error) if "expected" in str(error) else "expected a number"
        raise SettingError(f"{source} is {text!r}: {reason}") from None


def hand_over(settings: Settings, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of the server process: this one's, `more`, and the settings."""
    return {**os.environ, **more, HANDOVER: json.dumps(asdict(settings))}


def taken_over() -> Settings:
    """The settings that `hand_over` put into this process's environment."""
    values = json.loads(os.environ[HANDOVER])
    for key, value in values.items():
        if isinstance(value, list):  # JSON has no tuples.
            values[key] = tuple(value)
    return Settings(**values)

"""App Engine without App Engine: which address stands for which service, and how long its requests may take.

An operator maps services to base URLs (`settings.py`, `app_engine`); `senders/app_engine.py` resolves each attempt's
routing here. `routing_host` is what the API shows as `AppEngineRouting.host`: the real service's name for the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Self

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import HOUR, MINUTE, Span
from taskbell.core.target import Routing
from taskbell.core.url import wire_url

DEADLINES: Final[dict[str, Span]] = {
    "automatic": 10 * MINUTE,
    "manual": 24 * HOUR,
    "basic": 24 * HOUR,
    "flexible": 60 * MINUTE,
}
"""How long a request may take whose target names no deadline, by the scaling of its service (wire.md section 4.7)."""

DEFAULT: Final = "default"
"""The service that an empty name means, and that takes what cannot be routed."""
_ANY: Final = "*"
_PLACE: Final = "{service}"

_ENTRY = re.compile(
    r"(?P<service>\*|[A-Za-z0-9-]+)(?::(?P<version>[A-Za-z0-9-]*))?(?::(?P<instance>[A-Za-z0-9-]+))?"
    r"=(?P<url>[^;]+)(?:;(?P<scaling>[a-z]+))?"
)
# A caller's text goes into the address of a wildcard, so nothing but a service id may.
_SERVICE_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Service:
    """Where the requests of one service, version or instance go."""

    base_url: str
    """Without a slash at its end; a request's relative URI is put behind it."""
    default_deadline: Span


class Application:
    """The services that an operator has mapped; none by default."""

    def __init__(self, services: dict[_Key, Service] | None = None) -> None:
        self._services = services or {}

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Self:
        """From `SERVICE[:VERSION[:INSTANCE]]=URL[;SCALING]`, each once; ValueError says what was expected."""
        services: dict[_Key, Service] = {}
        for entry in entries:
            key, service = _parsed(entry)
            if key in services:
                raise ValueError(f"expected each service, version and instance once, but {entry!r} is there again")
            services[key] = service
        return cls(services)

    def resolve(self, routing: Routing) -> Service | None:
        """The most specific match; without one the default service (wire.md section 7.3). None: neither is mapped."""
        name = routing.service or DEFAULT
        for key in ((name, routing.version, routing.instance), (name, routing.version, ""), (name, "", "")):
            if key in self._services:
                return self._services[key]
        pattern = self._services.get((_ANY, "", ""))
        if pattern is not None and _SERVICE_ID.fullmatch(name):
            return Service(pattern.base_url.replace(_PLACE, name), pattern.default_deadline)
        return self.resolve(Routing()) if routing != Routing() else None


def _parsed(entry: str) -> tuple[_Key, Service]:
    found = _ENTRY.fullmatch(entry)
    if found is None or (found["service"] == _ANY and found["version"] is not None):
        raise ValueError(f"expected SERVICE[:VERSION[:INSTANCE]]=URL[;SCALING] or *=URL[;SCALING], not {entry!r}")
    scaling = found["scaling"] or "automatic"
    if scaling not in DEADLINES:
        raise ValueError(f"expected one of {', '.join(DEADLINES)} behind the semicolon, not {scaling!r}")
    url = found["url"].rstrip("/")
    _check_base_url(url.replace(_PLACE, DEFAULT) if found["service"] == _ANY else url)
    key = (found["service"], found["version"] or "", found["instance"] or "")
    return key, Service(url, DEADLINES[scaling])


def _check_base_url(url: str) -> None:
    try:
        wire_url(url)
    except InvalidArgument as refusal:
        raise ValueError(f"expected a base URL such as http://127.0.0.1:8080, not {url!r}: {refusal.message}") from None
    if "?" in url or "#" in url:
        raise ValueError(f"expected a base URL without a query or a fragment, not {url!r}")


def routing_host(project: str, routing: Routing) -> str:
    """`[INSTANCE.][VERSION.][SERVICE.]PROJECT.appspot.com`, as the API's reference composes it."""
    domain, separator, name = project.rpartition(":")
    # A project of an organisation's domain, `example.com:shop`, has its own form.
    application = f"{name}.{domain}.a" if separator else project
    parts = (routing.instance, routing.version, routing.service, application, "appspot.com")
    return ".".join(part for part in parts if part)


def hosted(name: str, routing: Routing) -> Routing:
    """The routing with its host, for a resource of this full name."""
    return replace(routing, host=routing_host(name.split("/", 2)[1], routing))

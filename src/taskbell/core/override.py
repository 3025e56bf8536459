"""What a queue lays over the targets of its tasks (wire.md section 5.5)."""

from __future__ import annotations

import re
from dataclasses import replace

from taskbell.core.target import AppEngineTarget, Headers, HttpOverride, HttpTarget, Routing

# Parts as RFC 3986 (appendix B) splits them. urllib's own split drops line breaks and refuses some hosts; what a task
# was created with must come through here as it is.
_PARTS = re.compile(
    r"(?P<scheme>[^:/?#]+)://(?P<userinfo>[^/?#]*@)?(?P<host>\[[^]/?#]*]|[^:/?#]*)(?::(?P<port>[^/?#]*))?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?",
    re.DOTALL,
)


def overridden(target: HttpTarget, override: HttpOverride) -> HttpTarget:
    """The target as it is sent from a queue with this override. Its stored form stays as the caller made it."""
    return replace(
        target,
        url=_url(target.url, override) if override.has_uri else target.url,
        method=override.method or target.method,
        headers=_headers(target.headers, override),
        token=override.token or target.token,
    )


def rerouted(target: AppEngineTarget, routing: Routing) -> AppEngineTarget:
    """The target as it is sent from a queue with this routing, which replaces the task's as a whole."""
    return replace(target, routing=routing)


def _url(url: str, override: HttpOverride) -> str:
    """Replace each component that the override sets; under IF_NOT_EXISTS only those that the URL lacks.

    Scheme and host are always there in a task's URL, so under IF_NOT_EXISTS only port, path and query matter.
    """
    parts = _PARTS.match(url)
    assert parts is not None, "a task's URL was checked when the task was created"
    only_missing = bool(override.if_not_exists)
    scheme, host, port = parts["scheme"].lower(), parts["host"], parts["port"] or ""
    path, query = parts["path"], parts["query"] or ""
    if not only_missing:
        scheme = override.scheme or scheme
        host = override.host or host
    if override.port is not None and not (only_missing and port):
        port = str(override.port) if override.port else ""
    if override.path is not None and not (only_missing and path not in {"", "/"}):
        path = override.path if not override.path or override.path.startswith("/") else "/" + override.path
    if override.query is not None and not (only_missing and query):
        query = override.query
    authority = (parts["userinfo"] or "") + host + (":" + port if port else "")
    return f"{scheme}://{authority}{path}" + (f"?{query}" if query else "")


def _headers(headers: Headers, override: HttpOverride) -> Headers:
    """The override's headers replace those of the same name, in any case of letters."""
    names = {name.lower() for name, _ in override.headers}
    if override.token is not None:
        names.add("authorization")
    return tuple(pair for pair in headers if pair[0].lower() not in names) + override.headers

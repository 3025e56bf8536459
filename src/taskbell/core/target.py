"""Where an attempt goes: the immutable request that a task carries, and what a queue may override.

Values only. How a target becomes bytes on a socket is `core/headers.py` (what it says) and `senders/` (how it is sent).
"""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]
"""Header names with the caller's casing, in the caller's order."""

METHODS = ("POST", "GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS")
"""google.cloud.tasks.v2.HttpMethod in the order of its numbers, from 1."""
HTTP_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
APP_ENGINE_BODY_METHODS = frozenset({"POST", "PUT"})


@dataclass(frozen=True, slots=True)
class OidcToken:
    """An ID token to mint for each attempt; an empty audience means the target's URL as given."""

    service_account_email: str
    audience: str = ""


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """An access token to mint for each attempt; an empty scope means cloud-platform."""

    service_account_email: str
    scope: str = ""


Token = OidcToken | OAuthToken


@dataclass(frozen=True, slots=True)
class Routing:
    """App Engine routing; empty parts mean the defaults at attempt time. `host` is chosen by the server."""

    service: str = ""
    version: str = ""
    instance: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """An HTTP request to any URL."""

    url: str
    method: str = "POST"
    headers: Headers = ()
    body: bytes = b""
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class AppEngineTarget:
    """A request to an App Engine service, by routing and relative URI."""

    relative_uri: str = "/"
    method: str = "POST"
    headers: Headers = ()
    body: bytes = b""
    routing: Routing = Routing()


@dataclass(frozen=True, slots=True)
class PubsubTarget:
    """A message to publish to a Pub/Sub topic; of jobs only."""

    topic: str
    """`projects/P/topics/T`."""
    body: bytes = b""
    """The message's data."""
    attributes: Headers = ()


Target = HttpTarget | AppEngineTarget


@dataclass(frozen=True, slots=True)
class HttpOverride:
    """What a queue lays over its HTTP tasks (Queue.http_target). None means: not set, the task's own part stands."""

    scheme: str | None = None
    host: str | None = None
    port: int | None = None
    path: str | None = None
    query: str | None = None
    if_not_exists: bool | None = None
    """Enforce mode: True IF_NOT_EXISTS, False ALWAYS, None unspecified (which means ALWAYS)."""
    has_uri: bool = False
    """Whether a uri_override message was sent at all, so that an empty one reads back as sent."""
    method: str | None = None
    headers: Headers = ()
    token: Token | None = None

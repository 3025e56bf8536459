"""Tokens that Google signs, for dispatches to Google's own services; used where an operator has Google credentials.

The server's credentials (Application Default Credentials) impersonate the account that a task names, for which they
need the role Service Account Token Creator on it; to Pub/Sub they speak for themselves. google-auth talks to IAM with
blocking calls, so each is in a thread; a token is used again until shortly before it expires, and none is asked for
twice at a time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

import google.auth
from google.auth import impersonated_credentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError
from google.auth.transport.requests import Request as RequestsTransport
from requests import RequestException

from taskbell.clock import Clock
from taskbell.core.instant import SECOND, Instant, Span
from taskbell.sender import TokenUnavailableError

CLOUD_PLATFORM: Final = "https://www.googleapis.com/auth/cloud-platform"
HOW_TO: Final = (
    "no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS or run `gcloud auth application-default login` "
    "for the account that Taskbell runs as"
)
_OWN: Final = ("own",)
_KEPT_MAX: Final = 1024
_ASK_AGAIN: Span = 60 * SECOND


class _Credentials(Protocol):
    """What is used of google-auth's credentials."""

    token: str | None

    @property
    def valid(self) -> bool: ...

    def refresh(self, request: Any) -> None: ...


class _Kept:
    """The credentials for one account and scope or audience, and who is refreshing them."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.credentials: _Credentials | None = None


class GoogleTokens:
    """Access tokens and ID tokens of service accounts, from IAM."""

    def __init__(
        self,
        clock: Clock,
        *,
        load: Callable[[], Any] = lambda: google.auth.default(scopes=[CLOUD_PLATFORM])[0],
        transport: Any = None,
    ) -> None:
        """`load` finds the server's own credentials; `transport` is google-auth's way to make requests."""
        self._clock = clock
        self._load = load
        self._transport = transport
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()
        self._source: Any = None
        self._source_lock = asyncio.Lock()
        self._missing_until: Instant | None = None

    async def access_token(self, email: str, scope: str) -> str:
        """An OAuth access token. Raises TokenUnavailableError."""
        scopes = (scope or CLOUD_PLATFORM).split()
        return await self._token(("access", email, *scopes), lambda source: _impersonated(source, email, scopes))

    async def id_token(self, email: str, audience: str) -> str:
        """An ID token. Raises TokenUnavailableError."""
        return await self._token(("id", email, audience), lambda source: _id_credentials(source, email, audience))

    async def own_token(self) -> str:
        """An access token of the server's own account, impersonating nobody. Raises TokenUnavailableError."""
        return await self._token(_OWN, lambda source: source)

    async def _token(self, key: tuple[str, ...], make: Callable[[Any], _Credentials]) -> str:
        kept = self._keep(key)
        async with kept.lock:
            if kept.credentials is None:
                kept.credentials = make(await self._own())
            if not kept.credentials.valid:
                await self._refresh(kept.credentials, key)
            assert kept.credentials.token is not None
            return kept.credentials.token

    def _keep(self, key: tuple[str, ...]) -> _Kept:
        """The entry for a key, now the youngest; the oldest goes when there are too many."""
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        if len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return kept

    async def _refresh(self, credentials: _Credentials, key: tuple[str, ...]) -> None:
        if self._transport is None:
            self._transport = RequestsTransport()
        try:
            await asyncio.to_thread(credentials.refresh, self._transport)
        except (TransportError, RequestException):
            raise TokenUnavailableError(
                f"Google's {'token endpoint' if key == _OWN else 'IAM Credentials API'} cannot be reached"
            ) from None
        except GoogleAuthError:
            # The error's text may hold Google's whole answer; the log gets what an operator can act on.
            raise TokenUnavailableError(
                "Google gave no token for the server's own credentials: they may be revoked or have expired"
                if key == _OWN
                else f"Google gave no token for {key[1]}: the server's account needs the role "
                "roles/iam.serviceAccountTokenCreator on it, and the IAM Credentials API must be enabled"
            ) from None

    async def _own(self) -> Any:
        """The server's own credentials. That there are none takes seconds to find out, so it is remembered a while."""
        async with self._source_lock:
            now = self._clock.monotonic()
            if self._missing_until is not None and now < self._missing_until:
                raise TokenUnavailableError(HOW_TO)
            if self._source is None:
                try:
                    self._source = await asyncio.to_thread(self._load)
                except DefaultCredentialsError:
                    self._missing_until = now + _ASK_AGAIN
                    raise TokenUnavailableError(HOW_TO) from None
            return self._source


def _impersonated(source: Any, email: str, scopes: list[str]) -> Any:
    return impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]
        source_credentials=source, target_principal=email, target_scopes=scopes
    )


def _id_credentials(source: Any, email: str, audience: str) -> Any:
    return impersonated_credentials.IDTokenCredentials(  # type: ignore[no-untyped-call]
        _impersonated(source, email, [CLOUD_PLATFORM]), target_audience=audience, include_email=True
    )

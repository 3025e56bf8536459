"""Who sends this delivery: the check of its OpenID Connect token, before anything is claimed.

    verify = Verifier("https://orders.example", emails=["tasks@my-project.iam.gserviceaccount.com"])
    app = IdempotentWsgi(app, guard, verify=verify)

Cloud Tasks, Cloud Scheduler and Taskbell sign a token for each attempt whose target asks for one, and nothing else of a
delivery is authenticated. A token passes if one of our issuers signed it (RS256 or ES256, by the key that it names),
for our audience, for one of our accounts, and for now. The check of the issuer comes first, so that no stranger chooses
whose keys we fetch.

401: the token proves nothing. 403: it proves somebody who may not. 500: the issuer's keys could not be had. The reason
is the error's message, for the log only.

Needs the extra `verify` (joserfc). `now` and `fetch` are arguments, for tests and for those who fetch in their own way.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import urllib.request
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from taskbell.core.instant import DAY, HOUR, SECOND, Instant, Span
from taskbell.idempotency.errors import IdempotencyError, MissingKeyError
from taskbell.idempotency.key import Delivery

log = logging.getLogger("taskbell.idempotency")

GOOGLE: Final = "https://accounts.google.com"
ALGORITHMS: Final = {"RS256": "RSA", "ES256": "EC"}
"""What we take, and the type of key that each needs: a token never chooses how its key is used."""
TOKEN_BYTES_MAX: Final = 16_384
DOCUMENT_BYTES_MAX: Final = 1_048_576
FETCH_SECONDS_MAX: Final = 10

Fetch = Callable[[str], bytes]


class UnverifiedError(IdempotencyError):
    """The sender is not who may send. The message says why; it is for the log, not for the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def system_now() -> Instant:
    """Wall time."""
    return time.time_ns() // 1000


class Verifier:
    """Checks bearer tokens. One for all threads; it keeps the keys of its issuers."""

    def __init__(
        self,
        audience: str | Collection[str],
        *,
        emails: Collection[str] | None,
        issuers: Collection[str] = (GOOGLE,),
        leeway: Span = 30 * SECOND,
        now: Callable[[], Instant] = system_now,
        fetch: Fetch | None = None,
    ) -> None:
        """Accept tokens of these issuers for this audience and these accounts.

        `issuers` are URLs, `GOOGLE` or Taskbell's `issuer` setting. `emails=None` takes every account that they vouch
        for, which Google does for everybody: it is refused for that issuer. `leeway` is for clocks that differ.
        """
        _require_joserfc()
        self._audiences = frozenset([audience] if isinstance(audience, str) else audience)
        self._emails = None if emails is None else frozenset(emails)
        if not self._audiences or "" in self._audiences:
            raise ValueError("audience is empty: give the URL that the tokens are made for")
        if self._emails is not None and not self._emails:
            raise ValueError("emails is empty: nobody could send")
        urls = [_issuer_url(issuer) for issuer in issuers]
        if self._emails is None and GOOGLE in urls:
            raise ValueError("emails is None: Google signs a token for any audience for anybody, so name the accounts")
        self._leeway, self._now = leeway, now
        self._keys = {url: _IssuerKeys(url, now, fetch or fetch_document) for url in urls}

    def __call__(self, delivery: Delivery) -> Mapping[str, Any]:
        """The claims of the delivery's token, or UnverifiedError."""
        try:
            header = delivery.header("Authorization")
        except MissingKeyError as error:
            raise UnverifiedError(401, str(error)) from error
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            raise UnverifiedError(401, "there is no bearer token")
        return self.claims(token.strip())

    def claims(self, token: str) -> Mapping[str, Any]:
        """The claims of a token, or UnverifiedError."""
        if len(token) > TOKEN_BYTES_MAX:
            raise UnverifiedError(401, f"the token is longer than {TOKEN_BYTES_MAX} bytes")
        head, claims = _parsed(token)
        algorithm, kid = head.get("alg"), head.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise UnverifiedError(401, f"algorithm {algorithm!r:.40}: expected {' or '.join(ALGORITHMS)}")
        if not isinstance(kid, str) or "crit" in head:
            raise UnverifiedError(401, "the header of the token has no kid, or has crit")
        issuer = claims.get("iss")
        # Google's own tokens come with and without the scheme.
        keys = self._keys.get(GOOGLE if issuer == "accounts.google.com" else str(issuer).rstrip("/"))
        if keys is None:
            raise UnverifiedError(401, f"issuer {issuer!r:.200} is not one of ours")
        _check_signature(token, algorithm, keys.key(kid))
        self._check_times(claims)
        self._check_audience(claims)
        self._check_email(claims)
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now, leeway = self._now() / SECOND, self._leeway / SECOND
        expires, issued = _number(claims, "exp"), _number(claims, "iat")
        if now >= expires + leeway:
            raise UnverifiedError(401, f"expired {now - expires:.0f} s ago")
        if now < max(issued, _number(claims, "nbf") if "nbf" in claims else issued) - leeway:
            raise UnverifiedError(401, "the token is from the future")

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if not any(isinstance(one, str) and one in self._audiences for one in named):
            raise UnverifiedError(401, f"audience {audience!r:.200} is not ours")

    def _check_email(self, claims: Mapping[str, Any]) -> None:
        if self._emails is None:
            return
        email = claims.get("email")
        if not isinstance(email, str) or email not in self._emails:
            raise UnverifiedError(403, f"account {email!r:.200} may not send")
        if claims.get("email_verified") is not True:
            raise UnverifiedError(403, f"the issuer has not verified {email!r:.200}")


class _IssuerKeys:
    """The keys of one issuer, by their ids."""

    MAX_AGE: Final = HOUR
    MAX_STALE: Final = DAY
    """How long keys stay good while the issuer cannot be reached."""
    FETCH_GAP: Final = 30 * SECOND
    """Between two fetches, whatever comes: a stranger who makes up ids of keys must not make us knock at the issuer."""

    def __init__(self, issuer: str, now: Callable[[], Instant], fetch: Fetch) -> None:
        self._issuer, self._now, self._fetch = issuer, now, fetch
        self._lock = threading.Lock()
        self._keys: dict[str, dict[str, Any]] = {}
        self._fetched_time: Instant | None = None
        self._tried_time: Instant | None = None

    def key(self, kid: str) -> dict[str, Any]:
        # Not under the lock: tokens with a key that we know do not wait while others have us fetch.
        known = self._keys.get(kid)
        if known is not None and not self._is_over(self._fetched_time, self.MAX_AGE):
            return known
        with self._lock:
            if kid not in self._keys or self._is_over(self._fetched_time, self.MAX_AGE):
                self._refresh()
            if self._is_over(self._fetched_time, self.MAX_STALE):
                raise UnverifiedError(500, f"the keys of {self._issuer} could not be had")
            if kid in self._keys:
                return self._keys[kid]
        raise UnverifiedError(401, f"key {kid!r:.100} is none of {self._issuer}")

    def _refresh(self) -> None:
        if not self._is_over(self._tried_time, self.FETCH_GAP):
            return
        self._tried_time = self._now()
        try:
            self._keys = self._fetched()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("the keys of %s could not be fetched: %r", self._issuer, error)
        else:
            self._fetched_time = self._tried_time

    def _fetched(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self._fetch(f"{self._issuer}/.well-known/openid-configuration"))
        if found["issuer"].rstrip("/") != self._issuer:
            raise ValueError(f"the document is that of {found['issuer']!r:.200}")
        url = found["jwks_uri"]
        if self._issuer.startswith("https:") and not url.startswith("https:"):
            raise ValueError("jwks_uri is not https")
        keys = json.loads(self._fetch(url))["keys"]
        return {key["kid"]: key for key in keys if "kid" in key and key.get("use", "sig") == "sig"}

    def _is_over(self, since: Instant | None, span: Span) -> bool:
        # A clock that was set back must not keep old keys for longer.
        return since is None or not 0 <= self._now() - since < span


def fetch_document(url: str) -> bytes:
    """GET a document, without following redirects. Raises OSError."""
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(_http(url), timeout=FETCH_SECONDS_MAX) as answer:
            document: bytes = answer.read(DOCUMENT_BYTES_MAX + 1)
    except HTTPException as error:
        raise OSError(f"{url:.200} does not speak HTTP: {error!r:.200}") from error
    if len(document) > DOCUMENT_BYTES_MAX:
        raise OSError(f"{url} is longer than {DOCUMENT_BYTES_MAX} bytes")
    return document


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Leave the redirect to become an error."""


def _http(url: str) -> str:
    if urlsplit(url).scheme not in {"https", "http"}:
        raise OSError(f"{url:.200} is no HTTP URL")
    return url


def _issuer_url(issuer: str) -> str:
    parts = urlsplit(issuer)
    if parts.scheme not in {"https", "http"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"issuer {issuer!r}: expected a URL such as {GOOGLE}")
    return issuer.rstrip("/")


def _parsed(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims as they are written, proven by nothing yet."""
    parts = token.split(".")
    if len(parts) != 3:
        raise UnverifiedError(401, "the token is no JWT")
    head, claims = (_json_object(part) for part in parts[:2])
    return head, claims


def _json_object(part: str) -> dict[str, Any]:
    try:
        value = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError) as error:
        raise UnverifiedError(401, "the token is no JWT") from error
    if not isinstance(value, dict):
        raise UnverifiedError(401, "the token is no JWT")
    return value


def _number(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnverifiedError(401, f"{name} is {value!r:.40}")
    return value


def _check_signature(token: str, algorithm: str, key: dict[str, Any]) -> None:
    from joserfc import jws
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, RSAKey

    if key.get("kty") != ALGORITHMS[algorithm] or key.get("alg", algorithm) != algorithm:
        raise UnverifiedError(401, f"the key is none for {algorithm}")
    try:
        imported = RSAKey.import_key(key) if algorithm == "RS256" else ECKey.import_key(key)
        jws.deserialize_compact(token.encode(), imported, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise UnverifiedError(401, f"the signature is wrong: {error!r:.200}") from error


def _require_joserfc() -> None:
    try:
        import joserfc  # noqa: F401
    except ImportError as error:
        raise ImportError("Verifier needs joserfc: pip install 'taskbell[verify]'") from error

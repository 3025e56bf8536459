"""Our own OpenID Connect issuer: signs the ID tokens of dispatches, and tells verifiers how to check them.

The key is made when a store is first opened and stays in it, so that tokens remain valid over restarts and every node
on one store signs alike. `api/` serves `discovery()` and `jwks()`; any OIDC library then verifies a token from the
issuer's URL alone. The claims are those of Google's ID tokens for service accounts (wire.md section 6).
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, Final, Self

from joserfc import jwt
from joserfc.jwk import RSAKey

from taskbell.clock import Clock
from taskbell.core.instant import SECOND
from taskbell.engine import Engine

KEY_RECORD: Final = "issuer-key"
LIFE_SECONDS: Final = 3600
JWKS_PATH: Final = "/.well-known/jwks.json"
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"

_MEMO_MAX: Final = 256


class Issuer:
    """Signs ID tokens with one RSA key."""

    def __init__(self, url: str, key_pem: bytes, clock: Clock) -> None:
        """`url` is the issuer's name and the root of its two documents; handlers must be able to reach it."""
        self.url = url.rstrip("/")
        key = RSAKey.import_key(key_pem, {"use": "sig", "alg": "RS256"})
        self.kid = key.thumbprint()
        self._key = RSAKey.import_key(key_pem, {"use": "sig", "alg": "RS256", "kid": self.kid})
        self._header = {"alg": "RS256", "typ": "JWT", "kid": self.kid}
        self._clock = clock
        self._memo: dict[tuple[str, str], str] = {}
        self._memo_second = 0

    @classmethod
    async def open(cls, engine: Engine, url: str, clock: Clock) -> Self:
        """The issuer of this store; the first to come makes the key, and all others take that one."""
        pem = await engine.record(KEY_RECORD)
        if pem is None:
            made = await asyncio.to_thread(_new_key)
            pem = await engine.put_record(KEY_RECORD, made, replace=False)
        return cls(url, pem, clock)

    def id_token(self, email: str, audience: str) -> str:
        """A token for one attempt, valid for an hour from now."""
        second = self._clock.now() // SECOND
        # RS256 is deterministic: equal claims give equal tokens. So what was signed within this second is what signing
        # afresh would give, and a queue of tasks for one URL pays for one signature a second.
        if second != self._memo_second or len(self._memo) >= _MEMO_MAX:
            self._memo.clear()
            self._memo_second = second
        token = self._memo.get((email, audience))
        if token is None:
            token = self._memo[email, audience] = self._signed(email, audience, second)
        return token

    def discovery(self) -> dict[str, Any]:
        """The document at `DISCOVERY_PATH`."""
        return {
            "issuer": self.url,
            "jwks_uri": self.url + JWKS_PATH,
            "id_token_signing_alg_values_supported": ["RS256"],
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "claims_supported": ["iss", "aud", "sub", "azp", "email", "email_verified", "iat", "exp"],
        }

    def jwks(self) -> dict[str, Any]:
        """The document at `JWKS_PATH`: the public half of the key."""
        return {"keys": [self._key.as_dict(private=False)]}

    def _signed(self, email: str, audience: str, second: int) -> str:
        subject = subject_of(email)
        claims = {
            "iss": self.url,
            "aud": audience,
            "sub": subject,
            "azp": subject,
            "email": email,
            "email_verified": True,
            "iat": second,
            "exp": second + LIFE_SECONDS,
        }
        return jwt.encode(self._header, claims, self._key)


def subject_of(email: str) -> str:
    """The account's stable id: 21 digits as Google's have, from nothing but the address."""
    digest = hashlib.sha256(email.encode()).digest()
    return f"1{int.from_bytes(digest, 'big') % 10**20:020d}"


def _new_key() -> bytes:
    return RSAKey.generate_key(2048).as_pem(private=True)

"""Our own issuer: other people's libraries verify its tokens from nothing but its URL."""

from __future__ import annotations

import asyncio
import json
import time

import jwt
import pytest
from google.auth.transport.requests import Request as GoogleTransport
from google.oauth2 import id_token as google_id_token
from joserfc.jwk import RSAKey

from taskbell.clock import SystemClock
from taskbell.core.instant import SECOND
from taskbell.engines.memory import MemoryEngine
from taskbell.senders.issuer import DISCOVERY_PATH, JWKS_PATH, KEY_RECORD, Issuer, subject_of
from taskbell.testing.clock import ManualClock
from taskbell.testing.handler import ScriptedHandler, respond

EMAIL = "courier@project.iam.gserviceaccount.com"
AUDIENCE = "http://handler.example/pay?day=1"
JSON = (("Content-Type", "application/json"),)
START = 1_700_000_000


async def served(handler: ScriptedHandler) -> Issuer:
    """An issuer whose URL is the handler's."""
    issuer = await Issuer.open(MemoryEngine(), handler.url, SystemClock())
    handler.script(DISCOVERY_PATH, respond(200, JSON, json.dumps(issuer.discovery()).encode()))
    handler.script(JWKS_PATH, respond(200, JSON, json.dumps(issuer.jwks()).encode()))
    return issuer


async def test_google_auth_verifies_a_token(handler: ScriptedHandler) -> None:
    """By the key set; claims are those of Google's own ID tokens."""
    issuer = await served(handler)
    before = int(time.time())
    token = issuer.id_token(EMAIL, AUDIENCE)
    claims = await asyncio.to_thread(
        google_id_token.verify_token, token, GoogleTransport(), AUDIENCE, handler.url + JWKS_PATH
    )
    issued = claims["iat"]
    assert before <= issued <= time.time()
    assert claims == {
        "iss": handler.url,
        "aud": AUDIENCE,
        "sub": subject_of(EMAIL),
        "azp": subject_of(EMAIL),
        "email": EMAIL,
        "email_verified": True,
        "iat": issued,
        "exp": issued + 3600,
    }


async def test_pyjwt_verifies_a_token_through_discovery(handler: ScriptedHandler) -> None:
    """It knows the issuer's URL alone, and finds the key by its id."""
    issuer = await served(handler)
    token = issuer.id_token(EMAIL, AUDIENCE)

    def verify(audience: str) -> str:
        found = GoogleTransport()(handler.url + DISCOVERY_PATH)
        discovery = json.loads(found.data)
        key = jwt.PyJWKClient(discovery["jwks_uri"]).get_signing_key_from_jwt(token)
        algorithms = discovery["id_token_signing_alg_values_supported"]
        claims = jwt.decode(token, key.key, algorithms, audience=audience, issuer=discovery["issuer"])
        return str(claims["email"])

    assert await asyncio.to_thread(verify, AUDIENCE) == EMAIL
    with pytest.raises(jwt.InvalidAudienceError):
        await asyncio.to_thread(verify, AUDIENCE + "x")


async def test_a_token_of_another_key_fails(handler: ScriptedHandler) -> None:
    """So the checks above do check."""
    await served(handler)
    stranger = await Issuer.open(MemoryEngine(), handler.url, SystemClock())
    forged = stranger.id_token(EMAIL, AUDIENCE)
    jwt_client = jwt.PyJWKClient(handler.url + JWKS_PATH)
    with pytest.raises(jwt.PyJWKClientError):
        await asyncio.to_thread(jwt_client.get_signing_key_from_jwt, forged)


async def test_the_header_names_the_key() -> None:
    """RS256, and the key's own thumbprint as its id, so that it is the same everywhere."""
    issuer = await Issuer.open(MemoryEngine(), "http://issuer", SystemClock())
    assert jwt.get_unverified_header(issuer.id_token(EMAIL, AUDIENCE)) == {
        "alg": "RS256",
        "typ": "JWT",
        "kid": issuer.kid,
    }
    assert [key["kid"] for key in issuer.jwks()["keys"]] == [issuer.kid]


async def test_only_the_public_half_is_shown() -> None:
    """Nothing in the documents signs."""
    (key,) = (await Issuer.open(MemoryEngine(), "http://issuer", SystemClock())).jwks()["keys"]
    assert set(key) == {"kty", "n", "e", "use", "alg", "kid"}


async def test_the_discovery_document() -> None:
    """What OpenID Connect Discovery requires of it; a slash at the end of the URL does not matter."""
    issuer = await Issuer.open(MemoryEngine(), "https://tasks.example/", SystemClock())
    assert issuer.discovery() == {
        "issuer": "https://tasks.example",
        "jwks_uri": "https://tasks.example/.well-known/jwks.json",
        "id_token_signing_alg_values_supported": ["RS256"],
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "claims_supported": ["iss", "aud", "sub", "azp", "email", "email_verified", "iat", "exp"],
    }


async def test_the_key_stays_with_the_store() -> None:
    """A restart, and another node that comes at the same time, sign with the same key."""
    engine = MemoryEngine()
    first, second = await asyncio.gather(*(Issuer.open(engine, "http://issuer", SystemClock()) for _ in range(2)))
    third = await Issuer.open(engine, "http://issuer", SystemClock())
    assert first.kid == second.kid == third.kid
    stored = await engine.record(KEY_RECORD)
    assert stored is not None
    key = RSAKey.import_key(stored)
    assert key.is_private
    assert key.thumbprint() == first.kid


async def test_each_attempt_gets_a_token_of_its_own_time() -> None:
    """Within one second equal claims give equal bytes; a second later they are new."""
    clock = ManualClock(START * SECOND)
    issuer = await Issuer.open(MemoryEngine(), "http://issuer", clock)
    tokens = [issuer.id_token(EMAIL, AUDIENCE), issuer.id_token(EMAIL, AUDIENCE)]
    others = [issuer.id_token(EMAIL, "http://other"), issuer.id_token("else@example.com", AUDIENCE)]
    clock.advance(SECOND)
    later = issuer.id_token(EMAIL, AUDIENCE)
    assert tokens[0] == tokens[1]
    assert len({tokens[0], *others, later}) == 4
    claims = [jwt.decode(token, options={"verify_signature": False}) for token in (tokens[0], later)]
    assert [each["iat"] for each in claims] == [START, START + 1]
    assert [each["exp"] for each in claims] == [START + 3600, START + 3601]


async def test_many_audiences_do_not_pile_up() -> None:
    """What is remembered within a second is bounded."""
    issuer = await Issuer.open(MemoryEngine(), "http://issuer", ManualClock(START * SECOND))
    tokens = {issuer.id_token(EMAIL, f"http://handler/{n}") for n in range(600)}
    assert len(tokens) == 600
    assert len(issuer._memo) <= 256


def test_a_subject_is_stable_and_looks_like_googles() -> None:
    """21 digits; pinned, because handlers may store it."""
    assert subject_of(EMAIL) == subject_of(EMAIL) != subject_of("else@example.com")
    assert len(subject_of(EMAIL)) == 21
    assert subject_of(EMAIL).isdigit()

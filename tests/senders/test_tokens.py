"""Where the bearer of an attempt comes from, with a scripted handler in the place of Google's IAM."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from google.auth import iam
from google.auth.exceptions import DefaultCredentialsError
from google.oauth2.credentials import Credentials

from taskbell.clock import SystemClock
from taskbell.core.instant import MINUTE, SECOND
from taskbell.core.target import OAuthToken, OidcToken
from taskbell.engines.memory import MemoryEngine
from taskbell.sender import TokenUnavailableError
from taskbell.senders.google import HOW_TO, GoogleTokens
from taskbell.senders.issuer import Issuer
from taskbell.senders.tokens import Tokens
from taskbell.testing.clock import ManualClock
from taskbell.testing.handler import Answer, ScriptedHandler, respond

EMAIL = "courier@project.iam.gserviceaccount.com"
URL = "http://handler.example/pay?day=1"
FAR = "2099-01-01T00:00:00Z"
PAST = "2001-01-01T00:00:00Z"


@pytest.fixture
def google(handler: ScriptedHandler, monkeypatch: pytest.MonkeyPatch) -> GoogleTokens:
    """Google's side, with the server's own credentials, and IAM where the handler is."""
    monkeypatch.setattr(iam, "_IAM_ENDPOINT", handler.url + "/access/{}")
    monkeypatch.setattr(iam, "_IAM_IDTOKEN_ENDPOINT", handler.url + "/id/{}")
    return GoogleTokens(SystemClock(), load=lambda: Credentials("own"))  # type: ignore[no-untyped-call]


async def minter(google: GoogleTokens, *, is_google_signed: bool = False) -> Tokens:
    """The minter under test."""
    issuer = await Issuer.open(MemoryEngine(), "http://issuer.example", SystemClock())
    return Tokens(issuer, google, is_google_signed=is_google_signed)


def access(token: str, expires: str = FAR) -> Answer:
    """IAM's answer to generateAccessToken."""
    return respond(200, body=json.dumps({"accessToken": token, "expireTime": expires}).encode())


def signed(claims: dict[str, Any]) -> str:
    """An ID token as IAM gives one; nobody checks its signature here."""
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in [*parts, b"signature"])


@pytest.mark.parametrize(("audience", "expected"), [("", URL), ("https://else.example", "https://else.example")])
async def test_id_tokens_come_from_our_own_issuer(google: GoogleTokens, audience: str, expected: str) -> None:
    """For the URL as given, unless the task names an audience."""
    token = await (await minter(google)).bearer(OidcToken(EMAIL, audience), URL)
    claims = jwt.decode(token, options={"verify_signature": False})
    assert (claims["iss"], claims["aud"], claims["email"]) == ("http://issuer.example", expected, EMAIL)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("", ["https://www.googleapis.com/auth/cloud-platform"]),
        ("https://scope/a https://scope/b", ["https://scope/a", "https://scope/b"]),
    ],
)
async def test_access_tokens_come_from_iam(
    google: GoogleTokens, handler: ScriptedHandler, scope: str, expected: list[str]
) -> None:
    """The server's own credentials ask for the account that the task names."""
    handler.script(f"/access/{EMAIL}", access("ya29.first"))
    assert await (await minter(google)).bearer(OAuthToken(EMAIL, scope), URL) == "ya29.first"
    (asked,) = handler.received(f"/access/{EMAIL}")
    assert asked.header("authorization") == "Bearer own"
    assert json.loads(asked.body)["scope"] == expected


async def test_access_tokens_are_used_until_they_expire(google: GoogleTokens, handler: ScriptedHandler) -> None:
    """As Google's own services do."""
    handler.script(f"/access/{EMAIL}", access("old", PAST), access("new"), access("too many"))
    tokens = await minter(google)
    assert [await tokens.bearer(OAuthToken(EMAIL), URL) for _ in range(3)] == ["old", "new", "new"]


async def test_google_signs_id_tokens_when_the_operator_says_so(google: GoogleTokens, handler: ScriptedHandler) -> None:
    """For the same audience."""
    token = signed({"aud": URL, "exp": 4_000_000_000})
    handler.script(f"/id/{EMAIL}", respond(200, body=json.dumps({"token": token}).encode()))
    tokens = await minter(google, is_google_signed=True)
    assert [await tokens.bearer(OidcToken(EMAIL), URL) for _ in range(2)] == [token, token]
    (asked,) = handler.received(f"/id/{EMAIL}")
    body = json.loads(asked.body)
    assert (body["audience"], body["includeEmail"]) == (URL, True)


@pytest.mark.parametrize("kind", ["access", "id"])
async def test_a_refusal_says_what_to_configure(google: GoogleTokens, handler: ScriptedHandler, kind: str) -> None:
    """In one line, and without IAM's own answer."""
    handler.script(f"/{kind}/{EMAIL}", respond(403, body=b'{"error": {"message": "secret detail"}}'))
    tokens = await minter(google, is_google_signed=True)
    token = OAuthToken(EMAIL) if kind == "access" else OidcToken(EMAIL)
    with pytest.raises(TokenUnavailableError) as refused:
        await tokens.bearer(token, URL)
    assert str(refused.value).startswith(f"Google gave no token for {EMAIL}: ")
    assert "roles/iam.serviceAccountTokenCreator" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("kind", ["access", "id"])
async def test_iam_out_of_reach(google: GoogleTokens, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """It is the network, not the roles."""
    monkeypatch.setattr(iam, "_IAM_ENDPOINT", "http://127.0.0.1:1/{}")
    monkeypatch.setattr(iam, "_IAM_IDTOKEN_ENDPOINT", "http://127.0.0.1:1/{}")
    tokens = await minter(google, is_google_signed=True)
    token = OAuthToken(EMAIL) if kind == "access" else OidcToken(EMAIL)
    with pytest.raises(TokenUnavailableError, match=r"^Google's IAM Credentials API cannot be reached$"):
        await tokens.bearer(token, URL)


async def test_without_google_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What google-auth finds on a machine that has none."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    tokens = await minter(GoogleTokens(SystemClock()), is_google_signed=True)
    for token in (OAuthToken(EMAIL), OidcToken(EMAIL)):
        with pytest.raises(TokenUnavailableError) as refused:
            await tokens.bearer(token, URL)
        assert str(refused.value) == HOW_TO


async def test_missing_credentials_are_looked_for_again_after_a_while() -> None:
    """Not for each attempt, because looking takes seconds; but without a restart."""
    looks = 0

    def load() -> Credentials:
        nonlocal looks
        looks += 1
        raise DefaultCredentialsError("none")  # type: ignore[no-untyped-call]

    clock = ManualClock(1_700_000_000 * SECOND)
    google = GoogleTokens(clock, load=load)
    seen = []
    for _ in range(3):
        for _ in range(2):
            with pytest.raises(TokenUnavailableError):
                await google.access_token(EMAIL, "")
        seen.append(looks)
        clock.advance(MINUTE)
    assert seen == [1, 2, 3]


async def test_what_is_kept_is_bounded() -> None:
    """A queue whose tasks all have URLs of their own does not fill the memory."""
    google = GoogleTokens(ManualClock(), load=lambda: Credentials("own"))  # type: ignore[no-untyped-call]

    for n in range(1100):
        kept = google._keep(("id", EMAIL, str(n)))
        assert kept is google._keep(("id", EMAIL, str(n)))
    assert len(google._kept) == 1024

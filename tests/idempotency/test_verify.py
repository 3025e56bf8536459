"""Who may send: tokens of Taskbell's own issuer, and forged ones."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from taskbell.core.instant import DAY, HOUR, SECOND
from taskbell.idempotency import Delivery
from taskbell.idempotency.verify import GOOGLE, UnverifiedError, Verifier, fetch_document
from taskbell.senders.issuer import DISCOVERY_PATH, JWKS_PATH, Issuer
from taskbell.testing.clock import ManualClock
from taskbell.testing.handler import Answer, ScriptedHandler, raw, respond

URL = "https://taskbell.example"
AUDIENCE = "https://orders.example/work"
EMAIL = "tasks@my-project.iam.gserviceaccount.com"
OLD = RSAKey.generate_key(2048).as_pem(private=True)
NEW = RSAKey.generate_key(2048).as_pem(private=True)


class Site:
    """The issuer's two documents, or an issuer that cannot be reached."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.fetched: list[str] = []
        self.is_up = True
        self.more_keys: list[dict[str, Any]] = []

    def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        if not self.is_up:
            raise OSError("no route")
        documents = {
            URL + DISCOVERY_PATH: self.issuer.discovery(),
            URL + JWKS_PATH: {"keys": [*self.issuer.jwks()["keys"], *self.more_keys]},
        }
        return json.dumps(documents[url]).encode()


@pytest.fixture
def manual() -> ManualClock:
    return ManualClock()


@pytest.fixture
def issuer(manual: ManualClock) -> Issuer:
    return Issuer(URL, OLD, manual)


@pytest.fixture
def site(issuer: Issuer) -> Site:
    return Site(issuer)


@pytest.fixture
def verifier(site: Site, manual: ManualClock) -> Verifier:
    return Verifier(AUDIENCE, emails=[EMAIL], issuers=[URL], now=manual.now, fetch=site.fetch)


def refused(verifier: Verifier, token: str) -> tuple[int, str]:
    """How a token is turned away."""
    with pytest.raises(UnverifiedError) as caught:
        verifier.claims(token)
    return caught.value.status, str(caught.value)


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=="))
    return claims


def resigned(issuer: Issuer, **changes: Any) -> str:
    """A token signed by the issuer with other claims; None takes one away."""
    claims = claims_of(issuer.id_token(EMAIL, AUDIENCE)) | changes
    key = RSAKey.import_key(OLD)
    return jwt.encode({"alg": "RS256", "kid": issuer.kid}, {k: v for k, v in claims.items() if v is not None}, key)


def test_a_token_of_taskbells_issuer_passes(verifier: Verifier, issuer: Issuer) -> None:
    """In a header of any case; the claims come back."""
    delivery = Delivery.of({"authorization": f"bearer {issuer.id_token(EMAIL, AUDIENCE)}"})

    claims = verifier(delivery)

    assert (claims["email"], claims["aud"], claims["iss"]) == (EMAIL, AUDIENCE, URL)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "there is no bearer token"),
        ([("Authorization", "Basic abc")], "there is no bearer token"),
        ([("Authorization", "")], "Authorization is empty"),
        ([("Authorization", "Bearer a"), ("authorization", "Bearer b")], "different values"),
        ([("Authorization", "Bearer a.b")], "no JWT"),
        ([("Authorization", "Bearer ....")], "no JWT"),
        ([("Authorization", "Bearer YQ.YQ.YQ")], "no JWT"),
        ([("Authorization", "Bearer W10.W10.")], "no JWT"),
        ([("Authorization", "Bearer " + "a" * 20_000)], "longer than"),
    ],
)
def test_what_is_no_token_is_401(verifier: Verifier, site: Site, headers: list[tuple[str, str]], reason: str) -> None:
    """And nobody is asked for keys."""
    with pytest.raises(UnverifiedError, match=reason) as caught:
        verifier(Delivery.of(headers))

    assert caught.value.status == 401
    assert site.fetched == []


def test_no_algorithm_is_401(verifier: Verifier, issuer: Issuer) -> None:
    """`alg: none`, with the true claims and no signature."""
    claims = issuer.id_token(EMAIL, AUDIENCE).split(".")[1]
    for algorithm in ("none", "None", "NONE", "", None, 7, ["RS256"]):
        head = encoded(json.dumps({"alg": algorithm, "kid": issuer.kid}).encode())

        assert refused(verifier, f"{head}.{claims}.")[0] == 401


def test_the_public_key_as_a_secret_is_401(verifier: Verifier, issuer: Issuer) -> None:
    """HS256, whose secret everybody can fetch."""
    secret = RSAKey.import_key(OLD).as_pem(private=False)
    head = encoded(json.dumps({"alg": "HS256", "kid": issuer.kid}).encode())
    signed = f"{head}.{issuer.id_token(EMAIL, AUDIENCE).split('.')[1]}"
    token = f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"

    assert refused(verifier, token) == (401, "algorithm 'HS256': expected RS256 or ES256")


def test_a_stolen_kid_with_another_key_is_401(verifier: Verifier, issuer: Issuer) -> None:
    """The signature decides, and so it does for changed claims and for an unsigned token."""
    claims = claims_of(issuer.id_token(EMAIL, AUDIENCE))
    forged = jwt.encode({"alg": "RS256", "kid": issuer.kid}, claims, RSAKey.import_key(NEW))
    head, _, signature = issuer.id_token("mallory@example.com", AUDIENCE).split(".")
    swapped = f"{head}.{encoded(json.dumps(claims).encode())}.{signature}"
    unsigned = f"{head}.{encoded(json.dumps(claims).encode())}."

    for token in (forged, swapped, unsigned):
        status, reason = refused(verifier, token)
        assert (status, reason[:22]) == (401, "the signature is wrong")


def test_a_token_does_not_choose_how_a_key_is_used(verifier: Verifier, issuer: Issuer) -> None:
    """ES256 by the id of an RSA key."""
    key = ECKey.generate_key("P-256")
    token = jwt.encode({"alg": "ES256", "kid": issuer.kid}, claims_of(issuer.id_token(EMAIL, AUDIENCE)), key)

    assert refused(verifier, token) == (401, "the key is none for ES256")


def test_a_key_that_says_nothing_of_its_use_is_held_to_its_type(verifier: Verifier, issuer: Issuer, site: Site) -> None:
    """An EC key for RS256, and a secret that somebody put among the public keys."""
    ec = ECKey.generate_key("P-256", {"kid": "bare"}).as_dict(private=False)
    secret = {"kty": "oct", "kid": "secret", "k": encoded(b"s" * 32)}
    site.more_keys = [ec, secret]
    claims = claims_of(issuer.id_token(EMAIL, AUDIENCE))

    for kid in ("bare", "secret"):
        token = jwt.encode({"alg": "RS256", "kid": kid}, claims, RSAKey.import_key(OLD))
        assert refused(verifier, token) == (401, "the key is none for RS256")


def test_what_a_token_wants_to_have_understood_is_401(verifier: Verifier, issuer: Issuer) -> None:
    """`crit` names what a verifier must know, and this one knows none of it."""
    claims = issuer.id_token(EMAIL, AUDIENCE).split(".")[1]
    head = encoded(json.dumps({"alg": "RS256", "kid": issuer.kid, "crit": ["b64"], "b64": False}).encode())

    assert refused(verifier, f"{head}.{claims}.YQ") == (401, "the header of the token has no kid, or has crit")


def test_es256_passes(verifier: Verifier, issuer: Issuer, site: Site) -> None:
    """An issuer may sign with it."""
    key = ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"})
    site.more_keys = [key.as_dict(private=False)]
    token = jwt.encode({"alg": "ES256", "kid": "ec"}, claims_of(issuer.id_token(EMAIL, AUDIENCE)), key)

    assert verifier.claims(token)["email"] == EMAIL


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"aud": "https://else.example"}, 401, "audience 'https://else.example' is not ours"),
        ({"aud": None}, 401, "audience None is not ours"),
        ({"aud": AUDIENCE + "/"}, 401, "is not ours"),
        ({"iss": "https://evil.example"}, 401, "is not one of ours"),
        ({"iss": None}, 401, "is not one of ours"),
        ({"iss": GOOGLE}, 401, "is not one of ours"),
        ({"exp": None}, 401, "exp is None"),
        ({"iat": None}, 401, "iat is None"),
        ({"exp": True}, 401, "exp is True"),
        ({"exp": "9999999999"}, 401, "exp is '9999999999'"),
        ({"exp": float("inf")}, 401, "exp is inf"),
        ({"exp": float("nan")}, 401, "exp is nan"),
        ({"nbf": 9_999_999_999}, 401, "from the future"),
        ({"email": "mallory@example.com"}, 403, "account 'mallory@example.com' may not send"),
        ({"email": None}, 403, "account None may not send"),
        ({"email_verified": False}, 403, "has not verified"),
        ({"email_verified": "true"}, 403, "has not verified"),
    ],
)
def test_a_claim_that_is_wrong(
    verifier: Verifier, issuer: Issuer, changes: dict[str, Any], status: int, reason: str
) -> None:
    """Although the issuer signed it: 401 proves nothing to us, 403 proves somebody who may not."""
    found, why = refused(verifier, resigned(issuer, **changes))

    assert found == status
    assert reason in why


def test_one_of_several_audiences_is_enough(verifier: Verifier, issuer: Issuer) -> None:
    """As JWT has it."""
    assert verifier.claims(resigned(issuer, aud=["https://else.example", AUDIENCE]))["email"] == EMAIL


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        (3629, None),
        (3630, "expired 30 s ago"),
        (-30, None),
        (-31, "from the future"),
    ],
)
def test_times_have_some_leeway(
    verifier: Verifier, issuer: Issuer, manual: ManualClock, seconds: int, reason: str | None
) -> None:
    """Half a minute, for clocks that differ."""
    token = issuer.id_token(EMAIL, AUDIENCE)
    manual.step(seconds * SECOND)

    if reason is None:
        assert verifier.claims(token)["email"] == EMAIL
    else:
        assert reason in refused(verifier, token)[1]


def test_keys_are_fetched_once_and_again_when_one_is_unknown(
    verifier: Verifier, issuer: Issuer, site: Site, manual: ManualClock
) -> None:
    """The issuer has a new key; the old one is gone with it."""
    old = issuer.id_token(EMAIL, AUDIENCE)
    verifier.claims(old)
    verifier.claims(old)
    assert len(site.fetched) == 2

    site.issuer = Issuer(URL, NEW, manual)
    manual.step(30 * SECOND)
    assert verifier.claims(site.issuer.id_token(EMAIL, AUDIENCE))["email"] == EMAIL
    assert len(site.fetched) == 4
    assert "is none of" in refused(verifier, old)[1]


def test_made_up_kids_do_not_make_us_knock_at_the_issuer(
    verifier: Verifier, issuer: Issuer, site: Site, manual: ManualClock
) -> None:
    """Twice a minute at most, and good tokens pass meanwhile."""
    stranger = Issuer(URL, NEW, manual).id_token(EMAIL, AUDIENCE)
    for _ in range(20):
        assert refused(verifier, stranger)[0] == 401
    assert len(site.fetched) == 2

    assert verifier.claims(issuer.id_token(EMAIL, AUDIENCE))["email"] == EMAIL
    manual.step(29 * SECOND)
    refused(verifier, stranger)
    assert len(site.fetched) == 2
    manual.step(SECOND)
    refused(verifier, stranger)
    assert len(site.fetched) == 4


def test_keys_outlast_an_issuer_that_is_down_but_not_for_ever(
    verifier: Verifier, issuer: Issuer, site: Site, manual: ManualClock
) -> None:
    """A day; then it is our error and not the sender's."""
    verifier.claims(issuer.id_token(EMAIL, AUDIENCE))
    site.is_up = False

    manual.step(2 * HOUR)
    assert verifier.claims(issuer.id_token(EMAIL, AUDIENCE))["email"] == EMAIL
    manual.step(DAY)
    assert refused(verifier, issuer.id_token(EMAIL, AUDIENCE)) == (500, f"the keys of {URL} could not be had")


def test_an_issuer_that_was_never_reached_is_500(verifier: Verifier, issuer: Issuer, site: Site) -> None:
    """So that the delivery comes again."""
    site.is_up = False

    assert refused(verifier, issuer.id_token(EMAIL, AUDIENCE))[0] == 500


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"issuer": "https://evil.example", "jwks_uri": URL + JWKS_PATH}, id="of somebody else"),
        pytest.param({"issuer": URL, "jwks_uri": "http://taskbell.example/keys"}, id="keys without TLS"),
        pytest.param({"issuer": URL}, id="without keys"),
        pytest.param([], id="no object"),
    ],
)
def test_a_document_that_cannot_be_trusted_is_not(issuer: Issuer, manual: ManualClock, document: object) -> None:
    """And its keys are not fetched."""
    fetched: list[str] = []

    def fetch(url: str) -> bytes:
        fetched.append(url)
        return json.dumps(document).encode()

    verifier = Verifier(AUDIENCE, emails=[EMAIL], issuers=[URL], now=manual.now, fetch=fetch)

    assert refused(verifier, issuer.id_token(EMAIL, AUDIENCE))[0] == 500
    assert fetched == [URL + DISCOVERY_PATH]


@pytest.mark.parametrize("spelled", [GOOGLE, "accounts.google.com"])
def test_googles_issuer_is_known_by_both_its_names(manual: ManualClock, spelled: str) -> None:
    """Its tokens come with and without the scheme."""
    key = RSAKey.import_key(OLD, {"kid": "g"})
    claims = {"iss": spelled, "aud": AUDIENCE, "email": EMAIL, "email_verified": True}
    claims |= {"iat": manual.now() // SECOND, "exp": manual.now() // SECOND + 3600}

    def fetch(url: str) -> bytes:
        documents: dict[str, object] = {
            GOOGLE + DISCOVERY_PATH: {"issuer": GOOGLE, "jwks_uri": "https://www.googleapis.com/oauth2/v3/certs"},
            "https://www.googleapis.com/oauth2/v3/certs": {"keys": [key.as_dict(private=False)]},
        }
        return json.dumps(documents[url]).encode()

    verifier = Verifier(AUDIENCE, emails=[EMAIL], now=manual.now, fetch=fetch)

    assert verifier.claims(jwt.encode({"alg": "RS256", "kid": "g"}, claims, key))["email"] == EMAIL


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Verifier("", emails=[EMAIL]), "audience is empty"),
        (lambda: Verifier([], emails=[EMAIL]), "audience is empty"),
        (lambda: Verifier(AUDIENCE, emails=[]), "emails is empty"),
        (lambda: Verifier(AUDIENCE, emails=None), "Google signs a token for any audience for anybody"),
        (lambda: Verifier(AUDIENCE, emails=None, issuers=[GOOGLE + "/"]), "Google signs a token"),
        (lambda: Verifier(AUDIENCE, emails=[EMAIL], issuers=["taskbell"]), "expected a URL"),
    ],
)
def test_what_would_let_anybody_in_is_refused(make: Callable[[], Verifier], reason: str) -> None:
    """When it is made, with the reason."""
    with pytest.raises(ValueError, match=reason):
        make()


def test_any_account_of_ones_own_issuer_may_be_let_in(issuer: Issuer, site: Site, manual: ManualClock) -> None:
    """On purpose."""
    verifier = Verifier(AUDIENCE, emails=None, issuers=[URL], now=manual.now, fetch=site.fetch)

    assert verifier.claims(issuer.id_token("any@example.com", AUDIENCE))["email"] == "any@example.com"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com/keys", "data:,x"])
def test_only_http_is_fetched(url: str) -> None:
    """Whatever a document says of its keys."""
    with pytest.raises(OSError, match="no HTTP URL"):
        fetch_document(url)


async def test_keys_come_over_http(manual: ManualClock) -> None:
    """By the standard library's own client."""
    async with ScriptedHandler() as handler:
        issuer = Issuer(handler.url, OLD, manual)
        handler.script(DISCOVERY_PATH, respond(body=json.dumps(issuer.discovery()).encode()))
        handler.script(JWKS_PATH, respond(body=json.dumps(issuer.jwks()).encode()))
        verifier = Verifier(AUDIENCE, emails=[EMAIL], issuers=[handler.url], now=manual.now)

        claims = await asyncio.to_thread(verifier.claims, issuer.id_token(EMAIL, AUDIENCE))

    assert claims["email"] == EMAIL


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(respond(302, (("Location", "/else"),)), id="a redirect is not followed"),
        pytest.param(respond(500), id="an error"),
        pytest.param(respond(body=b" " * 1_048_577), id="more than a document"),
        pytest.param(raw(b"no HTTP at all\r\n\r\n"), id="no HTTP"),
    ],
)
async def test_an_issuer_that_answers_badly_is_500(manual: ManualClock, answer: Answer) -> None:
    """And takes nobody down."""
    async with ScriptedHandler() as handler:
        issuer = Issuer(handler.url, OLD, manual)
        handler.script(DISCOVERY_PATH, answer)
        verifier = Verifier(AUDIENCE, emails=[EMAIL], issuers=[handler.url], now=manual.now)

        status, _ = await asyncio.to_thread(refused, verifier, issuer.id_token(EMAIL, AUDIENCE))
        paths = [request.target for request in handler.received()]

    assert status == 500
    assert paths == [DISCOVERY_PATH]

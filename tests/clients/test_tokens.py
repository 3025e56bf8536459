"""A handler verifies the token of a delivery, knowing only the issuer: with google-auth, PyJWT and Node's jose."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import grpc
import jwt
import pytest
from google.auth.transport import requests
from google.cloud import tasks_v2
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport
from google.oauth2 import id_token

from tests.clients import foreign
from tests.clients.scenario import LOCATION
from tests.support.receiver import Receiver
from tests.support.server import ServerProcess

EMAIL = "courier@tokens.iam.gserviceaccount.com"
Claims = dict[str, Any]


def _deliver(server: ServerProcess, receiver: Receiver, queue_id: str, audience: str) -> list[str]:
    """The tokens of two attempts of one task, the first of which the handler refused."""
    path = f"/tokens/{queue_id}?day=1"
    receiver.script(path, 500, 200)
    parent = f"projects/tokens/locations/{LOCATION}"
    queue = f"{parent}/queues/{queue_id}"
    with tasks_v2.CloudTasksClient(
        transport=CloudTasksGrpcTransport(channel=grpc.insecure_channel(server.address))
    ) as client:
        client.create_queue(parent=parent, queue=tasks_v2.Queue(name=queue))
        token = tasks_v2.OidcToken(service_account_email=EMAIL, audience=audience)
        request = tasks_v2.HttpRequest(url=receiver.url + path, oidc_token=token)
        client.create_task(parent=queue, task=tasks_v2.Task(http_request=request))
    tokens = []
    for received in receiver.wait(path, 2):
        scheme, _, value = (received.header("Authorization") or "").partition(" ")
        assert scheme == "Bearer"
        tokens.append(value)
    return tokens


def _discover(server: ServerProcess) -> Claims:
    with urllib.request.urlopen(f"{server.url}/.well-known/openid-configuration", timeout=10) as answer:
        discovered: Claims = json.load(answer)
    return discovered


def _with_google_auth(server: ServerProcess, token: str, audience: str) -> Claims:
    certs = _discover(server)["jwks_uri"]
    claims: Claims = dict(id_token.verify_token(token, requests.Request(), audience, certs_url=certs))
    return claims


def _with_pyjwt(server: ServerProcess, token: str, audience: str) -> Claims:
    discovered = _discover(server)
    key = jwt.PyJWKClient(discovered["jwks_uri"]).get_signing_key_from_jwt(token)
    return jwt.decode(
        token,
        key,
        algorithms=["RS256"],
        audience=audience,
        issuer=discovered["issuer"],
        options={"require": ["exp", "iat", "iss", "aud", "sub"]},
    )


def _with_jose(server: ServerProcess, token: str, audience: str) -> Claims:
    claims: Claims = json.loads(foreign.run_node("verify.mjs", server.url, audience, token))
    return claims


VERIFIERS = [_with_google_auth, _with_pyjwt, _with_jose]


@pytest.mark.timeout(foreign.BUILD_TIMEOUT)
@pytest.mark.parametrize("verify", VERIFIERS)
def test_token_is_verified_through_discovery(
    verify: Callable[[ServerProcess, str, str], Claims], server: ServerProcess, receiver: Receiver
) -> None:
    """The claims are those of a Google ID token, and the audience is the URL unless the task names another."""
    queue_id = f"verify{verify.__name__}".replace("_", "-")
    for audience in ("", "https://orders.example"):
        tokens = _deliver(server, receiver, f"{queue_id}-{len(audience)}", audience)
        url = f"{receiver.url}/tokens/{queue_id}-{len(audience)}?day=1"
        claims = verify(server, tokens[-1], audience or url)
        assert (claims["email"], claims["email_verified"], claims["aud"]) == (EMAIL, True, audience or url)
        assert claims["iss"] == _discover(server)["issuer"]
        assert claims["sub"] == claims["azp"]
        assert claims["exp"] == claims["iat"] + 3600
        assert abs(claims["iat"] - time.time()) < 30
        with pytest.raises(Exception, match=r"(?i)aud"):
            verify(server, tokens[-1], "https://elsewhere.example")


@pytest.mark.timeout(foreign.BUILD_TIMEOUT)
@pytest.mark.parametrize("verify", VERIFIERS)
def test_forged_token_is_refused(
    verify: Callable[[ServerProcess, str, str], Claims], server: ServerProcess, receiver: Receiver
) -> None:
    """A token whose claims were changed after signing does not pass."""
    queue_id = f"forge{verify.__name__}".replace("_", "-")
    head, claims, signature = _deliver(server, receiver, queue_id, "https://orders.example")[0].split(".")
    told = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    told["email"] = "mallory@tokens.iam.gserviceaccount.com"
    forged = base64.urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("=")
    with pytest.raises(Exception, match=r"(?i)signature"):
        verify(server, f"{head}.{forged}.{signature}", "https://orders.example")

"""Publishing: the call that goes out, what each answer means, and that Google's emulator takes it for what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.auth.exceptions import RefreshError, TransportError
from google.oauth2.credentials import Credentials

from taskbell.core.instant import MILLISECOND
from taskbell.core.target import Headers
from taskbell.sender import Failure, Outcome, Request, TokenUnavailableError
from taskbell.senders.google import HOW_TO, GoogleTokens
from taskbell.senders.http import HttpSender
from taskbell.senders.pubsub import PubsubSender
from taskbell.testing.clock import ManualClock
from taskbell.testing.handler import Answer, ScriptedHandler, close, respond, stall
from tests.support.pubsub import Message, PubsubEmulator, pubsub_emulator

TOPIC = "projects/p/topics/t"
PUBLISH = f"/v1/{TOPIC}:publish"
EVERY_BYTE = bytes(range(256))


def message(data: bytes = b"hello", attributes: Headers = (), topic: str = TOPIC) -> Request:
    """What a job's attempt hands over."""
    return Request("POST", topic, attributes, data, None)


async def own_token() -> str:
    """A bearer."""
    return "ya29.own"


@pytest.mark.parametrize(
    ("data", "attributes", "sent"),
    [
        (b"hello", (), {"data": "aGVsbG8="}),
        (b"", (("a", "1"), ("B", "ü")), {"attributes": {"a": "1", "B": "ü"}}),
        (b"\x00\xff", (("a", ""),), {"data": "AP8=", "attributes": {"a": ""}}),
    ],
)
async def test_one_call_publishes_one_message(
    sender: HttpSender, handler: ScriptedHandler, data: bytes, attributes: Headers, sent: object
) -> None:
    """The REST method, a bearer, and JSON without what is empty."""
    outcome = await PubsubSender(sender, handler.url + "/", own_token).send(message(data, attributes))

    (received,) = handler.requests
    assert outcome == Outcome(status=200)
    assert (received.method, received.target) == ("POST", PUBLISH)
    assert json.loads(received.body) == {"messages": [sent]}
    assert received.header("content-type") == "application/json"
    assert received.header("authorization") == "Bearer ya29.own"


@pytest.mark.parametrize(
    ("topic", "path"),
    [
        ("projects/example.com:p/topics/t", "/v1/projects/example.com:p/topics/t:publish"),
        ("projects/p/topics/a+b%~c", "/v1/projects/p/topics/a%2Bb%25~c:publish"),
    ],
)
async def test_names_are_escaped_once(sender: HttpSender, handler: ScriptedHandler, topic: str, path: str) -> None:
    """What a topic may be called and a path may not say."""
    await PubsubSender(sender, handler.url, None).send(message(topic=topic))

    assert handler.requests[0].target == path


async def test_the_emulator_gets_no_bearer(sender: HttpSender, handler: ScriptedHandler) -> None:
    """It would not know what to do with one, and nobody else should see it."""
    await PubsubSender(sender, handler.url, None).send(message())

    assert handler.requests[0].header("authorization") is None


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500, 503])
async def test_a_refusal_is_the_status_that_came(sender: HttpSender, handler: ScriptedHandler, status: int) -> None:
    """404: there is no such topic; 403: the server's account may not publish to it."""
    handler.script(PUBLISH, respond(status, body=b'{"error": {"code": 0}}'))

    outcome = await PubsubSender(sender, handler.url, own_token).send(message())

    assert (outcome.status, outcome.failure) == (status, None)


@pytest.mark.parametrize(
    ("answer", "failure"), [(stall(), Failure.TIMEOUT), (close(), Failure.BROKEN)], ids=["stall", "close"]
)
async def test_silence_is_a_failure(
    sender: HttpSender, handler: ScriptedHandler, answer: Answer, failure: Failure
) -> None:
    """After the sender's own deadline: that of the job is not for Pub/Sub."""
    handler.script(PUBLISH, answer)

    outcome = await PubsubSender(sender, handler.url, own_token, 100 * MILLISECOND).send(message())

    assert outcome.failure is failure


async def test_out_of_reach(sender: HttpSender) -> None:
    """Nobody listens; and the sender is used like any other."""
    pubsub = PubsubSender(sender, "http://127.0.0.1:1", own_token)
    await pubsub.start()

    outcome = await pubsub.send(message())

    assert outcome.failure is Failure.UNREACHABLE
    await pubsub.close()


async def test_without_credentials_nothing_is_sent(sender: HttpSender, handler: ScriptedHandler) -> None:
    """The reason says what to configure."""

    async def unavailable() -> str:
        raise TokenUnavailableError(HOW_TO)

    outcome = await PubsubSender(sender, handler.url, unavailable).send(message())

    assert outcome == Outcome(failure=Failure.UNSENDABLE, reason=HOW_TO)
    assert handler.requests == []


async def test_the_bearer_is_the_servers_own() -> None:
    """It impersonates nobody, and is asked for once."""
    loads = []

    def load() -> Credentials:
        loads.append(1)
        return Credentials("own")  # type: ignore[no-untyped-call]

    google = GoogleTokens(ManualClock(), load=load)

    assert [await google.own_token() for _ in range(2)] == ["own", "own"]
    assert loads == [1]


def _error(kind: Any, text: str) -> Exception:
    """An error of google-auth, which does not declare its types."""
    error: Exception = kind(text)
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (_error(TransportError, "dns"), "Google's token endpoint cannot be reached"),
        (
            _error(RefreshError, "invalid_grant: secret detail"),
            "Google gave no token for the server's own credentials: they may be revoked or have expired",
        ),
    ],
)
async def test_credentials_that_give_no_token(error: Exception, said: str) -> None:
    """Whether it is the network or the credentials, without Google's own answer."""

    class Refused(Credentials):  # type: ignore[misc, no-any-unimported, unused-ignore]
        def refresh(self, request: object) -> None:
            raise error

    google = GoogleTokens(ManualClock(), load=lambda: Refused(None), transport=object())  # type: ignore[no-untyped-call]

    with pytest.raises(TokenUnavailableError) as unavailable:
        await google.own_token()

    assert str(unavailable.value) == said


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PubsubEmulator]:
    """Google's own emulator."""
    with pubsub_emulator(tmp_path_factory.mktemp("pubsub")) as running:
        yield running


@pytest.mark.parametrize(
    ("topic_id", "data", "attributes"),
    [
        ("both", EVERY_BYTE, (("one", "1"), ("two", "zwei ✓"))),
        ("data", EVERY_BYTE, ()),
        ("attributes", b"", (("only", "attributes"),)),
        ("large", EVERY_BYTE * 2000, ()),
    ],
)
async def test_googles_emulator_delivers_what_was_published(
    sender: HttpSender, emulator: PubsubEmulator, topic_id: str, data: bytes, attributes: Headers
) -> None:
    """Every value a byte can have, and every attribute."""
    topic, subscription = f"projects/p/topics/{topic_id}", f"projects/p/subscriptions/{topic_id}"
    emulator.create_topic(topic, subscription)
    pubsub = PubsubSender(sender, f"http://{emulator.address}", None)

    assert await pubsub.send(message(data, attributes, topic)) == Outcome(status=200)

    assert emulator.pull(subscription, 10) == [Message(data, dict(attributes))]


async def test_googles_emulator_refuses_as_the_service_does(sender: HttpSender, emulator: PubsubEmulator) -> None:
    """No topic: 404. No content: 400."""
    pubsub = PubsubSender(sender, f"http://{emulator.address}", None)
    emulator.create_topic("projects/p/topics/empty", "projects/p/subscriptions/empty")

    assert (await pubsub.send(message(topic="projects/p/topics/missing"))).status == 404
    assert (await pubsub.send(message(b"", (), "projects/p/topics/empty"))).status == 400

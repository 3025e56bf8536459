"""App Engine requests, on sockets: the mapped service gets them as they are, and its answer is the outcome."""

from __future__ import annotations

import pytest

from taskbell.core.app_engine import Application
from taskbell.core.instant import MILLISECOND, MINUTE, SECOND
from taskbell.core.target import Headers, Routing
from taskbell.sender import Failure, Outcome, Request
from taskbell.senders.app_engine import AppEngineSender
from taskbell.senders.http import HttpSender
from taskbell.testing.handler import ScriptedHandler, respond, stall

HEADERS: Headers = (
    ("X-AppEngine-QueueName", "q"),
    ("X-AppEngine-TaskRetryCount", "0"),
    ("User-Agent", "mine AppEngine-Google; (+http://code.google.com/appengine)"),
)


def request(uri: str = "/h", routing: Routing = Routing(), *, deadline: int | None = 5 * SECOND) -> Request:  # noqa: B008 - a value
    """An App Engine request with a body."""
    return Request("POST", uri, HEADERS, b"payload", deadline, routing)


def mapped(sender: HttpSender, *entries: str) -> AppEngineSender:
    """The sender under test."""
    return AppEngineSender(sender, Application.parse(entries))


@pytest.mark.parametrize(
    ("routing", "where"),
    [
        (Routing(), "/default"),
        (Routing("worker"), "/worker"),
        (Routing("worker", "v1"), "/worker-v1"),
        (Routing("worker", "v1", "0"), "/worker-v1-0"),
        (Routing("worker", "v2", "0"), "/worker"),
        (Routing("nobody", "v1"), "/default"),
    ],
)
async def test_h21_each_routing_reaches_its_service(
    sender: HttpSender, handler: ScriptedHandler, routing: Routing, where: str
) -> None:
    """Service, version and instance, at addresses that the operator chose."""
    names = {"default": "default", "worker": "worker", "worker:v1": "worker-v1", "worker:v1:0": "worker-v1-0"}
    app_engine = mapped(sender, *(f"{name}={handler.url}/{place}" for name, place in names.items()))

    assert await app_engine.send(request("/tasks/x?a=b%20c", routing)) == Outcome(status=200)

    (received,) = handler.requests
    assert received.target == f"{where}/tasks/x?a=b%20c"


async def test_h22_the_request_arrives_as_it_was_built(sender: HttpSender, handler: ScriptedHandler) -> None:
    """Every header with its value, the body, and the Host of the address that it went to."""
    await mapped(sender, f"default={handler.url}").send(request())

    (received,) = handler.requests
    assert received.body == b"payload"
    assert {name.lower(): value for name, value in received.headers} == {
        **{name.lower(): value for name, value in HEADERS},
        "host": handler.authority,
        "content-length": "7",
    }


async def test_two_services_are_two_places(sender: HttpSender, handler: ScriptedHandler) -> None:
    """What is meant for one never comes to the other."""
    async with ScriptedHandler() as other:
        app_engine = mapped(sender, f"default={handler.url}", f"worker={other.url}")
        await app_engine.send(request("/for-default"))
        await app_engine.send(request("/for-worker", Routing("worker")))

        assert [received.target for received in handler.requests] == ["/for-default"]
        assert [(received.target, received.header("host")) for received in other.requests] == [
            ("/for-worker", other.authority)
        ]


@pytest.mark.parametrize("status", [200, 204, 301, 302, 307, 404, 429, 500, 503])
async def test_answers_are_outcomes_and_redirects_are_not_followed(
    sender: HttpSender, handler: ScriptedHandler, status: int
) -> None:
    """503 among them: that it means the system and not the handler is for the rules to say."""
    handler.script("/h", respond(status, headers=(("Location", "/elsewhere"),)))

    outcome = await mapped(sender, f"default={handler.url}").send(request())

    assert (outcome.status, outcome.failure) == (status, None)
    assert len(handler.requests) == 1


async def test_the_targets_own_deadline_counts(sender: HttpSender, handler: ScriptedHandler) -> None:
    """Where it has one."""
    handler.script("/h", stall())

    outcome = await mapped(sender, f"default={handler.url};manual").send(request(deadline=50 * MILLISECOND))

    assert outcome.failure is Failure.TIMEOUT


class Noting:
    """A sender that sends nothing, and notes what it was given."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.requests: list[Request] = []

    async def start(self) -> None:
        """Nothing to do."""

    async def send(self, request: Request) -> Outcome:
        """Note it."""
        self.requests.append(request)
        return Outcome(status=200)

    async def close(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize(
    ("scaling", "minutes"), [("", 10), (";automatic", 10), (";manual", 1440), (";basic", 1440), (";flexible", 60)]
)
async def test_without_one_the_services_scaling_decides(scaling: str, minutes: int) -> None:
    """Ten minutes, a day, an hour: too long to be waited for, so the HTTP sender is one that only notes."""
    noting = Noting()
    app_engine = AppEngineSender(noting, Application.parse([f"default=http://main{scaling}"]))

    await app_engine.send(request(deadline=None))

    assert noting.requests == [Request("POST", "http://main/h", HEADERS, b"payload", minutes * MINUTE)]


async def test_without_a_mapping_the_reason_says_what_to_set(sender: HttpSender) -> None:
    """In one line, with the service that is missing."""
    outcome = await mapped(sender, "worker=http://127.0.0.1:1").send(request(routing=Routing("mailer")))

    assert outcome.failure is Failure.UNSENDABLE
    assert outcome.reason == (
        "no address is known for the App Engine service 'mailer': set app_engine, "
        "for example to default=http://127.0.0.1:8080"
    )


async def test_a_service_that_is_down_is_unreachable(sender: HttpSender) -> None:
    """Like any handler; and the sender is used like any other."""
    app_engine = mapped(sender, "default=http://127.0.0.1:1")
    await app_engine.start()

    outcome = await app_engine.send(request())

    assert outcome.failure is Failure.UNREACHABLE
    await app_engine.close()

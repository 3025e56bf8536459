"""What a dispatch looks like on the wire, byte for byte."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from taskbell.core.instant import SECOND
from taskbell.core.target import METHODS, Headers
from taskbell.sender import Failure, Outcome, Request
from taskbell.senders.http import HttpSender
from taskbell.senders.origin import IDLE_SECONDS
from taskbell.testing.handler import Answer, ScriptedHandler, Wire, respond

AGENT = (("User-Agent", "Google-Cloud-Tasks"),)
BODIES = {
    "empty": b"",
    "form": b"first=2018-10-24T23%3A01%3A11.954Z&second=%7B%22a%22%3A1%7D",
    "emoji": '{"a": "\U0001f600 evaluación"}'.encode(),
    "all bytes": bytes(range(256)),
    "not UTF-8": b"\xff\xfe\x80",
    "byte order mark": b"\xef\xbb\xbf{}",
    "looks like chunks": b"5\r\nhello\r\n0\r\n\r\n",
    "a megabyte": hashlib.shake_256(b"seed").digest(1 << 20),
}


def post(url: str, headers: Headers = AGENT, body: bytes | None = b"x") -> Request:
    """A POST with ample time."""
    return Request("POST", url, headers, body, 5 * SECOND)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("body", [None, b"", b"hello"], ids=["none", "empty", "some"])
async def test_exactly_what_was_asked_for_and_what_the_connection_needs(
    sender: HttpSender, handler: ScriptedHandler, method: str, body: bytes | None
) -> None:
    """No body, no length; an empty one has length 0; nothing is chunked; nothing is added but Host."""
    outcome = await sender.send(Request(method, handler.url + "/h", AGENT, body, 5 * SECOND))
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    (received,) = handler.requests
    lines = received.head.decode().split("\r\n")
    assert outcome == Outcome(status=200)
    assert lines[0] == f"{method} /h HTTP/1.1"
    expected = f"User-Agent: Google-Cloud-Tasks\r\nHost: {handler.authority}\r\n{length}\r\n"
    assert sorted(lines[1:]) == sorted(expected.split("\r\n"))
    assert received.body == (body or b"")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_bodies_are_bytes(sender: HttpSender, handler: ScriptedHandler, path: str, body: bytes) -> None:
    """They arrive unchanged, with their length."""
    await sender.send(post(handler.url + path, body=body))
    (received,) = handler.requests
    assert received.body == body
    assert received.header("content-length") == str(len(body))
    assert received.header("transfer-encoding") is None


async def test_headers_keep_their_order_and_go_out_in_title_case(
    sender: HttpSender, handler: ScriptedHandler, path: str
) -> None:
    """Values are not touched."""
    headers = (
        ("X-CloudTasks-QueueName", "q"),
        ("accept", "text/html"),
        ("x-cloudtasks-taskretryreason", ""),
        ("User-Agent", "Google-Cloud-Tasks"),
        ("A-First", 'a,b; c="d"'),
    )
    await sender.send(post(handler.url + path, headers))
    (received,) = handler.requests
    assert tuple(each for each in received.headers if each[0] != "Host")[:5] == (
        ("X-Cloudtasks-Queuename", "q"),
        ("Accept", "text/html"),
        ("X-Cloudtasks-Taskretryreason", ""),
        ("User-Agent", "Google-Cloud-Tasks"),
        ("A-First", 'a,b; c="d"'),
    )
    assert len(received.values("accept")) == 1


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a/../b",
        "/a/./b/..",
        "/%2e%2E/x/%2e",
        "//double//slash/",
        "/%41%2f%7e?%61=%2B+x",
        "/-._~!$&'()*+,;=:@",
        "/?-._~!$&'()*+,;=:@/?",
        "/.well-known/x",
        "/x?",
        "/?a=/../b",
        "/x?q=1&q=2&&=;",
    ],
)
async def test_a_legal_target_goes_out_byte_for_byte(sender: HttpSender, handler: ScriptedHandler, target: str) -> None:
    """Escapes that need not be there and dot segments included."""
    assert await sender.send(post(handler.url + target)) == Outcome(status=200)
    assert [each.target for each in handler.requests] == [target]


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ("", "/"),
        ("?x", "/?x"),
        ("/x#fragment", "/x"),
        ("/é/\U0001f600?ü", "/%C3%A9/%F0%9F%98%80?%C3%BC"),
        ("/a b\tc\nd", "/a%20b%09c%0Ad"),
        ('/"<>\\^`{|}[]', "/%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D"),
        ("/?\"<>\\^`{|}[]'", "/?%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D'"),
        ("/é/../x", "/%C3%A9/../x"),
        ("/é%20", "/%C3%A9%20"),
    ],
)
async def test_the_rest_is_encoded_once(sender: HttpSender, handler: ScriptedHandler, given: str, target: str) -> None:
    """What was encoded stays as it was."""
    assert await sender.send(post(handler.url + given)) == Outcome(status=200)
    assert [each.target for each in handler.requests] == [target]


@pytest.mark.parametrize("bad", ["/%zz", "/%", "/?%4", "/../%zz"])
async def test_a_bad_escape_is_not_sent(sender: HttpSender, handler: ScriptedHandler, bad: str) -> None:
    """The service takes it at create and fails at dispatch."""
    outcome = await sender.send(post(handler.url + bad))
    assert outcome.failure is Failure.UNSENDABLE
    assert outcome.reason == "HttpRequest.url has a bad percent escape."
    assert handler.connections == 0


async def test_credentials_in_the_url_become_a_header(sender: HttpSender, handler: ScriptedHandler, path: str) -> None:
    """They are decoded first, and are not in Host."""
    await sender.send(post(f"http://u%40d:p%3Aw@{handler.authority}{path}"))
    (received,) = handler.requests
    assert received.header("authorization") == "Basic dUBkOnA6dw=="
    assert received.header("host") == handler.authority


async def test_an_authorization_header_beats_credentials_in_the_url(
    sender: HttpSender, handler: ScriptedHandler, path: str
) -> None:
    """So a minted token is never pushed out."""
    await sender.send(post(f"http://u:p@{handler.authority}{path}", (("authorization", "Bearer t"),)))
    assert handler.requests[0].values("authorization") == ["Bearer t"]


async def test_upper_case_hosts_and_schemes_are_the_same_hosts(
    sender: HttpSender, handler: ScriptedHandler, path: str
) -> None:
    """Host is in lower case; the path keeps its own."""
    outcome = await sender.send(post(f"HTTP://LOCALHOST:{handler.port}{path}/X"))
    assert outcome == Outcome(status=200)
    assert handler.requests[0].header("host") == f"localhost:{handler.port}"
    assert handler.requests[0].target == f"{path}/X"


async def test_ipv6(sender: HttpSender, path: str) -> None:
    """An address in brackets is dialled, and named in Host with its brackets."""
    async with ScriptedHandler("::1") as handler:
        assert await sender.send(post(f"http://[::1]:{handler.port}{path}")) == Outcome(status=200)
        assert handler.requests[0].header("host") == f"[::1]:{handler.port}"


async def test_connections_are_used_again(sender: HttpSender, handler: ScriptedHandler) -> None:
    """One after the other, a few connections are enough: each rests for a moment before it is used again."""
    for _ in range(200):
        await sender.send(post(handler.url + "/h"))
    assert len({each.connection for each in handler.requests}) <= 20


async def test_idle_connections_are_closed_after_a_while(sender: HttpSender, handler: ScriptedHandler) -> None:
    """Also those that were in use when their origin was last looked at."""
    release = asyncio.Event()

    async def act(wire: Wire) -> None:
        await release.wait()
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    handler.script("/h", Answer(act))
    running = asyncio.create_task(sender.send(post(handler.url + "/h")))
    await handler.wait_for(1)
    sender._sweep()
    release.set()
    await running
    (origin,) = sender._origins.values()
    (connection,) = origin.free
    origin.expire(connection.idle_since + IDLE_SECONDS)
    assert (origin.free, connection.is_open) == ([], False)


async def test_many_at_a_time(sender: HttpSender, handler: ScriptedHandler) -> None:
    """The sender itself limits nothing."""
    outcomes = await asyncio.gather(*(sender.send(post(f"{handler.url}/h?{n}")) for n in range(500)))
    assert set(outcomes) == {Outcome(status=200)}
    assert {each.target for each in handler.requests} == {f"/h?{n}" for n in range(500)}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(sender: HttpSender, handler: ScriptedHandler, path: str, status: int) -> None:
    """The 3xx is the answer."""
    handler.script(path, respond(status, (("Location", handler.url + "/elsewhere"),)))
    assert await sender.send(post(handler.url + path)) == Outcome(status=status)
    assert len(handler.requests) == 1


async def test_cookies_are_forgotten(sender: HttpSender, handler: ScriptedHandler) -> None:
    """Attempts know nothing of each other."""
    handler.script("/h", respond(200, (("Set-Cookie", "a=b; Path=/"),)))
    for _ in range(2):
        await sender.send(post(handler.url + "/h"))
    assert handler.requests[1].header("cookie") is None


async def test_answers_are_not_decompressed(sender: HttpSender, handler: ScriptedHandler, path: str) -> None:
    """What calls itself gzip and is not would be an error else; and a bomb stays packed."""
    handler.script(path, respond(200, (("Content-Encoding", "gzip"),), b"not gzip"))
    assert await sender.send(post(handler.url + path)) == Outcome(status=200)


async def test_proxies_of_the_environment_are_ignored(
    handler: ScriptedHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dispatch goes where its URL says."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    sender = HttpSender()
    await sender.start()
    assert await sender.send(post(handler.url + "/h")) == Outcome(status=200)
    await sender.close()


@pytest.mark.parametrize("status", [200, 201, 204, 299, 400, 404, 429, 500, 503, 599, 999])
async def test_the_status_is_the_outcome(sender: HttpSender, handler: ScriptedHandler, path: str, status: int) -> None:
    """Retry-After is kept as it came, where it can matter."""
    handler.script(path, respond(status, (("Retry-After", " Wed, 21 Oct 2026 07:28:00 GMT"),)))
    outcome = await sender.send(post(handler.url + path))
    assert outcome.status == status
    assert outcome.is_success is (status < 300)
    assert outcome.retry_after == (None if status < 300 else "Wed, 21 Oct 2026 07:28:00 GMT")


@pytest.mark.parametrize("headers", [(("A b", "c"),), (("A", "b\r\nC: d"),), (("", "x"),), (("A", "\x00"),)])
async def test_a_header_that_http_cannot_carry(
    sender: HttpSender, handler: ScriptedHandler, path: str, headers: Headers
) -> None:
    """Nothing is sent, and the reason does not quote it."""
    outcome = await sender.send(post(handler.url + path, headers))
    assert outcome.failure is Failure.UNSENDABLE
    assert outcome.reason.endswith("is not valid in HTTP")
    assert handler.requests == []

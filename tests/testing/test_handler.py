"""The scripted handler, seen by a plain socket: tests of dispatch are only as true as it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from taskbell.testing.handler import (
    Answer,
    ScriptedHandler,
    Wire,
    close,
    drip,
    early,
    flood,
    raw,
    reset,
    respond,
    response,
    stall,
)

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


class Peer:
    """One connection to a handler."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes = GET) -> bytes:
        """One request; the answer, whose length the handler states."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return head + await self.reader.readexactly(int(length or 0))

    async def end(self, request: bytes = GET) -> bytes:
        """One request; everything until the connection ends."""
        self.writer.write(request)
        return await asyncio.wait_for(self.reader.read(), 5)


@pytest.fixture
async def handler() -> AsyncIterator[ScriptedHandler]:
    """A handler without a script."""
    async with ScriptedHandler() as scripted:
        yield scripted


@pytest.fixture
async def peer(handler: ScriptedHandler) -> AsyncIterator[Peer]:
    """A connection to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", handler.port)
    yield Peer(reader, writer)
    writer.transport.abort()


async def test_it_records_what_came(handler: ScriptedHandler, peer: Peer) -> None:
    """Case, order and repetition of headers, and every byte of the body."""
    head = b"POST /a?b=%20c HTTP/1.1\r\nhost: h\r\nX-oDd: 1\r\nx-odd:  2 \r\nContent-Length: 4\r\n\r\n"
    await peer.ask(head + b"\x00\r\n\xff")
    (received,) = handler.requests
    assert (received.method, received.target, received.body) == ("POST", "/a?b=%20c", b"\x00\r\n\xff")
    assert received.headers == (("host", "h"), ("X-oDd", "1"), ("x-odd", "2"), ("Content-Length", "4"))
    assert received.head == head
    assert received.values("x-odd") == ["1", "2"]
    assert received.header("Host") == "h"
    assert received.header("missing") is None
    with pytest.raises(AssertionError, match="x-odd came 2 times"):
        received.header("x-odd")
    assert received.connection == 1


async def test_the_nth_request_gets_the_nth_answer(handler: ScriptedHandler, peer: Peer) -> None:
    """By path without its query; the last answer stays; other paths get 200."""
    handler.script("/a", respond(503, (("Retry-After", "1"),), b"no"), respond(201))
    answers = [await peer.ask(GET.replace(b"/a", path)) for path in (b"/a", b"/b", b"/a?x", b"/a")]
    assert answers[0] == b"HTTP/1.1 503 Scripted\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\nno"
    assert [answer[9:12] for answer in answers] == [b"503", b"200", b"201", b"201"]
    assert [each.target for each in handler.received("/a")] == ["/a", "/a?x", "/a"]
    assert [each.connection for each in handler.requests] == [1, 1, 1, 1]


async def test_a_new_script_begins_anew(handler: ScriptedHandler, peer: Peer) -> None:
    """So a test may change its mind half-way."""
    handler.script("/a", respond(500))
    await peer.ask()
    handler.script("/a", respond(404), respond(200))
    assert [(await peer.ask())[9:12] for _ in range(2)] == [b"404", b"200"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (raw(b"junk"), b"junk"),
        (respond(200, close=True), b"HTTP/1.1 200 Scripted\r\nContent-Length: 0\r\n\r\n"),
        (close(), b""),
    ],
    ids=["raw", "respond", "close"],
)
async def test_answers_that_end_the_connection(
    handler: ScriptedHandler, peer: Peer, answer: Answer, expected: bytes
) -> None:
    """What was said before the end arrives."""
    handler.script("/a", answer)
    assert await peer.end() == expected


async def test_a_drip_arrives_byte_by_byte(handler: ScriptedHandler, peer: Peer) -> None:
    """And is whole in the end; the connection lives on."""
    handler.script("/a", drip(b"abc", 0.001, at_once=response(200, length=3)), respond(204))
    assert (await peer.ask()).endswith(b"\r\n\r\nabc")
    assert (await peer.ask())[9:12] == b"204"


async def test_interim_answers_come_first(handler: ScriptedHandler, peer: Peer) -> None:
    """They have no length, and no body."""
    handler.script("/a", respond(200, interim=[100, 103], close=True))
    assert (await peer.end()).startswith(b"HTTP/1.1 100 Scripted\r\n\r\nHTTP/1.1 103 Scripted\r\n\r\nHTTP/1.1 200 ")


async def test_a_stall_lasts_until_the_peer_gives_up(handler: ScriptedHandler, peer: Peer) -> None:
    """What it says first arrives; the gauge shows that it runs."""
    handler.script("/a", stall(b"HTTP/1.1 "))
    peer.writer.write(GET)
    assert await peer.reader.readexactly(9) == b"HTTP/1.1 "
    assert handler.running == 1
    peer.writer.write_eof()
    assert await asyncio.wait_for(peer.reader.read(), 5) == b""
    assert (handler.running, handler.peak) == (0, 1)


async def test_a_flood_ends_with_the_connection(handler: ScriptedHandler, peer: Peer) -> None:
    """It never ends by itself."""
    ended = asyncio.Event()

    async def act(wire: Wire) -> None:
        try:
            await flood(b"head", b"x" * 1000).act(wire)
        finally:
            ended.set()

    handler.script("/a", Answer(act))
    peer.writer.write(GET)
    assert (await peer.reader.readexactly(100_000)).startswith(b"headxxx")
    assert not ended.is_set()
    peer.writer.transport.abort()
    await asyncio.wait_for(ended.wait(), 5)


@pytest.mark.parametrize("body_read", [0, 3])
async def test_an_early_answer_does_not_wait_for_the_body(handler: ScriptedHandler, peer: Peer, body_read: int) -> None:
    """It is given after as many bytes as asked for, and recorded with these."""
    handler.script("/a", early(413, body_read))
    head = b"POST /a HTTP/1.1\r\nContent-Length: 10\r\n\r\n"
    assert (await peer.end(head + b"abc"))[9:12] == b"413"
    assert handler.requests[0].body == b"abc"[:body_read]


async def test_a_reset_is_seen_as_one(handler: ScriptedHandler, peer: Peer) -> None:
    """Not as an orderly end."""
    handler.script("/a", reset())
    with pytest.raises(ConnectionResetError):
        await peer.end()


async def test_waiting_for_requests(handler: ScriptedHandler, peer: Peer) -> None:
    """It returns what came, or says what did not."""
    waiting = asyncio.create_task(handler.wait_for(2, "/a"))
    await peer.ask()
    await peer.ask()
    assert [each.target for each in await waiting] == ["/a", "/a"]
    with pytest.raises(AssertionError, match=r"^/b got 0 of 1 requests within 0\.01 s$"):
        await handler.wait_for(1, "/b", timeout=0.01)
    with pytest.raises(AssertionError, match=r"^the handler got 2 of 3 requests within 0\.01 s$"):
        await handler.wait_for(3, timeout=0.01)


async def test_the_gauge_shows_the_peak(handler: ScriptedHandler) -> None:
    """How many were being answered at one time."""
    release = asyncio.Event()

    async def act(wire: Wire) -> None:
        await release.wait()
        await wire.send(response(200))

    handler.script("/a", Answer(act))
    connections = [await asyncio.open_connection("127.0.0.1", handler.port) for _ in range(5)]
    peers = [Peer(*each) for each in connections]
    asking = [asyncio.create_task(each.ask()) for each in peers]
    await handler.wait_for(5)
    assert (handler.running, handler.peak, handler.connections) == (5, 5, 5)
    release.set()
    await asyncio.gather(*asking)
    assert (handler.running, handler.peak) == (0, 5)
    for each in peers:
        each.writer.transport.abort()


async def test_leaving_cuts_what_still_runs() -> None:
    """A test that ends in the middle leaves nothing behind."""
    async with ScriptedHandler() as handler:
        handler.script("/a", drip(b"x" * 100, 60))
        reader, writer = await asyncio.open_connection("127.0.0.1", handler.port)
        writer.write(GET)
        await handler.wait_for(1)
    with contextlib.suppress(ConnectionError):  # A reset is as good as an orderly end.
        assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.transport.abort()


async def test_ipv6() -> None:
    """Its URL has brackets."""
    async with ScriptedHandler("::1") as handler:
        assert handler.url == f"http://[::1]:{handler.port}"
        reader, writer = await asyncio.open_connection("::1", handler.port)
        assert (await Peer(reader, writer).ask())[9:12] == b"200"
        writer.transport.abort()

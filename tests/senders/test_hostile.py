"""Handlers at their worst: every exchange ends at its deadline at the latest, as what it was, in flat memory."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path

import pytest

from taskbell.core.instant import MILLISECOND, SECOND
from taskbell.sender import Failure, Outcome, Request
from taskbell.senders.closers import Closers
from taskbell.senders.http import HttpSender
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
from tests.senders.listener import listening

SHORT = 300 * MILLISECOND
TIMEOUT = Outcome(failure=Failure.TIMEOUT, reason="the deadline passed")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def post(url: str, body: bytes | None = b"x", deadline: int = SHORT) -> Request:
    """A POST with little time."""
    return Request("POST", url, (("User-Agent", "Google-Cloud-Tasks"),), body, deadline)


@pytest.mark.parametrize(
    "answer",
    [
        stall(),
        stall(b"HTTP/1.1 2"),
        stall(b"HTTP/1.1 200 OK\r\nContent-Le"),
        stall(response(200, length=10)),
        stall(response(200, body=b"abc", length=10)),
        stall(CHUNKED + b"5\r\nabc"),
        stall(response(100)),
        drip(response(200), 0.05),
        drip(b"x" * 1000, 0.05, at_once=b"HTTP/1.1 200 OK\r\nX-Long: "),
        drip(b"x" * 1000, 0.05, at_once=response(200, length=1000)),
        drip(b"1\r\nx\r\n" * 1000, 0.02, at_once=CHUNKED),
        drip(b"x" * 1000, 0.05, at_once=b"HTTP/1.1 200 OK\r\n\r\n"),
    ],
    ids=[
        "nothing",
        "status line stalls",
        "headers stall",
        "body stalls",
        "body stalls half-way",
        "chunk stalls",
        "only an interim answer",
        "head drips",
        "one header drips",
        "body drips",
        "chunks drip",
        "body without length drips",
    ],
)
async def test_slow_handlers_end_at_the_deadline(
    sender: HttpSender, handler: ScriptedHandler, path: str, answer: Answer
) -> None:
    """Whatever they are slow with."""
    handler.script(path, answer)
    start = time.monotonic()
    assert await sender.send(post(handler.url + path)) == TIMEOUT
    assert 0.29 < time.monotonic() - start < 5


async def test_a_slow_answer_within_the_deadline_counts(
    sender: HttpSender, handler: ScriptedHandler, path: str
) -> None:
    """One byte at a time is HTTP too."""
    handler.script(path, drip(response(201, body=b"done"), 0.001))
    assert await sender.send(post(handler.url + path, deadline=5 * SECOND)) == Outcome(status=201)


async def test_a_connection_that_is_never_accepted_ends_at_the_deadline(sender: HttpSender, path: str) -> None:
    """The deadline covers connecting: here TLS, with a peer that says nothing."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass

    async with listening(say_nothing) as port:
        assert await sender.send(post(f"https://127.0.0.1:{port}{path}")) == TIMEOUT


@pytest.mark.parametrize(
    "answer",
    [
        raw(b"\x16\x03\x01 garbage \xff\r\n\r\n"),
        raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
        raw(b"HTTP/2 200 OK\r\n\r\n"),
        raw(b"HTTP/1.1 2000 OK\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        raw(CHUNKED + b"zz\r\n"),
        raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        flood(b"HTTP/1.1 200 OK\r\n", b"X-Header: value\r\n" * 1000),
        flood(b"HTTP/1.1 200 OK\r\nX-Header: ", b"v" * 16384),
        close(),
        close(body_read=0),
        reset(),
        reset(b"HTTP/1.1 200 OK\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
        raw(response(200, body=b"abc", length=10)),
        raw(response(500, body=b"abc", length=10)),
        raw(CHUNKED + b"5\r\nabc"),
        raw(CHUNKED + b"3\r\nabc\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
    ],
    ids=[
        "garbage",
        "another protocol",
        "HTTP/2",
        "status of four digits",
        "header without a colon",
        "negative length",
        "two lengths",
        "bad chunk",
        "switches protocols",
        "endless headers",
        "endless header",
        "closes",
        "closes before the body",
        "resets",
        "resets in the head",
        "closes in the head",
        "body cut short",
        "body of an error cut short",
        "chunk cut short",
        "chunks without an end",
        "two framings",
    ],
)
async def test_broken_exchanges(sender: HttpSender, handler: ScriptedHandler, path: str, answer: Answer) -> None:
    """A body that is cut short within what we read is a broken exchange, a 2xx before it or not."""
    handler.script(path, answer)
    outcome = await sender.send(post(handler.url + path, deadline=5 * SECOND))
    assert outcome.failure is Failure.BROKEN
    assert outcome.reason
    assert "\n" not in outcome.reason
    assert "abc" not in outcome.reason
    assert "garbage" not in outcome.reason


@pytest.mark.parametrize(
    "answer",
    [
        flood(response(200, length=10**15), b"x" * 65536),
        flood(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"),
        flood(CHUNKED, b"1\r\nx\r\n" * 1000),
        flood(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536),
        stall(response(200, body=b"x" * 65536, length=10**6)),
    ],
    ids=["by length", "by chunks", "by tiny chunks", "until close", "stalls past the cap"],
)
async def test_an_endless_body_is_cut_off_at_once(
    sender: HttpSender, handler: ScriptedHandler, path: str, answer: Answer
) -> None:
    """Its status counts; the handler sees the connection close."""
    ended = asyncio.Event()

    async def act(wire: Wire) -> None:
        try:
            await answer.act(wire)
        finally:
            ended.set()

    handler.script(path, Answer(act))
    start = time.monotonic()
    assert await sender.send(post(handler.url + path, deadline=60 * SECOND)) == Outcome(status=200)
    await asyncio.wait_for(ended.wait(), 20)
    assert time.monotonic() - start < 20


async def test_endless_interim_answers(sender: HttpSender, handler: ScriptedHandler, path: str) -> None:
    """They are no answer."""
    handler.script(path, flood(b"", response(103) * 10))
    outcome = await sender.send(post(handler.url + path))
    assert outcome.failure in {Failure.TIMEOUT, Failure.BROKEN}


@pytest.mark.parametrize("interim", [[100], [102, 103, 103]])
async def test_interim_answers_are_skipped(
    sender: HttpSender, handler: ScriptedHandler, path: str, interim: list[int]
) -> None:
    """The final status counts."""
    handler.script(path, respond(202, interim=interim))
    assert await sender.send(post(handler.url + path)) == Outcome(status=202)


@pytest.mark.parametrize("body_read", [0, 100_000])
async def test_an_early_answer_is_seen(sender: HttpSender, handler: ScriptedHandler, path: str, body_read: int) -> None:
    """A handler that refuses a large body answers 413 and closes while we still write."""
    handler.script(path, early(413, body_read))
    for _ in range(20):
        outcome = await sender.send(post(handler.url + path, b"x" * (1 << 20), 5 * SECOND))
        assert outcome == Outcome(status=413)


async def test_a_handler_that_never_reads(sender: HttpSender, path: str) -> None:
    """Writing ends at the deadline too."""

    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with listening(read_nothing) as port:
        assert await sender.send(post(f"http://127.0.0.1:{port}{path}", b"x" * (16 << 20))) == TIMEOUT


@pytest.mark.parametrize(
    "answer",
    [raw(b"HTTP/1.1 200 OK\r\n\r\nuntil close"), raw(b"HTTP/1.0 200 OK\r\n\r\nold")],
)
async def test_answers_that_end_with_the_connection(
    sender: HttpSender, handler: ScriptedHandler, path: str, answer: Answer
) -> None:
    """They are whole, and the next attempt makes a new connection."""
    handler.script(path, answer)
    for _ in range(3):
        assert await sender.send(post(handler.url + path)) == Outcome(status=200)
    assert handler.connections == 3


async def test_chunks_with_an_end_are_whole(sender: HttpSender, handler: ScriptedHandler, path: str) -> None:
    """Whether the connection lives on or not."""
    handler.script(path, raw(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"))
    assert await sender.send(post(handler.url + path)) == Outcome(status=200)


async def test_a_handler_that_closes_every_connection_without_saying_so(
    sender: HttpSender, handler: ScriptedHandler
) -> None:
    """One attempt may meet a connection that is just being closed; no later one does, and none is sent twice."""
    handler.script("/h", respond(200, close=True))
    outcomes = [await sender.send(post(f"{handler.url}/h?{n}", deadline=5 * SECOND)) for n in range(100)]
    failures = [each for each in outcomes if each.status != 200]
    assert len(failures) <= 1
    targets = [each.target for each in handler.requests]
    assert len(set(targets)) == len(targets) >= 99


@pytest.mark.parametrize("broken", [close(), reset(), raw(b"garbage\r\n\r\n")], ids=["closes", "resets", "garbage"])
async def test_after_a_broken_exchange_connections_are_fresh(
    sender: HttpSender, handler: ScriptedHandler, broken: Answer
) -> None:
    """For the same origin, whatever the path; other origins are not concerned."""
    handler.script("/h", broken, respond(200))
    assert (await sender.send(post(handler.url + "/h"))).failure is Failure.BROKEN
    for path in ("/h", "/other", "/h?x", "", "/..well", "/é"):
        assert await sender.send(post(handler.url + path)) == Outcome(status=200)
    assert [each.header("connection") for each in handler.requests[1:]] == ["close"] * 6
    async with ScriptedHandler() as other:
        await sender.send(post(other.url + "/h"))
        assert other.requests[0].header("connection") is None


async def test_fresh_connections_end_after_a_while(handler: ScriptedHandler) -> None:
    """A handler that was mended, or only restarted, is met as before."""
    sender = HttpSender(closers_keep=0)
    await sender.start()
    handler.script("/h", close(), respond(200))
    assert (await sender.send(post(handler.url + "/h"))).failure is Failure.BROKEN
    assert await sender.send(post(handler.url + "/h")) == Outcome(status=200)
    assert handler.requests[1].header("connection") is None
    await sender.close()


def test_what_is_known_of_closers_is_bounded() -> None:
    """Thousands of hosts that break do not fill the memory."""

    async def many() -> int:
        closers = Closers(60 * SECOND)
        for n in range(3000):
            closers.add(f"http://host-{n}/x")
        assert "http://host-2999/y" in closers
        return len(closers._until)

    assert asyncio.run(many()) <= 1024


async def test_nothing_is_sent_twice_within_one_attempt(sender: HttpSender, handler: ScriptedHandler) -> None:
    """A connection that breaks after the request was written may have done its work: the queue decides on a retry."""
    handler.script("/h", respond(200), close(), close())
    await sender.send(post(handler.url + "/h"))
    assert (await sender.send(post(handler.url + "/h"))).failure is Failure.BROKEN
    assert len(handler.requests) == 2


async def test_nobody_listens(sender: HttpSender, path: str) -> None:
    """Refused: no connection, with the system's own words."""
    outcome = await sender.send(post(f"http://127.0.0.1:1{path}"))
    assert outcome.failure is Failure.UNREACHABLE
    assert "refused" in outcome.reason


async def test_a_name_that_does_not_resolve(sender: HttpSender, path: str) -> None:
    """No connection either; the reason names no credentials and no query."""
    outcome = await sender.send(post(f"http://user:secret@taskbell.invalid{path}?key=secret", deadline=20 * SECOND))
    assert outcome.failure is Failure.UNREACHABLE
    assert outcome.reason
    assert "secret" not in outcome.reason


@pytest.mark.parametrize("host", ["1.2.3.4.5", "256.256.256.256", "a..b%41", "xn--a"])
async def test_hosts_that_only_dispatch_can_judge(sender: HttpSender, path: str, host: str) -> None:
    """They fail as an attempt, never as an exception."""
    outcome = await sender.send(post(f"http://{host}{path}", deadline=20 * SECOND))
    assert outcome.failure in {Failure.UNSENDABLE, Failure.UNREACHABLE}


async def test_cancelling_closes_the_connection(sender: HttpSender, handler: ScriptedHandler, path: str) -> None:
    """At once, and the next exchange is not touched."""
    gone = asyncio.Event()

    async def act(wire: Wire) -> None:
        await wire.gone()
        gone.set()
        wire.close()

    handler.script(path, Answer(act))
    running = asyncio.create_task(sender.send(post(handler.url + path, deadline=60 * SECOND)))
    await handler.wait_for(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(gone.wait(), 5)
    assert (await sender.send(post(handler.url + "/other"))).is_success


async def test_closing_ends_running_sends(handler: ScriptedHandler, path: str) -> None:
    """As BROKEN: nobody knows what the handler did."""
    sender = HttpSender()
    await sender.start()
    handler.script(path, stall())
    running = asyncio.create_task(sender.send(post(handler.url + path, deadline=60 * SECOND)))
    await handler.wait_for(1)
    await sender.close()
    outcome = await asyncio.wait_for(running, 5)
    assert outcome.failure is Failure.BROKEN


async def test_memory_stays_flat(sender: HttpSender, handler: ScriptedHandler, path: str) -> None:
    """Two hundred endless answers later, little more is held than before."""
    handler.script(path, flood(response(200, length=10**15), b"x" * 65536))
    url = handler.url + path

    async def some() -> None:
        for _ in range(10):
            await asyncio.gather(*(sender.send(post(url, deadline=10 * SECOND)) for _ in range(10)))

    await some()
    before = _resident()
    await some()
    await some()
    assert _resident() - before < 32 << 20


def _resident() -> int:
    """Bytes of memory in use; where only the peak is known, that."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

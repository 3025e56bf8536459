"""One play for test_hostile.py: a server, a good handler, and beside it every kind of bad one, all at the same time.

The deadline of each hostile task is 15 s, the least that the API allows, so one play takes about that long however many
handlers misbehave. What happened is returned as facts; the tests judge them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from taskbell.testing.handler import (
    Answer,
    Received,
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
from tests.support.process import resident_bytes
from tests.support.rest import RestClient, http_task, task_name
from tests.support.server import ServerProcess

DEADLINE = 15.0
BACKOFF = 100.0
"""Seconds; a first retry comes so much after the end of the attempt, which is how the end is known."""
MAX_BACKOFF = 200.0
BIG = b"x" * 1_000_000
OK_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LOCATION = (("Location", "/redirected"),)
GOOD_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Case:
    """A bad handler, and what is expected of an attempt at it."""

    name: str
    answer: Answer | None
    """None: the connection is made, and nobody ever accepts it."""
    codes: tuple[int, ...]
    """The google.rpc.Code of the attempt; empty: the task is completed."""
    is_slow: bool = False
    """Whether only the deadline ends the attempt."""
    body: bytes = b"{}"
    http_status: int = 0


def _interims() -> Answer:
    async def act(wire: Wire) -> None:
        while True:
            await wire.send(response(100) + response(103, (("Link", "</a>; rel=preload"),)))
            await wire.pause(0.02)

    return Answer(act)


CASES = (
    Case("never accepted", None, (4,), is_slow=True),
    Case("says nothing", stall(), (4,), is_slow=True),
    Case("status line drips", drip(response(200), 0.9), (4,), is_slow=True),
    Case("headers drip", drip(b"x" * 999, 0.1, at_once=b"HTTP/1.1 200 OK\r\nX-Long: "), (4,), is_slow=True),
    Case("body drips", drip(b"x" * 999, 0.1, at_once=response(200, length=999)), (4,), is_slow=True),
    Case("chunks drip", drip(b"1\r\nx\r\n" * 999, 0.05, at_once=OK_CHUNKED), (4,), is_slow=True),
    Case("body stops half-way", stall(response(200, body=b"half", length=8)), (4,), is_slow=True),
    Case("large body is not taken", Answer(stall().act, 0), (4,), is_slow=True, body=BIG),
    Case("interim answers for ever", _interims(), (4, 14)),
    Case("headers for ever", flood(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n" * 50), (14,)),
    Case("body for ever", flood(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), ()),
    Case("error body for ever", flood(b"HTTP/1.1 500 No\r\n\r\n", b"x" * 65536), (13,), http_status=500),
    Case("garbage", raw(b"\x16\x03\x01\x00\xa5 this is no HTTP\r\n\r\n"), (14,)),
    Case("another version", raw(b"HTTP/9.9 200 OK\r\n\r\n"), (14,)),
    Case("switches protocols", raw(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), (14,)),
    Case("closes", close(), (14,)),
    Case("resets", reset(), (14,)),
    Case("resets in the headers", reset(b"HTTP/1.1 200 OK\r\nX-"), (14,)),
    Case("refuses a large body early", early(413, 100_000), (2,), body=BIG, http_status=413),
    Case("closes in a large body", close(body_read=100_000), (14,), body=BIG),
    Case("huge Retry-After", respond(503, (("Retry-After", "9" * 30),)), (14,), http_status=503),
    Case("redirects 301", respond(301, LOCATION), (2,), http_status=301),
    Case("redirects 302", respond(302, LOCATION), (2,), http_status=302),
    Case("redirects 307", respond(307, LOCATION), (2,), http_status=307),
    Case("redirects 308", respond(308, (("Location", "http://127.0.0.1:9/x"),)), (2,), http_status=308),
    Case("redirects to itself", respond(308, (("Location", "/redirects-to-itself"),)), (2,), http_status=308),
    Case("redirects nowhere", respond(302), (2,), http_status=302),
)


def queue_of(case: Case) -> str:
    """Each case has a queue of its own."""
    return case.name.lower().replace(" ", "-")


@dataclass(slots=True)
class Facts:
    """What was seen from outside."""

    first: dict[str, Any | None] = field(default_factory=dict)
    """By queue: its first task after its attempt; None when it is gone."""
    second: dict[str, Any | None] = field(default_factory=dict)
    """The task behind it, read a little later."""
    ended: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By queue: for how many seconds each connection was open, as the handler saw it."""
    good: list[Received] = field(default_factory=list)
    good_due: dict[str, float] = field(default_factory=dict)
    redirected: int = 0
    resident: list[int] = field(default_factory=list)
    """Samples of the server's memory; the first is from before."""
    unaccepted: bytes = b""
    """What was left in the connection that nobody accepted, up to its end."""


def _watched(answer: Answer, facts: Facts, queue_id: str) -> Answer:
    """The same answer, its length noted."""

    async def act(wire: Wire) -> None:
        start = time.monotonic()
        try:
            await answer.act(wire)
            await wire.gone()
        finally:
            facts.ended[queue_id].append(time.monotonic() - start)

    return Answer(act, answer.body_read)


def seconds(text: str) -> float:
    """A timestamp of the wire as wall-clock time."""
    return dt.datetime.fromisoformat(text).timestamp()


def play(server: ServerProcess) -> Facts:
    """The whole play."""
    return asyncio.run(_play(server))


async def _play(server: ServerProcess) -> Facts:
    facts = Facts()
    # A backlog and no accept: the system completes the connection, and the request lies unread.
    async with ScriptedHandler() as handler:
        with socket.create_server(("127.0.0.1", 0), backlog=8) as deaf, RestClient(server.address) as client:
            for case in CASES:
                if case.answer is not None:
                    handler.script(f"/{queue_of(case)}", _watched(case.answer, facts, queue_of(case)))
            await asyncio.to_thread(_warm_up, client, handler.url)
            await handler.wait_for(200, "/warm", 20)
            facts.resident.append(resident_bytes(server.pid))
            began = time.time()
            await asyncio.to_thread(_create_all, client, handler.url, deaf.getsockname()[1], facts)
            created = time.time()
            await _watch(server, facts, created + DEADLINE + 1.5)
            for case in CASES:
                for number, found in enumerate((facts.first, facts.second)):
                    found[queue_of(case)] = await asyncio.to_thread(_get, client, queue_of(case), f"t{number}")
            facts.good = await handler.wait_for(len(facts.good_due), "/good", 5)
            facts.redirected = len(handler.received("/redirected"))
            facts.unaccepted = await asyncio.to_thread(_accept_late, deaf)
            assert created - began < 10
    return facts


def _warm_up(client: RestClient, url: str) -> None:
    """Let buffers, pools and caches grow to their size."""
    client.create_queue("warm")
    for n in range(200):
        client.create_task("warm", http_task(f"{url}/warm", body=BIG if n % 20 == 0 else b"x"))


def _create_all(client: RestClient, url: str, deaf_port: int, facts: Facts) -> None:
    client.create_queue("good")
    start = time.time() + 0.5
    for n in range(int((DEADLINE + 1) / GOOD_EVERY)):
        due = round(start + n * GOOD_EVERY, 6)
        facts.good_due[f"g{n}"] = due
        client.create_task("good", http_task(f"{url}/good", name=task_name("good", f"g{n}"), schedule_time=due))
    for case in CASES:
        queue_id = queue_of(case)
        client.create_queue(
            queue_id,
            rateLimits={"maxConcurrentDispatches": 1},
            retryConfig={"minBackoff": f"{BACKOFF:g}s", "maxBackoff": f"{MAX_BACKOFF:g}s"},
        )
        where = f"http://127.0.0.1:{deaf_port}/x" if case.answer is None else f"{url}/{queue_id}"
        for number in range(2):
            task = http_task(where, name=task_name(queue_id, f"t{number}"), body=case.body)
            client.create_task(queue_id, {**task, "dispatchDeadline": f"{DEADLINE:g}s"})


async def _watch(server: ServerProcess, facts: Facts, until: float) -> None:
    """Sample the server's memory until then."""
    while time.time() < until:
        facts.resident.append(resident_bytes(server.pid))
        await asyncio.sleep(0.2)


def _get(client: RestClient, queue_id: str, task_id: str) -> Any | None:
    answer = client.call("GET", f"/v2/{task_name(queue_id, task_id)}")
    return answer.value if answer.status == 200 else None


def _accept_late(deaf: socket.socket) -> bytes:
    """The first connection's bytes to their end; a socket that is still open would time out."""
    deaf.settimeout(2)
    connection, _ = deaf.accept()
    with connection:
        connection.settimeout(2)
        data = b""
        while more := connection.recv(65536):
            data += more
    return data

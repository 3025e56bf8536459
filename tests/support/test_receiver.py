"""The receiver's own promises, since other tests take its word for what was on the wire."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from tests.support.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A running receiver."""
    with Receiver() as running:
        yield running


def _address(receiver: Receiver) -> tuple[str, int]:
    host, port = receiver.url.removeprefix("http://").split(":")
    return host, int(port)


def test_records_bytes_as_they_came(receiver: Receiver) -> None:
    """Header names keep case and order, repeated ones stay, and a body that looks like a head stays a body."""
    body = b"\x00\xff\r\n\r\nGET / HTTP/1.1"
    raw = b"POST /a?b=%20 HTTP/1.1\r\nX-ONE: 1\r\nx-one:  2 \r\nContent-Length: 20\r\n\r\n" + body
    with socket.create_connection(_address(receiver)) as connection:
        connection.sendall(raw)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")

    (request,) = receiver.requests("/a?b=%20")

    assert request.headers == (("X-ONE", "1"), ("x-one", "2"), ("Content-Length", str(len(body))))
    assert (request.method, request.body, request.raw) == ("POST", body, raw)
    with pytest.raises(AssertionError, match="came 2 times"):
        request.header("x-one")


def test_answers_in_turn_and_repeats_the_last(receiver: Receiver) -> None:
    """The n-th request to a path gets the n-th answer, over one connection or several, and other paths get 200."""
    receiver.script("/flaky", 503, 404)
    seen = []
    connection = http.client.HTTPConnection(*_address(receiver))
    for path in ("/flaky", "/other", "/flaky", "/flaky"):
        connection.request("POST", path, body=b"x")
        answer = connection.getresponse()
        answer.read()
        seen.append(answer.status)
    connection.close()

    assert seen == [503, 200, 404, 404]
    assert len(receiver.wait("/flaky", 3)) == 3


def test_waiting_for_a_request_that_does_not_come_fails(receiver: Receiver) -> None:
    """A wait says how many came."""
    with pytest.raises(AssertionError, match="/never got 0 of 1 requests"):
        receiver.wait("/never", 1, timeout=0.05)

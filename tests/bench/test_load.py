"""A benchmark counts only calls that succeeded: an error of gRPC is HTTP 200 too, and must not look like speed."""

from __future__ import annotations

import pytest

from bench.handler import Counter, content_length
from bench.load import check_answers, frame
from bench.processes import Failed

REPORT = """
finished in 31.05ms, 6441.22 req/s, 1.24MB/s
requests: 200 total, 200 started, 200 done, {succeeded} succeeded, 0 failed, 0 errored, 0 timeout
traffic: 39.58KB (40532) total, 1.09KB (1118) headers (space savings 95.46%), 32.96KB ({data}) data
"""


def test_a_message_is_framed_with_its_length() -> None:
    """A byte that says not compressed, four bytes of length, the message."""
    assert frame(b"abc") == b"\0\0\0\0\3abc"


def test_a_report_of_answered_calls_passes() -> None:
    """An empty answer is five bytes of frame for each call."""
    check_answers(REPORT.format(succeeded=200, data=1000), 200, "")


@pytest.mark.parametrize(
    "report",
    [
        "",
        REPORT.format(succeeded=199, data=1000),
        REPORT.format(succeeded=200, data=999),
        REPORT.format(succeeded=200, data=0),
    ],
)
def test_a_report_with_unanswered_calls_fails(report: str) -> None:
    """No report, a lost call, or a call that was refused and so has no data."""
    with pytest.raises(Failed, match="not all of 200 calls"):
        check_answers(report, 200, "")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"POST /h HTTP/1.1\r\nContent-Length: 100\r\nHost: x", 100),
        (b"POST /h HTTP/1.1\r\nhost: x\r\ncontent-length:7", 7),
        (b"GET /n HTTP/1.1\r\nHost: x", 0),
    ],
)
def test_the_handler_finds_the_length_of_a_body(head: bytes, expected: int) -> None:
    """In any case, anywhere in the head; none means no body."""
    assert content_length(head) == expected


def test_the_handler_counts_what_is_not_a_question() -> None:
    """Arrivals move the count and the span; a reset forgets both and may ask for each arrival to be kept."""
    counter = Counter()
    counter.arrive()
    counter.arrive()
    first, last = counter.first, counter.last

    assert counter.answer(b"/h") is None
    assert counter.answer(b"/n") == b"2"
    assert counter.answer(b"/span") == f"2 {first} {last}".encode()
    assert 0 < first <= last
    assert counter.answer(b"/reset?record") == b"ok"
    assert counter.answer(b"/span") == b"0 0 0"
    counter.arrive()
    assert counter.answer(b"/times") == f"[{counter.last}]".encode()

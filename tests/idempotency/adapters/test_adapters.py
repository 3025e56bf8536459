"""What every adapter does, through the real machinery of its framework."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol, Unpack

import pytest

from taskbell.core.claim import Answer, Bid, Status
from taskbell.idempotency import (
    MINUTE,
    Delivery,
    Guard,
    KeyRule,
    MemoryStore,
    PermanentFailure,
    Responses,
    Run,
    current_run,
)
from taskbell.idempotency.adapters.exchange import Options
from taskbell.idempotency.verify import UnverifiedError
from taskbell.testing.thread_clock import ManualThreadClock
from tests.idempotency.adapters.fronts import FRONTS, Front, Handle, Reply

TASK = {"X-CloudTasks-QueueName": "orders", "X-CloudTasks-TaskName": "order-17"}
KEY = KeyRule().key(Delivery.of(TASK))
MADE = Reply(201, b"the report", {"Content-Type": "text/plain", "Location": "/17", "X-Own": "a"})


class Make(Protocol):
    """Put a handler behind an adapter."""

    def __call__(self, handle: Handle, **options: Unpack[Options]) -> Front: ...


@pytest.fixture(params=FRONTS)
def make(request: pytest.FixtureRequest, store: MemoryStore, tmp_path: Path) -> Make:
    return lambda handle, **options: FRONTS[request.param](store, handle, tmp_path, **options)


class Counting:
    """A handler that counts, and answers as it is told: the last for ever."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.bodies: list[bytes] = []
        self._replies = list(replies) or [MADE]

    def __call__(self, body: bytes) -> Reply:
        self.bodies.append(body)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_the_work_runs_once_and_its_answer_is_given_again(make: Make) -> None:
    """Status, body and the headers that are kept; the first caller gets all of them."""
    handle = Counting()
    front = make(handle)

    first, second = front.send(TASK, b"order"), front.send({k.lower(): v for k, v in TASK.items()}, b"order")

    assert handle.bodies == [b"order"]
    assert (first.status, first.body, first.headers["x-own"]) == (201, b"the report", "a")
    assert (second.status, second.body) == (201, b"the report")
    assert second.headers["content-type"] == first.headers["content-type"]
    assert second.headers["location"] == "/17"
    assert second.headers.get("content-length", "10") == "10"
    assert "x-own" not in second.headers


@pytest.mark.parametrize(
    ("headers", "missing"),
    [
        pytest.param({}, b"Neither Idempotency-Key", id="none"),
        pytest.param({"X-CloudTasks-QueueName": "orders"}, b"X-CloudTasks-TaskName is missing", id="half"),
        pytest.param({"Idempotency-Key": ""}, b"Idempotency-Key is empty", id="empty"),
    ],
)
def test_a_missing_key_is_400_and_nothing_runs(
    make: Make, headers: dict[str, str], missing: bytes, store: MemoryStore
) -> None:
    """Never a key that others share."""
    handle = Counting()

    reply = make(handle).send(headers)

    assert reply.status == 400
    assert reply.body.startswith(missing)
    assert handle.bodies == []


def test_a_duplicate_waits_while_the_work_is_being_done(make: Make, guard: Guard) -> None:
    """409 with Retry-After, and no second start."""
    other = guard.claim(KEY)
    assert isinstance(other, Run)
    handle = Counting()

    reply = make(handle).send(TASK)
    other.release()

    assert (reply.status, reply.headers["retry-after"], reply.body) == (409, "60", b"Run in progress")
    assert handle.bodies == []


def test_in_progress_may_be_another_status_but_not_503_for_app_engine(make: Make, store: MemoryStore) -> None:
    """Told when it is configured if it can be known then, and put right when only the delivery tells."""
    store.claim(Bid(KEY.text, "other", MINUTE, MINUTE))
    front = make(Counting(), responses=Responses(503))

    assert front.send(TASK).status == 503
    assert front.send({**TASK, "User-Agent": "AppEngine-Google; (+http://code.google.com/appengine)"}).status == 409
    with pytest.raises(ValueError, match="overloaded system"):
        make(Counting(), responses=Responses(503, app_engine=True))


def test_duplicates_of_work_without_an_answer_may_get_204(make: Make, guard: Guard) -> None:
    """As a record of the guide's sample has none."""
    guard.call(KEY, lambda _: None)

    reply = make(Counting(), responses=Responses(done=Answer(204))).send(TASK)

    assert (reply.status, reply.body) == (204, b"")


@pytest.mark.parametrize("status", [500, 503, 408, 409, 425, 429, 401, 403])
def test_an_answer_that_asks_for_another_try_releases(make: Make, store: MemoryStore, status: int) -> None:
    """Also 401 and 403: who is turned away must not use up the key."""
    handle = Counting(Reply(status, b"later"), MADE)
    front = make(handle)

    first = front.send(TASK)
    released = store.get(KEY.text)
    second = front.send(TASK)

    assert (first.status, first.body) == (status, b"later")
    assert released is not None
    assert released.lease_expires == 0
    assert (second.status, len(handle.bodies)) == (201, 2)


def test_it_is_released_when_the_work_raises(make: Make) -> None:
    """The framework or server answers 500, and the next delivery runs at once."""
    handle = Counting(RuntimeError("the database is away"), MADE)
    front = make(handle)

    assert front.send(TASK).status == 500
    assert front.send(TASK).status == 201
    assert len(handle.bodies) == 2


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_a_permanent_answer_completes(make: Make, status: int) -> None:
    """It would be the same next time."""
    handle = Counting(Reply(status, b"no such order"), MADE)
    front = make(handle)

    replies = [front.send(TASK), front.send(TASK)]

    assert [(reply.status, reply.body) for reply in replies] == [(status, b"no such order")] * 2
    assert len(handle.bodies) == 1


def test_which_answers_are_permanent_is_a_setting(make: Make) -> None:
    """None, here."""
    handle = Counting(Reply(404), MADE)
    front = make(handle, permanent_statuses=())

    assert [front.send(TASK).status, front.send(TASK).status] == [404, 201]


def test_a_permanent_failure_completes_with_its_answer(make: Make) -> None:
    """Raised by the handler, where an adapter can see it."""
    handle = Counting(PermanentFailure("no such order"))
    front = make(handle)

    replies = [front.send(TASK), front.send(TASK)]

    assert [(reply.status, reply.body) for reply in replies] == [(200, b"no such order")] * 2
    assert len(handle.bodies) == 1


def test_a_lost_claim_is_500_whatever_the_work_answered(
    make: Make, store: MemoryStore, clock: ManualThreadClock
) -> None:
    """What lost its claim does not stand; the delivery comes again."""

    def outlive(body: bytes) -> Reply:
        clock.advance(11 * MINUTE)
        store.claim(Bid(KEY.text, "other", MINUTE, MINUTE))
        return MADE

    reply = make(outlive).send(TASK)
    record = store.get(KEY.text)

    assert (reply.status, reply.body) == (500, b"Run taken over by another attempt")
    assert record is not None
    assert (record.attempt_id, record.status) == ("other", Status.IN_PROGRESS)


def test_the_same_key_with_another_request_is_422(make: Make) -> None:
    """When fingerprints are wanted; the handler still gets the body."""
    handle = Counting()
    front = make(handle, fingerprint=True)

    assert [front.send(TASK, body).status for body in (b"100 euros", b"100 euros", b"900 euros")] == [201, 201, 422]
    assert handle.bodies == [b"100 euros"]


def test_a_body_too_long_to_compare_is_413(make: Make, store: MemoryStore) -> None:
    """Before the claim; one that fits exactly is taken."""
    handle = Counting()
    front = make(handle, fingerprint=True, body_bytes_max=5)

    assert front.send(TASK, b"123456").status == 413
    assert store.get(KEY.text) is None
    assert front.send(TASK, b"12345").status == 201
    assert handle.bodies == [b"12345"]


@pytest.mark.parametrize(("status", "text"), [(401, b"Unauthorized"), (403, b"Forbidden")])
def test_who_may_not_send_claims_nothing(
    make: Make, store: MemoryStore, status: int, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason is in the log, and not in the answer."""

    def verify(delivery: Delivery) -> None:
        raise UnverifiedError(status, "account 'mallory' may not send")

    handle = Counting()
    with caplog.at_level(logging.WARNING, "taskbell.idempotency"):
        reply = make(handle, verify=verify).send(TASK)

    assert (reply.status, reply.body) == (status, text)
    assert "mallory" in caplog.text
    assert store.get(KEY.text) is None
    assert handle.bodies == []


def test_the_handler_reaches_its_run(make: Make) -> None:
    """For the token that it passes on."""
    tokens: list[str] = []

    def handle(body: bytes) -> Reply:
        tokens.append(current_run().token)
        return MADE

    make(handle).send(TASK)

    assert len(tokens) == 1
    assert len(tokens[0]) == 64


def test_what_is_not_guarded_passes_by(make: Make) -> None:
    """A health check has no key and needs none."""
    handle = Counting()
    front = make(handle, applies=lambda method, path: (method, path) == ("POST", "/work"))

    replies = [front.send({}, method="GET"), front.send({}, method="GET"), front.send({})]

    assert [reply.status for reply in replies] == [201, 201, 400]
    assert len(handle.bodies) == 2


def test_the_key_is_completed_before_the_answer_goes_out(
    make: Make, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that fails at the end makes the delivery fail, although the work has answered 201."""

    def away(*args: object) -> None:
        raise RuntimeError("the store is away")

    front = make(Counting())
    monkeypatch.setattr(store, "finish", away)

    assert front.send(TASK).status == 500

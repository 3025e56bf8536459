"""The HTTP answer to each outcome."""

from __future__ import annotations

import pytest

from taskbell.core.claim import Answer, Lost
from taskbell.core.instant import HOUR, MILLISECOND, SECOND
from taskbell.idempotency import (
    Failed,
    InProgress,
    Keep,
    Mismatched,
    MissingKeyError,
    Outcome,
    Ran,
    Replayed,
    Responses,
)

TEXT = ("Content-Type", "text/plain; charset=utf-8")
OK = Answer(201, (("Location", "/a"),), b"made")


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        pytest.param(Ran(OK, OK), OK, id="ran: its own"),
        pytest.param(Ran(42), Answer(200, (TEXT,), b"Run processed"), id="ran without an answer: the guide's"),
        pytest.param(Replayed(OK), OK, id="done: the stored answer"),
        pytest.param(Replayed(), Answer(200, (TEXT,), b"Duplicate run skipped"), id="done: the guide's"),
        pytest.param(Replayed(Answer(201, body=None)), Answer(201), id="done, the body not kept: its status"),
        pytest.param(
            InProgress(20 * SECOND), Answer(409, (TEXT, ("Retry-After", "20")), b"Run in progress"), id="in progress"
        ),
        pytest.param(
            InProgress(HOUR), Answer(409, (TEXT, ("Retry-After", "60")), b"Run in progress"), id="mostly over sooner"
        ),
        pytest.param(
            InProgress(MILLISECOND), Answer(409, (TEXT, ("Retry-After", "1")), b"Run in progress"), id="rounded up"
        ),
        pytest.param(InProgress(0), Answer(409, (TEXT, ("Retry-After", "1")), b"Run in progress"), id="never at once"),
        pytest.param(
            Lost(), Answer(409, (TEXT, ("Retry-After", "1")), b"Run taken over by another attempt"), id="lost: no 2xx"
        ),
        pytest.param(
            Mismatched(), Answer(422, (TEXT,), b"This key was used for another request"), id="mismatch is no success"
        ),
        pytest.param(Failed(Answer(500, body=b"x"), is_permanent=False), Answer(500, body=b"x"), id="failed: its own"),
        pytest.param(Failed(Answer(200, body=b"x"), is_permanent=True), Answer(200, body=b"x"), id="failed for good"),
    ],
)
def test_an_outcome(outcome: Outcome[object], answer: Answer) -> None:
    """By the texts of the guide's sample, where it has one."""
    assert Responses().answer(outcome) == answer


def test_a_missing_key_is_400_and_says_what_is_missing() -> None:
    """Trying again will not help."""
    assert Responses().missing_key(MissingKeyError("X is missing")) == Answer(400, (TEXT,), b"X is missing")


def test_duplicates_may_be_answered_204() -> None:
    """As the guide allows."""
    assert Responses(done=Answer(204)).answer(Replayed()) == Answer(204)


@pytest.mark.parametrize("status", [409, 423, 425, 429, 503])
def test_in_progress_may_be_any_retryable_status(status: int) -> None:
    """Which one, the sender's owner knows."""
    assert Responses(status).answer(InProgress(SECOND)).status == status


@pytest.mark.parametrize("status", [200, 204, 302, 400, 404, 422, 500])
def test_in_progress_may_be_no_other(status: int) -> None:
    """2xx would lose the work if the first attempt dies; the others say something else."""
    with pytest.raises(ValueError, match=f"in_progress_status {status}"):
        Responses(status)


def test_503_is_refused_for_app_engine_with_the_reason() -> None:
    """There it slows the queue, and does not count as a retry."""
    with pytest.raises(ValueError, match=r"overloaded system.*use 409"):
        Responses(503, app_engine=True)


@pytest.mark.parametrize("outcome", [InProgress(SECOND), Lost()])
def test_503_is_never_sent_to_app_engine(outcome: Outcome[object]) -> None:
    """Also when only the delivery tells."""
    assert Responses(503).answer(outcome, to_app_engine=True).status == 409


def test_duplicates_must_be_a_success() -> None:
    """Anything else has the run delivered again until its retries are spent."""
    with pytest.raises(ValueError, match="done 409"):
        Responses(done=Answer(409))


def test_what_is_kept_of_an_answer() -> None:
    """Headers by name in any case; a body whole or not at all."""
    answer = Answer(200, (("CONTENT-TYPE", "a"), ("Set-Cookie", "b"), ("location", "c"), ("Date", "d")), b"12345")

    assert Keep()(answer) == Answer(200, (("CONTENT-TYPE", "a"), ("location", "c")), b"12345")
    assert Keep(headers=frozenset(), body_bytes=5)(answer) == Answer(200, (), b"12345")
    assert Keep(headers=frozenset(), body_bytes=4)(answer) == Answer(200, (), None)

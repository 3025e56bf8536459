"""The rules of a key: a table of bids, then the verbs of its holder."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.claim import (
    LONG_AGO,
    NOBODY,
    Answer,
    Bid,
    Decision,
    Lost,
    Mismatch,
    Record,
    Replay,
    Run,
    Status,
    Wait,
    claim,
    finish,
    is_expired,
    release,
    renew,
)
from taskbell.core.instant import DAY, MINUTE, SECOND

NOW = 1_800_000_000 * SECOND
BID = Bid("k", "mine", lease=5 * MINUTE, retention=DAY, fingerprint="f")
MINE = Record("k", Status.IN_PROGRESS, "mine", NOW + 5 * MINUTE, NOW + DAY, fence=1, fingerprint="f")
THEIRS = replace(MINE, attempt_id="theirs", fence=7, lease_expires=NOW + MINUTE)
ENDED = replace(THEIRS, lease_expires=NOW)
FREE = replace(THEIRS, attempt_id=NOBODY, lease_expires=LONG_AGO)
ANSWER = Answer(200, (("Content-Type", "text/plain"),), b"done")
DONE = replace(THEIRS, status=Status.COMPLETED, answer=ANSWER)
SAMPLE = Record("k", Status.IN_PROGRESS, "theirs", NOW + MINUTE, NOW + DAY)
"""As the guide's sample writes one."""


@pytest.mark.parametrize(
    ("stored", "bid", "decision"),
    [
        pytest.param(None, BID, Run(MINE), id="absent: the first fence"),
        pytest.param(THEIRS, BID, Wait(NOW + MINUTE, MINUTE), id="a live lease: wait for its end"),
        pytest.param(replace(THEIRS, lease_expires=NOW + 1), BID, Wait(NOW + 1, 1), id="to its last microsecond"),
        pytest.param(ENDED, BID, Run(replace(MINE, fence=8), took_over=True), id="ended: taken over, a higher fence"),
        pytest.param(FREE, BID, Run(replace(MINE, fence=8)), id="released: the fence goes on, nothing is taken over"),
        pytest.param(
            replace(FREE, lease_expires=NOW + 1), BID, Run(replace(MINE, fence=8)), id="nobody's lease is none"
        ),
        pytest.param(DONE, BID, Replay(ANSWER), id="completed: its answer"),
        pytest.param(replace(DONE, lease_expires=LONG_AGO), BID, Replay(ANSWER), id="whatever its lease"),
        pytest.param(replace(DONE, answer=None), BID, Replay(None), id="completed without an answer"),
        pytest.param(replace(DONE, expire_at=NOW), BID, Run(replace(MINE, fence=8)), id="forgotten: absent"),
        pytest.param(replace(DONE, expire_at=NOW + 1), BID, Replay(ANSWER), id="kept to its last microsecond"),
        pytest.param(replace(ENDED, expire_at=NOW), BID, Run(replace(MINE, fence=8)), id="ended and forgotten"),
        pytest.param(
            replace(THEIRS, expire_at=NOW), BID, Wait(NOW + MINUTE, MINUTE), id="a live lease outlives expire_at"
        ),
        pytest.param(replace(THEIRS, fingerprint="g"), BID, Mismatch(), id="another request, in progress"),
        pytest.param(replace(ENDED, fingerprint="g"), BID, Mismatch(), id="another request, ended"),
        pytest.param(replace(DONE, fingerprint="g"), BID, Mismatch(), id="another request, completed: no replay"),
        pytest.param(
            replace(DONE, fingerprint="g", expire_at=NOW), BID, Run(replace(MINE, fence=8)), id="another, forgotten"
        ),
        pytest.param(replace(DONE, fingerprint=None), BID, Replay(ANSWER), id="no fingerprint there: not compared"),
        pytest.param(DONE, replace(BID, fingerprint=None), Replay(ANSWER), id="no fingerprint here: not compared"),
        pytest.param(MINE, BID, Run(MINE), id="my own bid again: the same, its answer was lost"),
        pytest.param(SAMPLE, BID, Wait(NOW + MINUTE, MINUTE), id="the guide's record, live"),
        pytest.param(
            replace(SAMPLE, lease_expires=NOW), BID, Run(MINE, took_over=True), id="the guide's record, ended: fence 1"
        ),
        pytest.param(replace(SAMPLE, status=Status.COMPLETED), BID, Replay(None), id="the guide's record, completed"),
    ],
)
def test_a_bid(stored: Record | None, bid: Bid, decision: Decision) -> None:
    """Decided from what is stored and now."""
    assert claim(stored, bid, NOW) == decision


def test_a_retention_shorter_than_the_lease_is_lengthened() -> None:
    """A record must not be swept away under its holder."""
    decision = claim(None, replace(BID, retention=SECOND), NOW)

    assert isinstance(decision, Run)
    assert decision.record.expire_at == decision.record.lease_expires


NOT_MINE = [
    pytest.param(None, id="absent"),
    pytest.param(THEIRS, id="another's"),
    pytest.param(ENDED, id="another's, ended"),
    pytest.param(FREE, id="released"),
    pytest.param(DONE, id="completed by another"),
]


@pytest.mark.parametrize("stored", NOT_MINE)
def test_who_does_not_hold_the_claim_changes_nothing(stored: Record | None) -> None:
    """And is told what is there instead."""
    lost = Lost(stored)

    assert renew(stored, "mine", NOW, MINUTE) == lost
    assert finish(stored, "mine", NOW, DAY, ANSWER) == lost
    assert release(stored, "mine") == lost


@pytest.mark.parametrize("ended", [False, True], ids=["live", "ended, taken by nobody"])
def test_the_holder_renews_finishes_and_releases(ended: bool) -> None:  # noqa: FBT001 - a table column.
    """The end of a lease takes nothing from its holder while nobody else has claimed."""
    stored = replace(MINE, lease_expires=NOW - 1) if ended else MINE

    assert renew(stored, "mine", NOW, 10 * MINUTE) == replace(MINE, lease_expires=NOW + 10 * MINUTE)
    assert finish(stored, "mine", NOW, 2 * DAY, ANSWER) == replace(
        stored, status=Status.COMPLETED, expire_at=NOW + 2 * DAY, answer=ANSWER
    )
    assert release(stored, "mine") == replace(MINE, attempt_id=NOBODY, lease_expires=LONG_AGO)


def test_a_lease_is_never_shortened() -> None:
    """A clock that was set back, or a shorter renewal, must not let another in sooner than was promised."""
    assert renew(MINE, "mine", NOW - DAY, MINUTE) == MINE
    assert renew(MINE, "mine", NOW, MINUTE) == MINE


def test_a_renewal_past_expire_at_moves_it_too() -> None:
    """A record outlives its lease."""
    renewed = renew(MINE, "mine", NOW, 2 * DAY)

    assert isinstance(renewed, Record)
    assert renewed.expire_at == renewed.lease_expires == NOW + 2 * DAY


def test_finishing_never_shortens_how_long_the_key_is_kept() -> None:
    """The retention promised at the claim stands."""
    finished = finish(MINE, "mine", NOW, SECOND)

    assert isinstance(finished, Record)
    assert finished.expire_at == MINE.expire_at


def test_finishing_again_keeps_the_first_answer() -> None:
    """The first reply to finish was lost: it is given again, and nothing changes."""
    done = finish(MINE, "mine", NOW, DAY, ANSWER)
    assert isinstance(done, Record)

    assert finish(done, "mine", NOW + MINUTE, DAY, Answer(500)) == done


def test_renewing_or_releasing_what_one_has_completed_is_lost() -> None:
    """Completed is final."""
    done = finish(MINE, "mine", NOW, DAY, ANSWER)
    assert isinstance(done, Record)

    assert renew(done, "mine", NOW, MINUTE) == Lost(done)
    assert release(done, "mine") == Lost(done)


@pytest.mark.parametrize(
    ("stored", "expired"),
    [
        (replace(DONE, expire_at=NOW), True),
        (replace(DONE, expire_at=NOW + 1), False),
        (replace(ENDED, expire_at=NOW), True),
        (replace(FREE, expire_at=NOW), True),
        (replace(THEIRS, expire_at=NOW), False),
    ],
)
def test_what_may_be_swept(stored: Record, expired: bool) -> None:  # noqa: FBT001 - a table column.
    """Whatever is past its expire_at, but no live lease."""
    assert is_expired(stored, NOW) is expired


@pytest.mark.parametrize("verb", [lambda: renew(FREE, NOBODY, NOW, MINUTE), lambda: release(FREE, NOBODY)])
def test_nobody_cannot_hold_a_claim(verb: object) -> None:
    """An empty id would match a released record."""
    assert callable(verb)
    with pytest.raises(AssertionError, match="an attempt has an id"):
        verb()

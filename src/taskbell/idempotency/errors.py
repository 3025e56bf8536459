"""What can go wrong around a key, drawn as one tree.

IdempotencyError
├── MissingKeyError     the delivery names no key, or half of one: 400, and nothing was claimed
├── NotRun              the work was not started, for the reason in `outcome` (context managers and decorators only)
├── LostClaimError      the claim went to another attempt: what this one did must not stand
└── PermanentFailure    raised by the work: it failed, and trying again would not help

The first is the rim's to turn into an answer; the last is the work's to raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskbell.core.claim import Answer

if TYPE_CHECKING:
    from taskbell.idempotency.outcome import InProgress, Mismatched, Replayed

FAILURE_HEADER = "Taskbell-Failure"
"""Marks the stored answer of work that failed for good."""


class IdempotencyError(Exception):
    """Root of the kit's errors."""


class MissingKeyError(IdempotencyError):
    """The delivery names no key, or half of one. The message says which header or part is missing."""


class NotRun(IdempotencyError):
    """The work was not started: `outcome` says why, and is what a value-returning call would have returned."""

    def __init__(self, outcome: Replayed | InProgress | Mismatched) -> None:
        super().__init__(f"not run: {outcome}")
        self.outcome = outcome


class LostClaimError(IdempotencyError):
    """The claim went to another attempt, or may have: what this one did must not stand."""


class PermanentFailure(IdempotencyError):
    """The work failed and would fail again: the key completes with this answer, and no delivery tries again.

    The status is 200 unless you choose another, because Cloud Tasks and Cloud Scheduler deliver again after anything
    but 2xx. (They would get the same answer each time; the work would not run.)
    """

    def __init__(
        self, message: str = "Run failed permanently", *, status: int = 200, body: bytes | None = None
    ) -> None:
        super().__init__(message)
        headers = (("Content-Type", "text/plain; charset=utf-8"), (FAILURE_HEADER, "permanent"))
        self.answer = Answer(status, headers, message.encode() if body is None else body)

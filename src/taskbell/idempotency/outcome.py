"""What became of a delivery, as values, and the answer that each is given over HTTP.

    Ran          the work ran and its key is completed
    Failed       the work answered that it failed: released for the next delivery, or completed if that would not help
    Replayed     the work was done before, here is its answer
    InProgress   another attempt is at it
    Mismatched   the key was used before for another request
    Lost         the work ran, and its claim went to another attempt meanwhile: nothing of it may stand

`guard.py` returns them; adapters pass them to `Responses`, and need to know nothing else of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from taskbell.core.claim import Answer, Lost
from taskbell.core.instant import SECOND, Span
from taskbell.idempotency.errors import MissingKeyError

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Ran(Generic[T_co]):
    """The work ran, and its key is completed."""

    value: T_co
    """What the work returned."""
    answer: Answer | None = None
    """What the work answered, whole: more may be in it than was kept."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The work answered that it failed. One that raises a retryable error is released, and the error goes on."""

    answer: Answer
    is_permanent: bool
    """True: the key is completed with the answer. False: the claim was released."""
    error: Exception | None = None
    """What the work raised, if it did."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The work was done before."""

    answer: Answer | None = None
    """As it was kept; None: the work had none, or the guide's sample did it."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another attempt is at it."""

    retry_after: Span
    """Until its lease ends, if it is not renewed."""


@dataclass(frozen=True, slots=True)
class Mismatched:
    """The key was used before for another request."""


Refusal = Replayed | InProgress | Mismatched
"""Why the work was not started."""
Outcome = Ran[T_co] | Failed | Replayed | InProgress | Mismatched | Lost


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of an answer is stored with its key, for every duplicate to get."""

    headers: frozenset[str] = frozenset({"content-type", "content-language", "location", "taskbell-failure"})
    """Lower case. Cookies, tokens and dates belong to one answer, not to its repetitions."""
    body_bytes: int = 65_536
    """A larger body is not kept at all: part of one would be a wrong answer. Duplicates then get the status alone."""

    def __call__(self, answer: Answer) -> Answer:
        """The answer as it is stored."""
        fits = answer.body is not None and len(answer.body) <= self.body_bytes
        headers = tuple((name, value) for name, value in answer.headers if name.lower() in self.headers)
        return replace(answer, headers=headers, body=answer.body if fits else None)


def is_success(answer: Answer) -> bool:
    """2xx completes, anything else releases: what Cloud Tasks and Cloud Scheduler call success."""
    return 200 <= answer.status <= 299


DUPLICATE = Answer(200, (("Content-Type", "text/plain; charset=utf-8"),), b"Duplicate run skipped")
PROCESSED = Answer(200, (("Content-Type", "text/plain; charset=utf-8"),), b"Run processed")
_IN_PROGRESS = b"Run in progress"
_LOST = b"Run taken over by another attempt"
_MISMATCHED = b"This key was used for another request"


@dataclass(frozen=True, slots=True)
class Responses:
    """From outcomes to HTTP. Texts are those of the guide's sample, where it has one."""

    in_progress_status: int = 409
    """409, 423, 425, 429 or 503: the sender must try again. Never 503 to App Engine."""
    done: Answer = DUPLICATE
    """For duplicates of work without an answer, and in place of bodies that were too large: its status is 200 or
    204."""
    retry_after_max: Span = 60 * SECOND
    """Work mostly ends before its lease: ask again after this at the latest."""
    app_engine: bool = field(default=False, kw_only=True)
    """The handler is an App Engine target."""

    def __post_init__(self) -> None:
        """Refuse what senders would misunderstand."""
        if self.in_progress_status not in {409, 423, 425, 429, 503}:
            raise ValueError(f"in_progress_status {self.in_progress_status}: expected 409, 423, 425, 429 or 503")
        if self.app_engine and self.in_progress_status == 503:
            raise ValueError(
                "in_progress_status 503: to App Engine targets it means an overloaded system, which slows the whole "
                "queue and is retried without counting; use 409"
            )
        if not is_success(self.done):
            raise ValueError(f"done {self.done.status}: anything but 2xx has the run delivered again for ever")

    def answer(self, outcome: Outcome[object], *, to_app_engine: bool = False) -> Answer:
        """The answer to a delivery; `to_app_engine` as `Delivery.is_app_engine` says of it."""
        match outcome:
            case Ran(answer=answer):
                return answer if answer is not None else PROCESSED
            case Failed(answer=answer):
                return answer
            case Replayed(answer=answer):
                return self._replayed(answer)
            case InProgress(retry_after=span):
                return self._again(_IN_PROGRESS, span, to_app_engine=to_app_engine)
            case Lost():
                return self._again(_LOST, SECOND, to_app_engine=to_app_engine)
            case Mismatched():
                return _text(422, _MISMATCHED)

    def missing_key(self, error: MissingKeyError) -> Answer:
        """400: nothing was claimed, and trying again will not help."""
        return _text(400, str(error).encode())

    def _replayed(self, answer: Answer | None) -> Answer:
        if answer is None:
            return self.done
        return replace(answer, body=b"") if answer.body is None else answer

    def _again(self, text: bytes, span: Span, *, to_app_engine: bool) -> Answer:
        # Never 0: a sender would be back before anything can have changed.
        seconds = max(1, -(-min(span, self.retry_after_max) // SECOND))
        status = 409 if to_app_engine and self.in_progress_status == 503 else self.in_progress_status
        answer = _text(status, text)
        return replace(answer, headers=(*answer.headers, ("Retry-After", str(seconds))))


def _text(status: int, text: bytes) -> Answer:
    return Answer(status, (("Content-Type", "text/plain; charset=utf-8"),), text)

"""What the adapters share: one exchange, from a delivery to its key, and from the work's answer to what goes out.

In this order, so that nobody who may not ask touches a key, and no answer goes out before its key is settled:

    verify ─▶ key ─▶ fingerprint ─▶ claim ─▶ work ─▶ finish or release ─▶ answer
    401/403   400    413            409/422                               5xx if the claim was lost

The answer is gathered whole before anything of it is sent: one that has gone out cannot be taken back when it turns out
that the claim was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TypedDict

from taskbell.core.claim import Answer, Lost
from taskbell.idempotency.errors import MissingKeyError
from taskbell.idempotency.guard import AsyncGuard, Guard
from taskbell.idempotency.key import Delivery, Key, KeyRule, fingerprint
from taskbell.idempotency.outcome import Outcome, Ran, Responses
from taskbell.idempotency.policy import Policy
from taskbell.idempotency.run import AsyncRun, Run
from taskbell.idempotency.verify import UnverifiedError

log = logging.getLogger("taskbell.idempotency")

PERMANENT_STATUSES = frozenset(range(400, 500)) - {401, 403, 407, 408, 409, 425, 429}
"""Answers of handlers that would be the same next time. 408, 409, 425 and 429 say themselves that they would not; 401,
403 and 407 judge the caller and not the work, and a caller who is turned away must not use up the key of one who is
not."""

_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
_BODILESS = {204, 304}


class Options(TypedDict, total=False):
    """What every adapter takes besides its guard, by name. Each is a field of `Exchange`."""

    rule: KeyRule
    responses: Responses
    verify: Callable[[Delivery], object] | None
    fingerprint: bool
    body_bytes_max: int
    permanent_statuses: Collection[int]
    applies: Callable[[str, str], bool] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The settings of an adapter."""

    rule: KeyRule = field(default_factory=KeyRule)
    """How deliveries are told apart."""
    responses: Responses = field(default_factory=Responses)
    """The answers to duplicates: `Responses(423)`, `Responses(done=Answer(204))`. `Responses(503, app_engine=True)` is
    refused when it is made."""
    verify: Callable[[Delivery], object] | None = None
    """Checks who sends, before anything is claimed: a `Verifier`, or what raises UnverifiedError. None: something in
    front of the handler does."""
    fingerprint: bool = False
    """Refuse a key that comes again with another method, path, query or body: 422. Needs the body before the claim."""
    body_bytes_max: int = 1_048_576
    """A longer body is answered 413 where a fingerprint is wanted. The default is the largest task."""
    permanent_statuses: Collection[int] = PERMANENT_STATUSES
    """Answers of the handler that complete the key although they are no success. () if each is to be tried again."""
    applies: Callable[[str, str], bool] | None = None
    """Whether this method and path are guarded at all. None: all are. Others pass by, unverified."""

    def passes_by(self, method: str, path: str) -> bool:
        """Whether a request goes to the handler as if nobody stood in front."""
        return self.applies is not None and not self.applies(method, path)

    def admit(self, delivery: Delivery) -> Key | Answer:
        """The key of a delivery, or the answer that turns it away. May block while keys of an issuer are fetched."""
        try:
            if self.verify is not None:
                self.verify(delivery)
            return self.rule.key(delivery)
        except UnverifiedError as error:
            # The reason helps whoever reads the log, and whoever forges tokens just as well.
            log.warning("turned away with %d: %s", error.status, error)
            headers = (*_TEXT, ("WWW-Authenticate", "Bearer")) if error.status == 401 else _TEXT
            return Answer(error.status, headers, HTTPStatus(error.status).phrase.encode())
        except MissingKeyError as error:
            return self.responses.missing_key(error)

    def print_of(self, method: str, delivery: Delivery, body: bytes) -> str:
        """The fingerprint of a request."""
        return fingerprint(method, delivery.path, delivery.query, body)

    def too_large(self) -> Answer:
        """413: a body that does not fit cannot be compared."""
        return Answer(413, _TEXT, f"The body is longer than {self.body_bytes_max} bytes".encode())

    def serve(
        self, guard: Guard, key: Key, delivery: Delivery, work: Callable[[Run], Answer], print_: str | None = None
    ) -> Answer:
        """Guard the work, and say what to answer. Errors of the work are raised, after the claim was released."""

        def settled(run: Run) -> Answer:
            answer = work(run)
            if not run.is_settled:
                if self._completes(guard.policy, answer):
                    run.finish(answer)
                else:
                    run.release()
            return answer

        return self.answer(guard.call(key, settled, fingerprint=print_, encode=_settled_already), delivery)

    async def serve_async(
        self,
        guard: AsyncGuard,
        key: Key,
        delivery: Delivery,
        work: Callable[[AsyncRun], Awaitable[Answer]],
        print_: str | None = None,
    ) -> Answer:
        """As `serve`."""

        async def settled(run: AsyncRun) -> Answer:
            answer = await work(run)
            if not run.is_settled:
                if self._completes(guard.policy, answer):
                    await run.finish(answer)
                else:
                    await run.release()
            return answer

        return self.answer(await guard.call(key, settled, fingerprint=print_, encode=_settled_already), delivery)

    def answer(self, outcome: Outcome[Answer], delivery: Delivery) -> Answer:
        """What goes out."""
        if isinstance(outcome, Ran):
            return outcome.value
        answer = self.responses.answer(outcome, to_app_engine=delivery.is_app_engine)
        # The work ran and does not count: an error of ours, whatever status tells duplicates to wait.
        return replace(answer, status=500) if isinstance(outcome, Lost) else answer

    def _completes(self, policy: Policy, answer: Answer) -> bool:
        return policy.completes(answer) or answer.status in self.permanent_statuses


def headers_out(answer: Answer, method: str) -> list[tuple[str, str]]:
    """The headers of an answer as they go out: with its length, which is not kept with stored ones."""
    headers = list(answer.headers)
    is_measured = any(name.lower() in {"content-length", "transfer-encoding"} for name, _ in headers)
    if method != "HEAD" and answer.status not in _BODILESS and not is_measured:
        headers.append(("Content-Length", str(len(answer.body or b""))))
    return headers


def phrase(status: int) -> str:
    """The reason phrase of a status, empty for one that has none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _settled_already(_: Answer) -> None:
    """Tells the guard that the work has settled its key by its own answer."""

"""What a decorated function returned, as a stored answer and back."""

from __future__ import annotations

import json
import logging
from typing import TypeVar, cast

from taskbell.core.claim import Answer, Lost
from taskbell.idempotency.errors import FAILURE_HEADER, LostClaimError, NotRun, PermanentFailure
from taskbell.idempotency.outcome import Failed, Outcome, Ran, Replayed

log = logging.getLogger("taskbell.idempotency")
T = TypeVar("T")
_JSON = (("Content-Type", "application/json"),)


def to_json(value: object) -> Answer:
    """The value as an answer. One that JSON does not know is not kept: the work is done, and failing now would repeat
    it.
    """
    try:
        return Answer(200, _JSON, json.dumps(value).encode())
    except (TypeError, ValueError):
        log.warning("a value of type %s is no JSON and is not kept: duplicates will raise NotRun", type(value).__name__)
        return Answer(200, _JSON, None)


def from_json(outcome: Outcome[T]) -> T:
    """What the call returned or raised the first time, or why there is nothing to return."""
    match outcome:
        case Ran(value=value):
            return value
        case Failed(error=Exception() as error):
            raise error
        case Replayed(answer=Answer(body=bytes() as body, headers=headers)):
            if any(name == FAILURE_HEADER for name, _ in headers):
                raise PermanentFailure(body.decode())
            return cast("T", json.loads(body))
        case Lost():
            raise LostClaimError("another attempt has the claim now: what this one did must not stand")
        case Failed(answer=answer):
            raise NotRun(Replayed(answer))
        case _:
            raise NotRun(outcome)

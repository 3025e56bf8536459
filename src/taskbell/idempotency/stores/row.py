"""A record as a row of a SQL table, for the stores that have one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from taskbell.core.claim import Answer, Record, Status

COLUMNS = (
    "key",
    "status",
    "attempt_id",
    "fence",
    "lease_expires",
    "expire_at",
    "fingerprint",
    "answer_status",
    "answer_headers",
    "answer_body",
)
"""Instants are whole microseconds since the Unix epoch, headers a JSON list of pairs. Without an answer_status there is
no answer; with one and without an answer_body, the body was too large to keep."""


def to_row(record: Record) -> tuple[Any, ...]:
    """The values of COLUMNS."""
    return (
        record.key,
        record.status.value,
        record.attempt_id,
        record.fence,
        record.lease_expires,
        record.expire_at,
        record.fingerprint,
        *answer_row(record.answer),
    )


def answer_row(answer: Answer | None) -> tuple[int | None, str | None, bytes | None]:
    """The values of the last three."""
    if answer is None:
        return None, None, None
    return answer.status, json.dumps(answer.headers), answer.body


def from_row(row: Sequence[Any]) -> Record:
    """The record of a row of COLUMNS."""
    key, status, attempt_id, fence, lease_expires, expire_at, fingerprint, answer_status, headers, body = row
    answer = None
    if answer_status is not None:
        pairs = tuple((name, value) for name, value in json.loads(headers))
        answer = Answer(answer_status, pairs, None if body is None else bytes(body))
    return Record(key, Status(status), attempt_id, lease_expires, expire_at, fence or 0, fingerprint, answer)

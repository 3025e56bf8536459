"""Page tokens: opaque to callers, bound to what they page through, and short-lived (wire.md section 10)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import Instant

Cursor = list[Any]
_DIGEST_BYTES = 6


def page_token(cursor: Cursor, scope: str, expire_time: Instant) -> str:
    """A token that continues after `cursor` within `scope` (parent, filter, and whatever else may not change)."""
    payload = json.dumps([expire_time, cursor], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_digest(payload, scope) + payload).rstrip(b"=").decode()


def cursor_of(token: str, scope: str, now: Instant) -> Cursor | None:
    """The cursor of a token, or None for the empty token. Raises InvalidArgument for a bad, foreign or old one."""
    if not token:
        return None
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("The page token is invalid: pass nextPageToken as it was returned.") from None
    digest, payload = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
    if digest != _digest(payload, scope):
        raise InvalidArgument("The page token is invalid for this request: parent and filter may not change.")
    expire_time, cursor = json.loads(payload)
    if now > expire_time:
        raise InvalidArgument("The page token has expired: begin again with the first page.")
    assert isinstance(cursor, list)
    return cursor


def page_size(asked: int, largest: int) -> int:
    """The number of items to return: 0 means the largest page, more is clamped. Raises InvalidArgument below 0."""
    if asked < 0:
        raise InvalidArgument(f"The page size cannot be negative: {asked}.")
    return min(asked, largest) or largest


def _digest(payload: bytes, scope: str) -> bytes:
    return hashlib.sha256(scope.encode() + b"\0" + payload).digest()[:_DIGEST_BYTES]

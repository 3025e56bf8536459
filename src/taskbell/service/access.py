"""Policies: stored and answered; enforcement is the caller check's business (wire.md section 4.6)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from taskbell.core import names
from taskbell.core.errors import Aborted, NotFound
from taskbell.engine import Engine

EMPTY_ETAG = b"\x00\x10\x01"
"""What the service answers for a resource without a policy ("ACAB" in JSON)."""


class AccessService:
    """The IAM calls on queues. Policies are kept as the bytes that the wire brought, less their etag."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def policy(self, resource: str) -> tuple[bytes, bytes]:
        """The stored policy and its etag; empty when none was set. NotFound: no such queue."""
        names.check_queue_name(resource)
        await self._engine.queue(resource)
        stored = await self._engine.policy(resource)
        return (b"", EMPTY_ETAG) if stored is None else (stored, etag_of(stored))

    async def set_policy(self, resource: str, policy: bytes, etag: bytes) -> bytes:
        """Replace the policy and return its new etag; a non-empty `etag` must be the stored one's."""
        stored, current = await self.policy(resource)
        expected = None
        if etag:
            if etag != current:
                raise Aborted("There were concurrent policy changes: read the policy again and retry.")
            expected = stored if current != EMPTY_ETAG else None
        if not await self._engine.set_policy(resource, policy, expected):
            raise Aborted("There were concurrent policy changes: read the policy again and retry.")
        return etag_of(policy)

    async def held_permissions(self, resource: str, permissions: Sequence[str]) -> list[str]:
        """What the caller holds of these: all, while callers are not checked; none on a missing queue."""
        names.check_queue_name(resource)
        try:
            await self._engine.queue(resource)
        except NotFound:
            return []
        return list(permissions)


def etag_of(policy: bytes) -> bytes:
    """A policy's etag: a digest of its bytes."""
    return hashlib.sha256(policy).digest()[:8]

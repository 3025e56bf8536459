"""The run: a `Hold` with the verbs that speak to the store, for threads (`Run`) and for event loops (`AsyncRun`).

A guard makes runs and ends them; work that wants to may end its own, once.

- `finish(answer)` completes the key. LostClaimError: another attempt has it, and what this one did must not stand.
- `finish_in(connection, answer)` completes it inside the caller's transaction, beside the effect (SQL stores). Commit
  before the run ends; if that fails, let its error out, and the claim is released.
- `release()` gives the claim back for the next delivery to try at once. Losing it before makes no difference.
- `renew()` lengthens the lease now. The heartbeat does that by itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from taskbell.core import claim
from taskbell.core.claim import Answer, Lost, Record
from taskbell.core.instant import Span
from taskbell.idempotency.heartbeat import AsyncClock, AsyncHeartbeat, Clock, Heartbeat
from taskbell.idempotency.hold import Hold
from taskbell.idempotency.key import Key
from taskbell.idempotency.policy import Policy
from taskbell.idempotency.store import AsyncClaimStore, ClaimStore, inside

log = logging.getLogger("taskbell.idempotency")
T = TypeVar("T")

CURRENT: contextvars.ContextVar[Hold] = contextvars.ContextVar("taskbell_run")


def current_run() -> Hold:
    """The run that this code is part of; LookupError outside of one."""
    return CURRENT.get()


class Run(Hold):
    """A run in a thread."""

    def __init__(
        self, store: ClaimStore, policy: Policy, clock: Clock, *, key: Key, granted: claim.Run, asked_time: Span
    ) -> None:
        """Begin, and keep the lease from now on."""
        super().__init__(key, granted, asked_time + policy.lease_for(key.kind), clock.monotonic)
        self.lost = threading.Event()
        """Set as soon as it is known that the claim is lost, or may be: stop, if you can."""
        self._store, self._policy, self._clock = store, policy, clock
        rhythm = policy.rhythm_for(key.kind)
        self._heartbeat = None if rhythm is None else Heartbeat(clock, rhythm, self, self._is_renewed)
        if self._heartbeat is not None:
            self._heartbeat.start()

    def lose(self) -> None:
        """Tell the work."""
        super().lose()
        self.lost.set()

    def renew(self) -> None:
        """Lengthen the lease now."""
        if not self._is_renewed():
            self.lose()
            raise self._lost()

    def finish(self, answer: Answer | None = None) -> None:
        """Complete the key."""
        self._settle()
        self.may_be_finished = True
        self._finish(self._store, answer)

    def finish_in(self, connection: Any, answer: Answer | None = None) -> None:
        """Complete the key inside the caller's transaction."""
        self._settle()
        self._finish(inside(self._store, connection), answer, tries=1)

    def release(self) -> None:
        """Give the claim back."""
        self._settle()
        self._store.release(self.key.text, self.attempt_id)

    def _finish(self, store: ClaimStore, answer: Answer | None, tries: int = 2) -> None:
        kept = None if answer is None else self._policy.keep(answer)
        retention = self._policy.retention_for(self.key.kind)
        outcome = again(lambda: store.finish(self.key.text, self.attempt_id, retention, kept), tries)
        if isinstance(outcome, Lost):
            self.lose()
            raise self._lost()

    def _is_renewed(self) -> bool:
        asked = self._clock.monotonic()
        lease = self._policy.lease_for(self.key.kind)
        if isinstance(self._store.renew(self.key.text, self.attempt_id, lease), Record):
            self.keep_until(asked + lease)
            return True
        # A renewal that met the end of its own run has lost nothing.
        return self.is_settled

    def _settle(self) -> None:
        self.is_settled = True
        if self._heartbeat is not None:
            self._heartbeat.stop()


class AsyncRun(Hold):
    """A run on an event loop."""

    def __init__(
        self,
        store: AsyncClaimStore,
        policy: Policy,
        clock: AsyncClock,
        *,
        key: Key,
        granted: claim.Run,
        asked_time: Span,
    ) -> None:
        """Begin, and keep the lease from now on."""
        super().__init__(key, granted, asked_time + policy.lease_for(key.kind), clock.monotonic)
        self.lost = asyncio.Event()
        """Set as soon as it is known that the claim is lost, or may be: stop, if you can."""
        self._store, self._policy, self._clock = store, policy, clock
        rhythm = policy.rhythm_for(key.kind)
        self._heartbeat = None if rhythm is None else AsyncHeartbeat(clock, rhythm, self, self._is_renewed)
        if self._heartbeat is not None:
            self._heartbeat.start()

    def lose(self) -> None:
        """Tell the work."""
        super().lose()
        self.lost.set()

    async def renew(self) -> None:
        """Lengthen the lease now."""
        if not await self._is_renewed():
            self.lose()
            raise self._lost()

    async def finish(self, answer: Answer | None = None) -> None:
        """Complete the key."""
        self._settle()
        self.may_be_finished = True
        await self._finish(self._store, answer)

    async def finish_in(self, connection: Any, answer: Answer | None = None) -> None:
        """Complete the key inside the caller's transaction."""
        self._settle()
        await self._finish(inside(self._store, connection), answer, tries=1)

    async def release(self) -> None:
        """Give the claim back."""
        self._settle()
        await self._store.release(self.key.text, self.attempt_id)

    async def _finish(self, store: AsyncClaimStore, answer: Answer | None, tries: int = 2) -> None:
        kept = None if answer is None else self._policy.keep(answer)
        retention = self._policy.retention_for(self.key.kind)
        outcome = await again_async(lambda: store.finish(self.key.text, self.attempt_id, retention, kept), tries)
        if isinstance(outcome, Lost):
            self.lose()
            raise self._lost()

    async def _is_renewed(self) -> bool:
        asked = self._clock.monotonic()
        lease = self._policy.lease_for(self.key.kind)
        if isinstance(await self._store.renew(self.key.text, self.attempt_id, lease), Record):
            self.keep_until(asked + lease)
            return True
        return self.is_settled

    def _settle(self) -> None:
        self.is_settled = True
        if self._heartbeat is not None:
            self._heartbeat.stop()


def again(verb: Callable[[], T], tries: int = 2) -> T:
    """Call a verb that may be repeated once more if it raises: mostly it was a connection that had gone stale."""
    try:
        return verb()
    except Exception:
        if tries == 1:
            raise
        log.warning("a claim store failed; trying once more", exc_info=True)
        return again(verb, tries - 1)


async def again_async(verb: Callable[[], Awaitable[T]], tries: int = 2) -> T:
    """As `again`."""
    try:
        return await verb()
    except Exception:
        if tries == 1:
            raise
        log.warning("a claim store failed; trying once more", exc_info=True)
        return await again_async(verb, tries - 1)

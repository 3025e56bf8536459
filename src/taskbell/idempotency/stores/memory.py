"""Claims in the memory of one process: the reference for every other store, and for tests.

Everything is gone when the process is. In production this guards one process against itself only, and forgets at each
deploy: take a database.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from taskbell.core import claim
from taskbell.core.claim import Answer, Bid, Decision, Lost, Record
from taskbell.core.instant import Instant, Span


def _wall_time() -> Instant:
    return time.time_ns() // 1000


class MemoryStore:
    """A `ClaimStore` in a dictionary."""

    def __init__(self, now: Callable[[], Instant] = _wall_time) -> None:
        """Begin empty. `now`: wall time in microseconds."""
        self.records: dict[str, Record] = {}
        self._now = now
        self._lock = threading.Lock()

    def create_schema(self) -> None:
        """Nothing to make."""

    def claim(self, bid: Bid) -> Decision:
        with self._lock:
            decision = claim.claim(self.records.get(bid.key), bid, self._now())
            if isinstance(decision, claim.Run):
                self.records[bid.key] = decision.record
            return decision

    def renew(self, key: str, attempt_id: str, lease: Span) -> Record | Lost:
        with self._lock:
            return self._write(claim.renew(self.records.get(key), attempt_id, self._now(), lease))

    def finish(self, key: str, attempt_id: str, retention: Span, answer: Answer | None = None) -> Record | Lost:
        with self._lock:
            return self._write(claim.finish(self.records.get(key), attempt_id, self._now(), retention, answer))

    def release(self, key: str, attempt_id: str) -> Record | Lost:
        with self._lock:
            return self._write(claim.release(self.records.get(key), attempt_id))

    def get(self, key: str) -> Record | None:
        with self._lock:
            return self.records.get(key)

    def sweep(self, limit: int = 1000) -> int:
        with self._lock:
            now = self._now()
            expired = [record.key for record in self.records.values() if claim.is_expired(record, now)][:limit]
            for key in expired:
                del self.records[key]
            return len(expired)

    def close(self) -> None:
        """Nothing to let go of."""

    def _write(self, outcome: Record | Lost) -> Record | Lost:
        if isinstance(outcome, Record):
            self.records[outcome.key] = outcome
        return outcome

"""What a running piece of work is given: its claim, seen from inside.

`guard.py` makes one when the store has said `Run`, and `heartbeat.py` tells it what becomes of the lease. `Run` and
`AsyncRun` in `run.py`, which the work sees, add the verbs that speak to the store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping

from taskbell.core import claim
from taskbell.core.instant import Span
from taskbell.idempotency.errors import LostClaimError
from taskbell.idempotency.key import Key


class Hold:
    """One attempt's hold on a key, without the verbs."""

    def __init__(self, key: Key, granted: claim.Run, held_until: Span, monotonic: Callable[[], Span]) -> None:
        """Begin with what the store granted; `held_until` is monotonic, counted from before the store was asked."""
        self.key = key
        self.attempt_id = granted.record.attempt_id
        self.fence = granted.record.fence
        """Grows with every change of holder: a resource that remembers the highest it saw can refuse older ones."""
        self.took_over = granted.took_over
        """An earlier attempt began this work and was not heard of again: some of its effects may be there."""
        self.is_settled = False
        """The work itself has called finish or release: nothing is left to do at its end."""
        self.may_be_finished = False
        """The store was asked to complete the key, whatever came of it: releasing it could undo that."""
        self.held_until = held_until
        self._monotonic = monotonic
        self._is_lost = False

    @property
    def is_held(self) -> bool:
        """Whether the claim is certainly still ours: not taken over, and by our own clock the lease has not ended."""
        return not self._is_lost and self._monotonic() < self.held_until

    def check(self) -> None:
        """Raise LostClaimError unless the claim is certainly ours. Call it before each effect that cannot be undone."""
        if not self.is_held:
            raise self._lost()

    @property
    def token(self) -> str:
        """The idempotency token for calls that the work makes: the same in every attempt, and for no other key."""
        return self.step_token("")

    def step_token(self, step: str) -> str:
        """A token for one of several calls that the work makes to the same service."""
        # Never the key itself: a service downstream may share our store, and would wait for us to finish.
        return hashlib.sha256(json.dumps(["step", self.key.text, step]).encode()).hexdigest()

    def headers(self, step: str = "") -> Mapping[str, str]:
        """The headers that carry the token to a service downstream."""
        return {"Idempotency-Key": self.step_token(step)}

    def keep_until(self, held_until: Span) -> None:
        """The heartbeat says: the lease was renewed."""
        self.held_until = max(self.held_until, held_until)

    def lose(self) -> None:
        """The heartbeat says: the claim is another's, or by our own clock may be."""
        self._is_lost = True

    def _lost(self) -> LostClaimError:
        return LostClaimError(f"{self.key.source}: the claim of attempt {self.attempt_id} is lost")

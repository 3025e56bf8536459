"""What one exchange with a handler came to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Failure(StrEnum):
    """Why there is no HTTP status."""

    TIMEOUT = "timeout"
    """The deadline passed."""
    UNREACHABLE = "unreachable"
    """No connection: refused, no route, name not resolved, TLS failure."""
    BROKEN = "broken"
    """The connection ended or the answer was not HTTP."""
    UNSENDABLE = "unsendable"
    """The request could not be formed: bad URL, no token, no sender for the target."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back. Exactly one of `status` and `failure` is set."""

    status: int | None = None
    failure: Failure | None = None
    reason: str = ""
    """One line for logs: the error's text, or empty."""
    retry_after: str | None = None
    """The raw Retry-After header, if any."""

    @property
    def is_success(self) -> bool:
        """Whether the final status is in 200-299 (wire.md section 5.2)."""
        return self.status is not None and 200 <= self.status <= 299

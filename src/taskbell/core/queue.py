"""A queue: the named container that paces tasks, and its two configurations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from taskbell.core.instant import DAY, HOUR, MILLISECOND, Instant, Span
from taskbell.core.target import HttpOverride, Routing


class QueueState(StrEnum):
    """Queue.State of the wire."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DISABLED = "DISABLED"


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Pacing: tokens a second, bucket capacity, attempts at once."""

    max_dispatches_per_second: float = 500.0
    max_burst_size: int = 100
    max_concurrent_dispatches: int = 1000


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """When to try again. None stands for the wire's "unlimited" (attempts -1, duration 0)."""

    max_attempts: int | None = 100
    max_retry_duration: Span | None = None
    min_backoff: Span = 100 * MILLISECOND
    max_backoff: Span = HOUR
    max_doublings: int = 16


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as stored. `name` is its full resource name."""

    name: str
    rate_limits: RateLimits = RateLimits()
    retry_config: RetryConfig = RetryConfig()
    state: QueueState = QueueState.RUNNING
    purge_time: Instant | None = None
    routing_override: Routing | None = None
    http_override: HttpOverride | None = None
    log_sampling_ratio: float | None = None
    task_ttl: Span = 31 * DAY
    tombstone_ttl: Span = DAY


def burst_for(rate: float) -> int:
    """The bucket size that the service picks for a rate: 100 at 500/s, 10 at 1/s (wire.md section 5.8)."""
    return max(10, int(rate / 5))

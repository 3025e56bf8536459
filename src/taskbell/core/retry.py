"""When to try again: backoff and the end of retries (wire.md sections 5.6 and 5.7)."""

from __future__ import annotations

from taskbell.core.instant import Instant, Span
from taskbell.core.job import JobRetryConfig
from taskbell.core.queue import RetryConfig


def backoff(config: RetryConfig | JobRetryConfig, failures: int) -> Span:
    """The wait after the `failures`-th failure in a row (1, 2, 3, ...), between min_backoff and max_backoff.

    It doubles `max_doublings` times, then grows linearly by the last doubled wait, and stays at max_backoff. There is
    no jitter, so that the documented series come out to the microsecond.
    """
    doublings = min(failures - 1, config.max_doublings)
    linear = max(1, failures - doublings)
    # Past 2**62 microseconds any backoff has reached max_backoff, so a shift that large need not be computed.
    if doublings + config.min_backoff.bit_length() + linear.bit_length() > 62:
        return config.max_backoff if config.min_backoff else 0
    return min(config.max_backoff, (config.min_backoff << doublings) * linear)


def waits(config: RetryConfig, most: int) -> list[Span]:
    """The waits before each retry if every attempt failed at once, `most` of them at the most."""
    found: list[Span] = []
    elapsed: Span = 0
    while len(found) < most and not is_exhausted(config, len(found) + 1, 0, elapsed):
        found.append(backoff(config, len(found) + 1))
        elapsed += found[-1]
    return found


def is_exhausted(config: RetryConfig, attempts: int, first_dispatch_time: Instant, now: Instant) -> bool:
    """Whether a task that has just failed its `attempts`-th attempt is over.

    With both limits set, both must be reached. Without any, only the task's time to live ends it.
    """
    reached = []
    if config.max_attempts is not None:
        reached.append(attempts >= config.max_attempts)
    if config.max_retry_duration is not None:
        reached.append(now - first_dispatch_time >= config.max_retry_duration)
    return bool(reached) and all(reached)

"""Google's published limits, as the defaults of a value that operators may raise (wire.md section 13)."""

from __future__ import annotations

from dataclasses import dataclass

from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND, Span


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may ask for. Sizes in bytes, spans in microseconds, rates per second."""

    max_dispatches_per_second: float = 500.0
    max_concurrent_dispatches: int = 5000
    default_concurrent_dispatches: int = 1000
    max_burst_size: int = 500
    schedule_horizon: Span = 30 * DAY
    task_size: int = 1_048_569
    """Largest serialized stored task that the real service takes (recorded)."""
    headers_size: int = 80 * 1024
    url_length: int = 2083
    min_dispatch_deadline: Span = 15 * SECOND
    max_http_deadline: Span = 30 * MINUTE
    max_app_engine_deadline: Span = 24 * HOUR + 15 * SECOND
    default_http_deadline: Span = 10 * MINUTE
    default_attempt_deadline: Span = 3 * MINUTE
    queues_page: int = 9800
    tasks_page: int = 1000
    jobs_page: int = 500
    job_size: int = 1024 * 1024
    description_length: int = 500
    batch_create: int = 100
    batch_delete: int = 1000
    task_ttl: Span = 31 * DAY
    task_tombstone: Span = 24 * HOUR
    queue_tombstone: Span = 7 * DAY
    page_token_life: Span = 2 * HOUR


GOOGLE = Limits()

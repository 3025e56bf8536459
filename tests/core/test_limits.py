"""Google's published limits are the defaults (wire.md section 13)."""

from __future__ import annotations

from taskbell.core import errors
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND
from taskbell.core.limits import GOOGLE, Limits
from taskbell.core.queue import Queue, RateLimits, RetryConfig, burst_for
from taskbell.core.target import AppEngineTarget, HttpTarget
from taskbell.core.task import DueKey, Task


def test_the_defaults_are_googles_limits() -> None:
    """One table against the other."""
    assert (
        Limits(
            max_dispatches_per_second=500,
            max_concurrent_dispatches=5000,
            default_concurrent_dispatches=1000,
            max_burst_size=500,
            schedule_horizon=720 * HOUR,
            task_size=1_048_569,
            headers_size=80 * 1024,
            url_length=2083,
            min_dispatch_deadline=15 * SECOND,
            max_http_deadline=30 * MINUTE,
            max_app_engine_deadline=24 * HOUR + 15 * SECOND,
            default_http_deadline=10 * MINUTE,
            queues_page=9800,
            tasks_page=1000,
            batch_create=100,
            batch_delete=1000,
            task_ttl=31 * DAY,
            task_tombstone=24 * HOUR,
            queue_tombstone=7 * DAY,
            page_token_life=2 * HOUR,
        )
        == GOOGLE
    )


def test_a_queue_has_the_documented_defaults() -> None:
    """As CreateQueue answers with a name alone."""
    queue = Queue("projects/p/locations/l/queues/q")

    assert queue.rate_limits == RateLimits(500.0, 100, 1000)
    assert queue.retry_config == RetryConfig(100, None, SECOND // 10, HOUR, 16)
    assert queue.state == "RUNNING"


def test_the_burst_follows_from_the_rate() -> None:
    """100 at 500/s, 10 at 1/s."""
    assert [burst_for(rate) for rate in (500, 250, 50, 1, 0.001, 0)] == [100, 50, 10, 10, 10, 10]


def test_a_tasks_name_place_and_size() -> None:
    """The properties that everything else reads."""
    task = Task(
        7, "projects/p/locations/l/queues/q", "t", named=True, target=HttpTarget("http://h/", body=b"x" * 10),
        schedule_time=5, create_time=3,
    )  # fmt: skip

    assert task.name == "projects/p/locations/l/queues/q/tasks/t"
    assert task.due_key == DueKey(5, 7) < DueKey(5, 8) < DueKey(6, 1)
    assert task.size == 1034
    assert AppEngineTarget().relative_uri == "/"


def test_every_refusal_has_a_code_of_its_own() -> None:
    """The tree has one class for each code that we answer."""
    kinds = errors.TaskbellError.__subclasses__()

    assert len({kind.code for kind in kinds}) == len(kinds) == 11
    assert str(errors.NotFound("gone")) == "gone"

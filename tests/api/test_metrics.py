"""What a scraper reads."""

from __future__ import annotations

from dataclasses import replace

from taskbell.api.metrics import Metrics
from taskbell.core.execution import after_attempt, attempted, started
from taskbell.core.instant import SECOND
from taskbell.core.job import Job
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.schedule import parse_schedule
from taskbell.core.target import HttpTarget
from taskbell.core.task import Task
from taskbell.events import AttemptFinished, BatchCommitted, Events, ExecutionAttempted, Result, TaskCreated

QUEUE = "projects/p/locations/l/queues/q"
TASK = Task(1, QUEUE, "1", named=False, target=HttpTarget("http://h/"), schedule_time=0, create_time=0)
JOB = Job(1, "projects/p/locations/l/jobs/j", HttpTarget("http://h/"), "* * * * *")


def read(metrics: Metrics, *queues: str) -> dict[str, float]:
    """The samples by their names and labels."""
    lines = metrics.render({}, set(queues)).decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_tasks_are_counted_by_queue_result_and_status() -> None:
    """A status where there was an answer, otherwise why there was none."""
    events = Events()
    metrics = Metrics(events)
    events.emit(TaskCreated(TASK))
    events.emit(AttemptFinished(TASK, Result.RETRY, Outcome(status=503), SECOND, SECOND))
    events.emit(AttemptFinished(TASK, Result.RETRY, Outcome(failure=Failure.TIMEOUT), SECOND, SECOND))
    samples = read(metrics, QUEUE)

    assert samples[f'taskbell_tasks_created_total{{queue="{QUEUE}"}}'] == 1
    assert samples[f'taskbell_attempts_total{{queue="{QUEUE}",result="retry",status="503"}}'] == 1
    assert samples[f'taskbell_attempts_total{{queue="{QUEUE}",result="retry",status="timeout"}}'] == 1
    assert samples["taskbell_attempt_duration_seconds_count"] == 2


def test_a_deleted_queue_is_told_once_more_and_then_forgotten() -> None:
    """Or queues that come and go would fill the memory."""
    events = Events()
    metrics = Metrics(events)
    events.emit(TaskCreated(TASK))
    name = f'taskbell_tasks_created_total{{queue="{QUEUE}"}}'

    assert [name in read(metrics, QUEUE), name in read(metrics), name in read(metrics)] == [True, True, False]


def test_jobs_are_counted_and_their_lateness_is_measured_at_the_first_attempt() -> None:
    """A retry is not late: it has a time of its own."""
    events = Events()
    metrics = Metrics(events)
    schedule = parse_schedule(JOB.schedule, JOB.time_zone)
    execution = attempted(started(JOB, schedule, 60 * SECOND, 62 * SECOND), 62 * SECOND)
    failed = after_attempt(execution, JOB, Outcome(status=500), 63 * SECOND, may_retry=True)
    events.emit(ExecutionAttempted(JOB, failed, Outcome(status=500), SECOND))
    events.emit(ExecutionAttempted(JOB, replace(failed, attempts=2), Outcome(status=500), SECOND))
    samples = read(metrics)

    assert samples['taskbell_job_attempts_total{progress="failed",status="500"}'] == 2
    assert samples["taskbell_job_lateness_seconds_count"] == 1
    assert samples["taskbell_job_lateness_seconds_sum"] == 2


def test_a_bucket_counts_what_is_at_or_below_its_bound() -> None:
    """Cumulatively, up to all of them."""
    events = Events()
    metrics = Metrics(events)
    for operations in (1, 2, 3, 5000):
        events.emit(BatchCommitted(operations, 0))
    samples = read(metrics)

    bounds = ("1", "2", "4", "1000", "+Inf")
    assert [samples[f'taskbell_commit_operations_bucket{{le="{bound}"}}'] for bound in bounds] == [1, 2, 3, 3, 4]
    assert samples["taskbell_commit_operations_sum"] == 5006

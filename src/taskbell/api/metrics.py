"""Prometheus metrics: counted from events in plain numbers, turned into metric families when a scraper asks.

The client library's own counters take a lock for each count, which the path of every attempt would pay; everything here
happens in one event loop, so plain numbers do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from taskbell.core.instant import SECOND, Span
from taskbell.events import AttemptFinished, BatchCommitted, Events, ExecutionAttempted, TaskCreated, TaskDispatched

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)
_OPERATIONS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


class Buckets:
    """A histogram in the making."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        """What a scraper reads: cumulative counts."""
        buckets: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self._sum)


class Metrics(Collector):
    """The server's numbers, in a registry of their own, so that several servers can live in one test process."""

    def __init__(self, events: Events) -> None:
        self._created: Counter[str] = Counter()
        self._dispatched: Counter[str] = Counter()
        self._ended: Counter[tuple[str, str, str]] = Counter()
        self._executions: Counter[tuple[str, str]] = Counter()
        self._start_lateness = Buckets(_SECONDS)
        self._lateness, self._attempt = Buckets(_SECONDS), Buckets(_SECONDS)
        self._commit, self._operations = Buckets(_SECONDS), Buckets(_OPERATIONS)
        self._depths: Mapping[str, int] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        events.subscribe(TaskCreated, self._on_created)
        events.subscribe(TaskDispatched, self._on_dispatched)
        events.subscribe(AttemptFinished, self._on_finished)
        events.subscribe(ExecutionAttempted, self._on_execution)
        events.subscribe(BatchCommitted, self._on_committed)

    def render(self, depths: Mapping[str, int], queues: AbstractSet[str]) -> bytes:
        """The text that a scraper reads, with the depths of now. Deleted queues are told once more, then forgotten."""
        self._depths = depths
        text = generate_latest(self._registry)
        for counts in (self._created, self._dispatched):
            for queue in counts.keys() - queues:
                del counts[queue]
        for labels in [labels for labels in self._ended if labels[0] not in queues]:
            del self._ended[labels]
        return text

    def collect(self) -> Iterator[Metric]:
        """The families, for the registry."""
        yield _counters("taskbell_tasks_created", "Tasks whose create was committed.", self._created)
        yield _counters("taskbell_dispatches", "Attempts that were sent out.", self._dispatched)
        ended = CounterMetricFamily("taskbell_attempts", "Attempts that ended.", labels=("queue", "result", "status"))
        for labels, count in self._ended.items():
            ended.add_metric(labels, count)
        yield ended
        depth = GaugeMetricFamily("taskbell_queue_depth", "Waiting tasks.", labels=("queue",))
        for queue, count in self._depths.items():
            depth.add_metric((queue,), count)
        yield depth
        executions = CounterMetricFamily(
            "taskbell_job_attempts", "Attempts of jobs that ended.", labels=("progress", "status")
        )
        for names, count in self._executions.items():
            executions.add_metric(names, count)
        yield executions
        yield self._start_lateness.family("taskbell_job_lateness_seconds", "Start of an execution after its instant.")
        yield self._lateness.family("taskbell_dispatch_lateness_seconds", "Dispatch after schedule time.")
        yield self._attempt.family("taskbell_attempt_duration_seconds", "Begin of an attempt to its commit.")
        yield self._operations.family("taskbell_commit_operations", "Operations in one commit.")
        yield self._commit.family("taskbell_commit_duration_seconds", "One commit.")

    def _on_created(self, event: TaskCreated) -> None:
        self._created[event.task.queue] += 1

    def _on_dispatched(self, event: TaskDispatched) -> None:
        self._dispatched[event.task.queue] += 1
        self._lateness.observe(_seconds(event.lateness))

    def _on_finished(self, event: AttemptFinished) -> None:
        outcome = event.outcome
        self._ended[event.task.queue, event.result, str(outcome.status or outcome.failure)] += 1
        self._attempt.observe(_seconds(event.duration))

    def _on_execution(self, event: ExecutionAttempted) -> None:
        execution, outcome = event.execution, event.outcome
        self._executions[execution.progress, str(outcome.status or outcome.failure)] += 1
        if execution.attempts == 1 and execution.start_time is not None and not execution.is_forced:
            self._start_lateness.observe(_seconds(execution.start_time - execution.instant))

    def _on_committed(self, event: BatchCommitted) -> None:
        self._operations.observe(event.operations)
        self._commit.observe(_seconds(event.duration))


def _seconds(span: Span) -> float:
    return max(0, span) / SECOND


def _counters(name: str, text: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=("queue",))
    for queue, count in counts.items():
        family.add_metric((queue,), count)
    return family

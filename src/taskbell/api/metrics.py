"""Prometheus metrics: counted from events, rendered on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from taskbell.core.instant import SECOND
from taskbell.events import AttemptFinished, BatchCommitted, Events, TaskCreated, TaskDispatched

CONTENT_TYPE = CONTENT_TYPE_LATEST
_LATENESS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)
_BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The server's own registry, so that several servers can live in one test process."""

    def __init__(self, events: Events) -> None:
        self._registry = CollectorRegistry()
        created = self._counter("taskbell_tasks_created", "Tasks whose create was committed.", "queue")
        dispatched = self._counter("taskbell_dispatches", "Attempts that were sent out.", "queue")
        outcomes = self._counter("taskbell_attempts", "Attempts that ended.", "queue", "result", "status")
        self._depth = Gauge("taskbell_queue_depth", "Waiting tasks.", ["queue"], registry=self._registry)
        lateness = self._histogram("taskbell_dispatch_lateness_seconds", "Dispatch after schedule time.", _LATENESS)
        duration = self._histogram("taskbell_attempt_duration_seconds", "Begin of an attempt to its commit.", _LATENESS)
        batch = self._histogram("taskbell_commit_operations", "Operations in one commit.", _BATCH)
        commit = self._histogram("taskbell_commit_duration_seconds", "One commit.", _LATENESS)
        # Labelled children are looked up once for each queue: the look-up costs more than the count.
        created_in, dispatched_in, ended_as = _cached(created), _cached(dispatched), _cached(outcomes)

        def on_dispatched(event: TaskDispatched) -> None:
            dispatched_in(event.task.queue).inc()
            lateness.observe(max(0, event.lateness) / SECOND)

        def on_finished(event: AttemptFinished) -> None:
            ended_as(event.task.queue, event.result, event.outcome.status or event.outcome.failure).inc()
            duration.observe(event.duration / SECOND)

        def on_committed(event: BatchCommitted) -> None:
            batch.observe(event.operations)
            commit.observe(event.duration / SECOND)

        events.subscribe(TaskCreated, lambda event: created_in(event.task.queue).inc())
        events.subscribe(TaskDispatched, on_dispatched)
        events.subscribe(AttemptFinished, on_finished)
        events.subscribe(BatchCommitted, on_committed)

    def render(self, depths: Mapping[str, int]) -> bytes:
        """The text that a scraper reads, with the depths of now."""
        self._depth.clear()
        for queue, depth in depths.items():
            self._depth.labels(queue).set(depth)
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self._registry)


def _cached(counter: Counter) -> Callable[..., Counter]:
    """`counter.labels`, looked up once for each combination."""
    children: dict[tuple[object, ...], Counter] = {}

    def child(*labels: object) -> Counter:
        known = children.get(labels)
        if known is None:
            known = children[labels] = counter.labels(*map(str, labels))
        return known

    return child

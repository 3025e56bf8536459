"""Queues: what the queue RPCs mean (wire.md sections 4.1 to 4.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from taskbell.clock import Clock
from taskbell.core import names
from taskbell.core.app_engine import hosted
from taskbell.core.errors import InvalidArgument
from taskbell.core.limits import Limits
from taskbell.core.queue import Queue, QueueState, RateLimits, RetryConfig, burst_for
from taskbell.engine import Engine
from taskbell.service.dispatch import Dispatch


def check_rate_limits(limits: RateLimits, allowed: Limits) -> None:
    """Refuse rates and concurrencies out of range, in the recorded words."""
    rate, concurrency = limits.max_dispatches_per_second, limits.max_concurrent_dispatches
    if not rate >= 0:
        raise InvalidArgument("RateLimits.maxDispatchesPerSecond cannot be negative.")
    if rate > allowed.max_dispatches_per_second:
        raise InvalidArgument(
            f"RateLimits.maxDispatchesPerSecond must be less than or equal to {allowed.max_dispatches_per_second:g}."
        )
    if concurrency < 0:
        raise InvalidArgument("RateLimits.maxConcurrentDispatches cannot be negative.")
    if concurrency > allowed.max_concurrent_dispatches:
        raise InvalidArgument(
            f"RateLimits.maxConcurrentDispatches must be less than or equal to {allowed.max_concurrent_dispatches}."
        )


def check_retry_config(config: RetryConfig) -> None:
    """Refuse retry settings out of range, in the recorded words. The wire's -1 has become None before."""
    if config.max_attempts is not None and config.max_attempts < 0:
        raise InvalidArgument("RetryConfig.maxAttempts must be greater or equal to -1.")
    if config.max_doublings < 0:
        raise InvalidArgument("RetryConfig.maxDoublings cannot be negative.")
    if config.max_retry_duration is not None and config.max_retry_duration < 0:
        raise InvalidArgument("RetryConfig.maxRetryDuration cannot be negative.")
    if config.min_backoff < 0:
        raise InvalidArgument("RetryConfig.minBackoff cannot be negative.")
    if config.max_backoff < 0:
        raise InvalidArgument("RetryConfig.maxBackoff cannot be negative.")
    if config.min_backoff > config.max_backoff:
        raise InvalidArgument("RetryConfig.minBackoff must be less than or equal to RetryConfig.maxBackoff.")


def check_queue(queue: Queue, allowed: Limits) -> None:
    """Refuse a queue that cannot be stored."""
    check_rate_limits(queue.rate_limits, allowed)
    check_retry_config(queue.retry_config)
    ratio = queue.log_sampling_ratio
    if ratio is not None and not 0.0 <= ratio <= 1.0:
        raise InvalidArgument("StackdriverLoggingConfig.samplingRatio must be between 0.0 and 1.0.")
    if queue.http_override is not None and queue.http_override.host == "":
        raise InvalidArgument("UriOverride.host cannot be empty.")


class QueueService:
    """The queue RPCs over one engine."""

    def __init__(self, engine: Engine, dispatch: Dispatch, clock: Clock, limits: Limits) -> None:
        self._engine = engine
        self._dispatch = dispatch
        self._clock = clock
        self._limits = limits

    def blank(self, name: str) -> Queue:
        """A queue of this name with the defaults of this server."""
        return Queue(
            name=name,
            rate_limits=RateLimits(
                self._limits.max_dispatches_per_second,
                burst_for(self._limits.max_dispatches_per_second),
                self._limits.default_concurrent_dispatches,
            ),
            task_ttl=self._limits.task_ttl,
            tombstone_ttl=self._limits.task_tombstone,
        )

    async def create(self, parent: str, queue: Queue) -> Queue:
        """Create a queue that is complete but for what the server chooses."""
        names.check_queue_under(queue.name, parent)
        queue = self._with_chosen(queue)
        check_queue(queue, self._limits)
        await self._engine.create_queue(queue, self._clock.now())
        self._dispatch.queue_changed(queue)
        return queue

    async def get(self, name: str) -> Queue:
        """One queue."""
        names.check_queue_name(name)
        return await self._engine.queue(name)

    async def page(self, parent: str, after: str, limit: int) -> list[Queue]:
        """Queues of a location by name, after a name."""
        names.parse_location(parent)
        return await self._engine.queues(parent, after, limit)

    async def update(self, name: str, change: Callable[[Queue], Queue]) -> Queue:
        """Create the queue if it is missing, then lay `change` over it; state and purge time are not for callers."""
        names.check_queue_name(name)

        def changed(stored: Queue | None) -> Queue:
            before = stored or self.blank(name)
            after = change(before)
            queue = self._with_chosen(replace(after, name=name, state=before.state, purge_time=before.purge_time))
            check_queue(queue, self._limits)
            return queue

        queue = await self._engine.update_queue(name, changed, self._clock.now())
        self._dispatch.queue_changed(queue)
        return queue

    async def delete(self, name: str) -> None:
        """Remove a queue with everything in it."""
        names.check_queue_name(name)
        await self._engine.delete_queue(name, self._clock.now(), self._limits.queue_tombstone)
        self._dispatch.queue_deleted(name)

    async def purge(self, name: str) -> Queue:
        """Remove every task whose creation was asked for before this call."""
        names.check_queue_name(name)
        queue, through = await self._engine.purge_queue(name, self._clock.now())
        self._dispatch.queue_purged(queue, through)
        return queue

    async def pause(self, name: str) -> Queue:
        """Stop dispatching; idempotent."""
        return await self._set_state(name, QueueState.PAUSED)

    async def resume(self, name: str) -> Queue:
        """Dispatch again, from PAUSED or DISABLED; idempotent."""
        return await self._set_state(name, QueueState.RUNNING)

    async def _set_state(self, name: str, state: QueueState) -> Queue:
        names.check_queue_name(name)
        queue = await self._engine.set_queue_state(name, state)
        self._dispatch.queue_changed(queue)
        return queue

    def _with_chosen(self, queue: Queue) -> Queue:
        """The queue with the burst that the server derives from the rate, and the host from the routing."""
        limits, routing = queue.rate_limits, queue.routing_override
        return replace(
            queue,
            rate_limits=replace(limits, max_burst_size=burst_for(max(limits.max_dispatches_per_second, 0.0))),
            routing_override=None if routing is None else hosted(queue.name, routing),
        )

"""The sweeper: removes what is over, in small batches, so that no transaction is long."""

from __future__ import annotations

from taskbell.clock import Clock
from taskbell.core.instant import MILLISECOND, SECOND, Span
from taskbell.engine import Engine
from taskbell.loops.loop import Loop


class Sweeper(Loop):
    """Drives `Engine.sweep`: at rest when nothing is left, with short pauses while there is."""

    def __init__(
        self, engine: Engine, clock: Clock, *, history: Span, batch: int = 500, rest: Span = 10 * SECOND
    ) -> None:
        """`history`: how long the executions of jobs are kept."""
        super().__init__(clock)
        self._engine = engine
        self._history = history
        self._batch = batch
        self._rest = rest

    async def run_once(self) -> Span:
        """Sweep one batch."""
        now = self.clock.now()
        swept = await self._engine.sweep(now, self._batch)
        executions = await self._engine.sweep_executions(now - self._history, self._batch)
        return 50 * MILLISECOND if max(swept.total, executions) >= self._batch else self._rest

"""The one shape of everything that runs for ever: start, stop, run_once.

A loop says how to do one bounded piece of work (`run_once`) and how long to wait afterwards; this class knows the
timing, the logging of faults and how to stop. Tests call `run_once` and never start anything.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

import structlog

from taskbell.clock import Clock
from taskbell.core.errors import TaskbellError
from taskbell.core.instant import SECOND, Span

log = structlog.get_logger("taskbell.loop")

FAULT_WAIT: Span = SECOND
"""How long a loop rests after a fault before it tries again."""


class Loop(ABC):
    """One background activity."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @abstractmethod
    async def run_once(self) -> Span:
        """Do one bounded piece of work; return how long to wait until the next, unless woken before."""

    def start(self) -> None:
        """Begin to run in the background. Starting twice is an error of ours."""
        assert self._task is None
        self._stopping = False
        self._task = asyncio.create_task(self._run(), name=type(self).__name__)

    async def stop(self) -> None:
        """Finish the piece of work at hand and end. Idempotent, and safe before start."""
        self._stopping = True
        self.wake.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def _run(self) -> None:
        while not self._stopping:
            self.wake.clear()
            try:
                pause = await self.run_once()
            except TaskbellError as refusal:
                log.warning("loop.refused", loop=type(self).__name__, reason=refusal.message)
                pause = FAULT_WAIT
            except Exception:
                # A loop must outlive its faults: what it drives would otherwise stop without a word.
                log.exception("loop.failed", loop=type(self).__name__)
                pause = FAULT_WAIT
            if not self._stopping:
                await self.clock.wait(self.wake, pause)

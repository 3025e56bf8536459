"""The engine suite: every sentence of `taskbell.engine.Engine`, as tests that any engine can be put through.

To judge an engine, subclass a suite in a test module and give it a `make_engine` fixture:

    class TestMyEngine(DurableEngineSuite):
        @pytest.fixture
        def make_engine(self, tmp_path):
            return lambda: MyEngine(tmp_path / "store")

`EngineSuite` is for engines that forget when they are closed; `DurableEngineSuite` adds what a store that outlives its
engine must still know. Needs pytest and pytest-asyncio. For readable failures call
`pytest.register_assert_rewrite("taskbell.testing")` in a conftest before anything imports it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from taskbell.engine import Engine
from taskbell.testing.engine_creating import CreatingTasks
from taskbell.testing.engine_durability import Reopening
from taskbell.testing.engine_executions import Forcing, Progressing, ReadingHistories, SweepingHistories, Ticking
from taskbell.testing.engine_jobs import EditingJobs, KeepingJobs, ReopeningJobs
from taskbell.testing.engine_queues import DeletingQueues, KeepingQueues, SmallThings
from taskbell.testing.engine_reading import DeletingTasks, ReadingTasks
from taskbell.testing.engine_samples import START, MakeEngine, sample_queue
from taskbell.testing.engine_settling import SettlingTasks
from taskbell.testing.engine_upkeep import Counting, HandingOutIds, Ordering, PurgingQueues, Sweeping


@pytest.mark.asyncio
class EngineSuite(
    CreatingTasks,
    SettlingTasks,
    ReadingTasks,
    DeletingTasks,
    KeepingQueues,
    DeletingQueues,
    SmallThings,
    PurgingQueues,
    Sweeping,
    Counting,
    Ordering,
    HandingOutIds,
    KeepingJobs,
    EditingJobs,
    Ticking,
    Forcing,
    Progressing,
    ReadingHistories,
    SweepingHistories,
):
    """What every engine promises."""

    @pytest_asyncio.fixture
    async def engine(self, make_engine: MakeEngine) -> AsyncIterator[Engine]:
        """An open engine with one queue."""
        engine = make_engine()
        await engine.open()
        await engine.create_queue(sample_queue(), START)
        yield engine
        await engine.close()


class DurableEngineSuite(EngineSuite, Reopening, ReopeningJobs):
    """What an engine with a store promises besides."""

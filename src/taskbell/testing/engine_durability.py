"""Suite: what a store that outlives its engine must still know."""

from __future__ import annotations

import asyncio

import pytest

from taskbell.core.errors import FailedPrecondition, TaskbellError
from taskbell.core.instant import DAY, HOUR, SECOND
from taskbell.core.queue import QueueState
from taskbell.engine import Engine
from taskbell.testing.engine_samples import (
    OTHER_QUEUE,
    QUEUE,
    START,
    MakeEngine,
    add,
    due,
    over,
    put,
    retry,
    sample_queue,
    sample_task,
    state_of,
)


class Reopening:
    """Close and open again: nothing is lost, nothing comes back."""

    async def test_everything_is_still_there(self, engine: Engine, make_engine: MakeEngine) -> None:
        """Queues and their states, tasks and their attempts, tombstones, purges, policies, records."""
        await engine.create_queue(sample_queue(OTHER_QUEUE, task_ttl=HOUR), START)
        await engine.set_queue_state(OTHER_QUEUE, QueueState.PAUSED)
        await add(engine, name="purged")
        await engine.purge_queue(QUEUE, START)
        settled, failed = await add(engine, name="settled"), await add(engine, name="failed")
        await engine.settle([over(settled), retry(failed)], START)
        await add(engine)
        await add(engine, queue=OTHER_QUEUE)
        await engine.set_policy(QUEUE, b"policy", None)
        await engine.put_record("key", b"value")
        names = {QUEUE: ["purged", "settled", "failed", "never"], OTHER_QUEUE: ["n"]}
        before = await state_of(engine, START, names)
        await engine.close()

        again = make_engine()
        await again.open()
        assert await state_of(again, START, names) == before
        assert await again.policy(QUEUE) == b"policy"
        assert await again.record("key") == b"value"
        await again.close()

    async def test_deleted_queues_stay_deleted_and_blocked(self, engine: Engine, make_engine: MakeEngine) -> None:
        """And a queue of the name that comes after the restart starts empty."""
        await add(engine, name="n")
        await engine.delete_queue(QUEUE, START, DAY)
        await engine.close()

        again = make_engine()
        await again.open()
        with pytest.raises(FailedPrecondition):
            await again.create_queue(sample_queue(), START + DAY - 1)
        await again.create_queue(sample_queue(), START + DAY)
        assert await due(again) == []
        await add(again, START + DAY, name="n")
        await again.close()

    async def test_ids_go_on_growing_though_the_newest_rows_are_gone(
        self, engine: Engine, make_engine: MakeEngine
    ) -> None:
        """Over restarts with the clock going back, too."""
        last = 0
        await engine.close()
        for number in range(4):
            again = make_engine()
            await again.open()
            now = START - number * HOUR
            tasks = [sample_task(again, now) for _ in range(3)]
            assert tasks[0].id > last
            await put(again, *tasks)
            await again.settle([over(task) for task in tasks], now)
            last = again.next_id(now)
            await again.close()

    async def test_what_was_accepted_is_committed_before_closing(self, engine: Engine, make_engine: MakeEngine) -> None:
        """A close waits for the verbs that were called before it."""
        tasks = [sample_task(engine) for _ in range(200)]
        running = [asyncio.ensure_future(engine.create_tasks([task])) for task in tasks]
        await asyncio.sleep(0)
        await engine.close()
        assert await asyncio.gather(*running) == [[None]] * 200

        again = make_engine()
        await again.open()
        assert await due(again) == tasks
        await again.close()

    async def test_a_closed_engine_says_so(self, engine: Engine) -> None:
        """Closing twice is harmless; verbs are refused as unavailable."""
        await engine.close()
        await engine.close()
        with pytest.raises(TaskbellError) as caught:
            await engine.create_tasks([sample_task(engine)])

        assert caught.value.code == "UNAVAILABLE"

    async def test_a_second_engine_on_the_store_is_refused(self, engine: Engine, make_engine: MakeEngine) -> None:
        """With one sentence, and the first one does not notice."""
        with pytest.raises(FailedPrecondition, match=r"^The store .* is in use by another Taskbell server; .*\.$"):
            await make_engine().open()

        await add(engine, START + SECOND)
        assert (await engine.depths())[QUEUE] == 1

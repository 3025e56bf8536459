"""Suite: purging, sweeping, counting; the order of verbs; ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from itertools import pairwise

from taskbell.core.errors import REQUESTED_ENTITY_NOT_FOUND, TASK_EXISTED_RECENTLY, TASK_EXISTED_TOO_RECENTLY
from taskbell.core.instant import DAY, EARLIEST, HOUR, LATEST, MILLISECOND, SECOND, Instant
from taskbell.core.queue import Queue, QueueState
from taskbell.engine import Engine, Swept
from taskbell.testing.engine_samples import (
    OTHER_QUEUE,
    QUEUE,
    START,
    add,
    due,
    over,
    put,
    refusal,
    refused,
    retry,
    sample_queue,
    sample_task,
)

RECENT = ("NOT_FOUND", TASK_EXISTED_RECENTLY)
NEVER = ("NOT_FOUND", REQUESTED_ENTITY_NOT_FOUND)
NOTHING = Swept(0, 0, 0, 0)


async def _sweep_all(engine: Engine, now: Instant, limit: int = 100) -> int:
    """Sweep until nothing is left to do; returns how many rows went."""
    total = 0
    while swept := (await engine.sweep(now, limit)).total:
        total += swept
    return total


def _note(answered: list[int], number: int, _: asyncio.Future[object]) -> None:
    answered.append(number)


class PurgingQueues:
    """`purge_queue`."""

    async def test_all_tasks_go_at_once(self, engine: Engine) -> None:
        """From every verb; later ones live; the queue says when."""
        unnamed, named = await add(engine), await add(engine, name="n")
        queue, _ = await engine.purge_queue(QUEUE, START + HOUR)

        assert queue == await engine.queue(QUEUE) == sample_queue(purge_time=START + HOUR)
        assert await due(engine) == await engine.tasks(QUEUE, None, 10, bodies=True) == []
        assert await engine.depths() == {QUEUE: 0}
        assert await refused(engine.task(QUEUE, unnamed.task_id, START + HOUR)) == NEVER
        assert await refused(engine.task(QUEUE, named.task_id, START + HOUR)) == RECENT
        later = await add(engine)
        assert await due(engine) == [later]

    async def test_other_queues_keep_theirs(self, engine: Engine) -> None:
        """A purge is of one queue."""
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        other = await add(engine, queue=OTHER_QUEUE)
        await engine.purge_queue(QUEUE, START)

        assert await due(engine, OTHER_QUEUE) == [other]

    async def test_it_covers_what_was_asked_for_before_and_nothing_else(self, engine: Engine) -> None:
        """However the calls are grouped; the id it returns is the frontier."""
        before = [sample_task(engine) for _ in range(5)]
        calls: list[Awaitable[object]] = [engine.create_tasks([task]) for task in before]
        running = [asyncio.ensure_future(call) for call in calls]
        purge = asyncio.ensure_future(engine.purge_queue(QUEUE, START))
        await asyncio.sleep(0)  # Every call so far has been asked for now, and few if any have been answered.
        after = [sample_task(engine) for _ in range(5)]
        await asyncio.gather(*running, *(engine.create_tasks([task]) for task in after))
        _, through = await purge

        assert await due(engine) == after
        assert max(task.id for task in before) <= through < min(task.id for task in after)

    async def test_names_stay_blocked_as_after_a_delete(self, engine: Engine) -> None:
        """From the purge, for the tombstone_ttl of that time, whether swept or not, whatever is set later."""
        for number, is_swept in enumerate((False, True)):
            name = f"n{number}"
            await add(engine, name=name)
            await engine.purge_queue(QUEUE, START)
            if is_swept:
                await _sweep_all(engine, START)
            await engine.update_queue(QUEUE, lambda _: sample_queue(tombstone_ttl=9 * DAY), START)
            last = sample_task(engine, START + DAY - 1, name=name)

            assert await refusal(engine, last) == ("ALREADY_EXISTS", TASK_EXISTED_TOO_RECENTLY)
            assert await refused(engine.task(QUEUE, name, START + DAY - 1)) == RECENT
            assert await refused(engine.delete_task(QUEUE, name, START + DAY - 1)) == NEVER
            assert await refused(engine.task(QUEUE, name, START + DAY)) == NEVER
            assert await refusal(engine, sample_task(engine, START + DAY, name=name)) is None
            await engine.update_queue(QUEUE, lambda _: sample_queue(), START)

    async def test_a_freed_name_may_be_used_before_the_purged_task_is_swept(self, engine: Engine) -> None:
        """And sweeping the old one does not touch the new one."""
        await add(engine, name="n")
        await engine.purge_queue(QUEUE, START)
        again = await add(engine, START + DAY, name="n")
        await _sweep_all(engine, START + DAY)

        assert await engine.task(QUEUE, "n", START + DAY) == again
        assert await due(engine) == [again]

    async def test_purging_again_does_not_block_longer(self, engine: Engine) -> None:
        """Each name is blocked from the purge that took its task."""
        await add(engine, name="first")
        await engine.purge_queue(QUEUE, START)
        await add(engine, name="second")
        await engine.purge_queue(QUEUE, START + HOUR)
        await engine.purge_queue(QUEUE, START + 2 * HOUR)

        assert await refused(engine.task(QUEUE, "first", START + DAY)) == NEVER
        assert await refused(engine.task(QUEUE, "second", START + DAY)) == RECENT
        assert await refused(engine.task(QUEUE, "second", START + DAY + HOUR)) == NEVER


class Sweeping:
    """`sweep`."""

    async def test_with_nothing_due_nothing_happens(self, engine: Engine) -> None:
        """Young tasks and live tombstones stay."""
        task, gone = await add(engine), await add(engine, name="n")
        await engine.settle([over(gone)], START)

        assert await engine.sweep(START + DAY - 1, 100) == NOTHING
        assert await due(engine) == [task]
        assert await refused(engine.task(QUEUE, "n", START + DAY - 1)) == RECENT

    async def test_tasks_past_their_task_ttl_go(self, engine: Engine) -> None:
        """Dispatched or not, due or not; named ones leave a tombstone; each queue has its own task_ttl."""
        await engine.create_queue(sample_queue(OTHER_QUEUE, task_ttl=HOUR), START)
        old = [sample_task(engine), sample_task(engine, name="n"), sample_task(engine, schedule_time=START + 99 * DAY)]
        short = sample_task(engine, queue=OTHER_QUEUE)
        await put(engine, *old, short)
        await engine.settle([retry(old[0])], START)
        young = await add(engine, START + DAY)

        assert await engine.sweep(START + HOUR, 100) == NOTHING
        assert await engine.sweep(START + HOUR + MILLISECOND, 100) == Swept(1, 0, 0, 0)
        assert await due(engine, OTHER_QUEUE) == []
        end = START + 31 * DAY + MILLISECOND
        assert (await engine.sweep(end, 100)).expired_tasks == 3
        assert await due(engine) == [young]
        assert await refused(engine.task(QUEUE, "n", end + DAY - 1)) == RECENT
        assert await refused(engine.task(QUEUE, "n", end + DAY)) == NEVER

    async def test_a_shorter_task_ttl_reaches_older_tasks(self, engine: Engine) -> None:
        """Also those that an earlier sweep has passed by."""
        await engine.create_queue(sample_queue(OTHER_QUEUE, task_ttl=HOUR), START)
        await add(engine, name="n")
        await add(engine, queue=OTHER_QUEUE)
        assert (await engine.sweep(START + DAY, 100)).expired_tasks == 1

        await engine.update_queue(QUEUE, lambda _: sample_queue(task_ttl=HOUR), START)
        assert (await engine.sweep(START + DAY, 100)).expired_tasks == 1
        assert await due(engine) == []

    async def test_a_clock_that_was_ahead_leaves_nothing_behind(self, engine: Engine) -> None:
        """Tasks created after it went back are found when their time comes."""
        await engine.create_queue(sample_queue(OTHER_QUEUE, task_ttl=HOUR), START)
        await add(engine, queue=OTHER_QUEUE)
        assert (await engine.sweep(START + 9 * DAY, 100)).expired_tasks == 1
        await add(engine, queue=OTHER_QUEUE)

        assert (await engine.sweep(START + HOUR, 100)).expired_tasks == 0
        assert (await engine.sweep(START + HOUR + SECOND, 100)).expired_tasks == 1

    async def test_it_removes_few_at_a_time_and_in_the_end_all(self, engine: Engine) -> None:
        """At most `limit` of each kind, and zero only when nothing is left."""
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        tasks = [sample_task(engine, name=f"n{number}" if number % 2 else None) for number in range(25)]
        purged = [sample_task(engine, name=f"p{number}", queue=OTHER_QUEUE) for number in range(25)]
        await put(engine, *tasks, *purged)
        await engine.purge_queue(OTHER_QUEUE, START)
        now = START + 31 * DAY + SECOND
        live = await add(engine, now)

        for limit in (1, 3, 10):
            swept = await engine.sweep(now, limit)
            assert swept.expired_tasks == limit
            assert max(swept) <= limit
        await _sweep_all(engine, now, 4)
        assert await engine.sweep(now, 100) == NOTHING
        assert await due(engine) == [live]
        assert await engine.depths() == {QUEUE: 1, OTHER_QUEUE: 0}

    async def test_tombstones_that_ended_go(self, engine: Engine) -> None:
        """And take nothing with them that lives."""
        for name in ("a", "b"):
            await add(engine, name=name)
            await engine.delete_task(QUEUE, name, START)
        again = await add(engine, START + DAY, name="b")
        await _sweep_all(engine, START + DAY)

        assert await due(engine) == [again]
        assert await engine.sweep(START + DAY, 100) == NOTHING

    async def test_deleted_queues_are_cleaned_away(self, engine: Engine) -> None:
        """Their tombstones when they end, their rows at any time; a live queue is not touched."""
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        await add(engine, name="n")
        live = await add(engine, queue=OTHER_QUEUE)
        await engine.delete_queue(QUEUE, START, HOUR)
        assert (await engine.sweep(START + HOUR - 1, 100)).queues == 0
        assert (await engine.sweep(START + HOUR, 100)).queues == 1
        await _sweep_all(engine, START + HOUR)

        assert await engine.sweep(START + HOUR, 100) == NOTHING
        assert await due(engine, OTHER_QUEUE) == [live]

    async def test_it_may_run_beside_everything_else(self, engine: Engine) -> None:
        """Sweeps between creates, purges and settles of one burst."""
        tasks = [sample_task(engine, name=f"n{number}") for number in range(60)]
        calls: list[Awaitable[object]] = []
        for number, task in enumerate(tasks):
            calls.append(engine.create_tasks([task]))
            if number % 10 == 9:
                calls += [engine.purge_queue(QUEUE, START), engine.sweep(START, 3)]
        await asyncio.gather(*calls, engine.settle([over(task) for task in tasks], START))
        await _sweep_all(engine, START)

        assert await due(engine) == []
        for task in tasks:
            assert await refused(engine.task(QUEUE, task.task_id, START)) == RECENT


class Counting:
    """`depths`."""

    async def test_depths_follow_every_change(self, engine: Engine) -> None:
        """Creates, refusals, both outcomes, misses, deletes, purges, sweeps."""

        async def depth() -> int:
            return (await engine.depths())[QUEUE]

        assert await depth() == 0
        tasks = [await add(engine, name=f"n{number}") for number in range(10)]
        await engine.create_tasks([sample_task(engine, name="n0")])
        assert await depth() == 10
        await engine.settle([retry(tasks[0]), over(tasks[1]), over(tasks[1])], START)
        assert await depth() == 9
        await engine.delete_task(QUEUE, "n2", START)
        assert await depth() == 8
        await engine.sweep(START + 32 * DAY, 3)
        assert await depth() == 5
        await engine.purge_queue(QUEUE, START)
        assert await depth() == 0
        await add(engine)
        await engine.sweep(START, 100)
        assert await depth() == 1

    async def test_every_queue_is_counted(self, engine: Engine) -> None:
        """Empty ones too; queues that are gone are not."""
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        await add(engine)
        assert await engine.depths() == {QUEUE: 1, OTHER_QUEUE: 0}

        await engine.delete_queue(QUEUE, START, 0)
        assert await engine.depths() == {OTHER_QUEUE: 0}


class Ordering:
    """Verbs take effect in the order of their calls, and are answered in it."""

    async def test_answers_come_in_the_order_of_the_calls(self, engine: Engine) -> None:
        """Whatever the verbs are."""
        first, second = sample_task(engine, name="n"), sample_task(engine)

        def paused(stored: Queue | None) -> Queue:
            assert stored is not None
            return replace(stored, state=QueueState.PAUSED)

        calls: list[Awaitable[object]] = [
            engine.create_tasks([first]),
            engine.settle([retry(first)], START),
            engine.delete_task(QUEUE, "n", START),
            engine.update_queue(QUEUE, paused, START),
            engine.settle([over(first)], START),
            engine.create_tasks([second]),
            engine.purge_queue(QUEUE, START),
            engine.set_policy(QUEUE, b"p", None),
            engine.sweep(START, 10),
        ]
        answered: list[int] = []
        running = [asyncio.ensure_future(call) for call in calls]
        for number, future in enumerate(running):
            future.add_done_callback(partial(_note, answered, number))
        results = await asyncio.gather(*running)
        await asyncio.sleep(0)

        assert answered == list(range(len(calls)))
        assert results[1] == [True]
        assert results[4] == [False]
        assert await due(engine) == []

    async def test_a_cancelled_caller_leaves_the_effect_whole(self, engine: Engine) -> None:
        """The verb was asked for, so it happens; nobody else is disturbed."""
        tasks = [sample_task(engine) for _ in range(3)]
        running = [asyncio.ensure_future(engine.create_tasks([task])) for task in tasks]
        await asyncio.sleep(0)
        running[1].cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await engine.set_policy(QUEUE, b"everything before this has been committed", None)

        assert await due(engine) == tasks


class HandingOutIds:
    """`next_id`."""

    async def test_ids_grow_whatever_the_clock_does(self, engine: Engine) -> None:
        """Standing still, going back, jumping to the ends of time."""
        clock = [
            START,
            START,
            START - 2 * HOUR,
            START + DAY,
            START,
            EARLIEST,
            0,
            LATEST,
            LATEST,
            START,
            START + 2 * DAY,
        ]
        ids = [engine.next_id(now) for now in clock for _ in range(100)]

        assert all(earlier < later for earlier, later in pairwise(ids))
        assert ids[0] > 0
        assert ids[-1] < 2**63

    async def test_ids_follow_the_clock(self, engine: Engine) -> None:
        """So that the order of ids is the order of age, across restarts and nodes."""
        for now in (START, START + SECOND, START + DAY):
            assert engine.next_id(now) >> 21 == now // MILLISECOND

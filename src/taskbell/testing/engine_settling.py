"""Suite: settling attempts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from taskbell.core.errors import TASK_EXISTED_RECENTLY, TASK_EXISTS
from taskbell.core.instant import DAY, HOUR
from taskbell.engine import Engine, Settlement
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
    retried,
    retry,
    sample_queue,
    sample_task,
)


class SettlingTasks:
    """`settle`."""

    async def test_over_removes_the_task(self, engine: Engine) -> None:
        """A task that is over is gone from every verb."""
        task, other = await add(engine), await add(engine)

        assert await engine.settle([over(task)], START) == [True]
        assert await due(engine) == [other]

    async def test_over_ignores_counters(self, engine: Engine) -> None:
        """A success of an older attempt ends the task too."""
        task = await add(engine)
        await engine.settle([retry(task)], START)

        assert await engine.settle([over(task)], START) == [True]
        assert await due(engine) == []

    async def test_over_leaves_a_tombstone_for_a_chosen_name(self, engine: Engine) -> None:
        """From the instant of the settlement."""
        task = await add(engine, name="n")
        await engine.settle([over(task)], START + HOUR)

        assert (await refused(engine.task(QUEUE, "n", START + HOUR + DAY - 1)))[1] == TASK_EXISTED_RECENTLY
        assert (await refused(engine.task(QUEUE, "n", START + HOUR + DAY)))[1] != TASK_EXISTED_RECENTLY

    async def test_over_leaves_nothing_for_a_number(self, engine: Engine) -> None:
        """A name that nobody chose needs no tombstone."""
        task = await add(engine)
        await engine.settle([over(task)], START)

        assert (await refused(engine.task(QUEUE, task.task_id, START)))[1] != TASK_EXISTED_RECENTLY

    async def test_retry_replaces_the_bookkeeping_and_the_place(self, engine: Engine) -> None:
        """All of schedule time, counters and last attempt, and nothing else."""
        first, second = await add(engine), await add(engine, name="n")

        assert await engine.settle([retry(first)], START) == [True]
        assert await due(engine) == [second, retried(first)]
        assert await engine.task(QUEUE, first.task_id, START) == retried(first)

    async def test_retry_keeps_the_name(self, engine: Engine) -> None:
        """The task lives on under it."""
        task = await add(engine, name="n")
        await engine.settle([retry(task)], START)

        assert await engine.task(QUEUE, "n", START) == retried(task)
        assert await refusal(engine, sample_task(engine, name="n")) == ("ALREADY_EXISTS", TASK_EXISTS)

    async def test_a_late_answer_of_an_older_attempt_changes_nothing(self, engine: Engine) -> None:
        """The guard: the row's dispatch_count must still be below the retry's."""
        task = await add(engine)
        once = retried(task)
        twice = retried(once)
        assert await engine.settle([Settlement(once, twice)], START) == [True]

        assert await engine.settle([Settlement(task, once)], START) == [False]
        assert await engine.settle([Settlement(task, replace(twice, schedule_time=START))], START) == [False]
        assert await due(engine) == [twice]

    async def test_attempts_may_be_skipped(self, engine: Engine) -> None:
        """A forced run may have raised the count in between without having been settled."""
        task = await add(engine)
        third = replace(retried(task), dispatch_count=3)

        assert await engine.settle([Settlement(task, third)], START) == [True]
        assert await due(engine) == [third]

    async def test_a_task_that_is_gone_stays_gone(self, engine: Engine) -> None:
        """Neither outcome brings a deleted task back or buries it twice."""
        task = await add(engine, name="n")
        await engine.delete_task(QUEUE, "n", START)

        assert await engine.settle([retry(task), over(task)], START + DAY - 1) == [False, False]
        assert await due(engine) == []
        assert await refusal(engine, sample_task(engine, START + DAY, name="n")) is None

    async def test_purged_tasks_are_left_alone(self, engine: Engine) -> None:
        """A purge that raced the attempt wins, before and after it is swept."""
        tasks = [await add(engine), await add(engine, name="n")]
        await engine.purge_queue(QUEUE, START)
        outcomes = [over(tasks[0]), retry(tasks[1]), over(tasks[1])]

        assert await engine.settle(outcomes, START + HOUR) == [False, False, False]
        await engine.sweep(START, 100)
        assert await engine.settle(outcomes, START + HOUR) == [False, False, False]
        assert await refusal(engine, sample_task(engine, START + DAY, name="n")) is None

    async def test_tasks_of_a_deleted_queue_are_left_alone(self, engine: Engine) -> None:
        """Also when a queue of the same name exists again."""
        tasks = [await add(engine), await add(engine, name="n")]
        await engine.delete_queue(QUEUE, START, 0)
        assert await engine.settle([over(task) for task in tasks], START) == [False, False]

        await engine.create_queue(sample_queue(), START)
        assert await engine.settle([retry(tasks[0]), over(tasks[1])], START) == [False, False]
        assert await refusal(engine, sample_task(engine, name="n")) is None

    async def test_the_same_task_twice_settles_once(self, engine: Engine) -> None:
        """In one call and in two."""
        task, other = await add(engine), await add(engine)

        assert await engine.settle([over(task), over(task)], START) == [True, False]
        answers = await asyncio.gather(engine.settle([over(other)], START), engine.settle([over(other)], START))
        assert list(answers) == [[True], [False]]

    async def test_outcomes_of_one_task_apply_in_order(self, engine: Engine) -> None:
        """Each sees what the one before it left."""
        task = await add(engine)
        once = retried(task)

        assert await engine.settle([retry(task), retry(task), retry(once), over(task)], START) == [
            True,
            False,
            True,
            True,
        ]
        assert await due(engine) == []

    async def test_creates_and_settles_of_one_name_apply_in_order(self, engine: Engine) -> None:
        """However they are grouped: a name is free only once its task is over and its tombstone ended."""
        first, second = sample_task(engine, name="n"), sample_task(engine, name="n")
        third = sample_task(engine, START + DAY, name="n")
        answers = await asyncio.gather(
            engine.create_tasks([first]),
            engine.create_tasks([second]),
            engine.settle([over(first)], START),
            engine.settle([over(second)], START),
            engine.create_tasks([third]),
            engine.settle([retry(third)], START + DAY),
        )

        assert answers[0] == [None]
        assert [str(answer) for answer in answers[1]] == [TASK_EXISTS]
        assert list(answers[2:]) == [[True], [False], [None], [True]]
        assert await due(engine) == [retried(third)]

    async def test_many_outcomes_at_once(self, engine: Engine) -> None:
        """Wide batches of every kind, with misses among them, each answered as if alone."""
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        tasks = [
            sample_task(engine, name=f"n{number}" if number % 2 else None, queue=OTHER_QUEUE if number % 3 else QUEUE)
            for number in range(300)
        ]
        await put(engine, *tasks[:250])
        outcomes = [retry(task) if number % 5 else over(task) for number, task in enumerate(tasks)]
        answers = await asyncio.gather(*(engine.settle([outcome], START) for outcome in outcomes))

        assert answers == [[True]] * 250 + [[False]] * 50
        expected = [outcome.retry for outcome in outcomes[:250] if outcome.retry]
        assert [*await due(engine, QUEUE), *await due(engine, OTHER_QUEUE)] == sorted(
            expected, key=lambda task: (task.queue == OTHER_QUEUE, task.due_key)
        )

    async def test_no_outcomes_are_no_answers(self, engine: Engine) -> None:
        """The empty list is legal."""
        assert await engine.settle([], START) == []

    async def test_an_unknown_queue_has_nothing_to_settle(self, engine: Engine) -> None:
        """It is not an error: the queue may just have been deleted."""
        task = sample_task(engine, queue=OTHER_QUEUE)

        assert await engine.settle([over(task), retry(task)], START) == [False, False]

"""Suite: reading tasks, and deleting them by name."""

from __future__ import annotations

import asyncio

import pytest

from taskbell.core.errors import QUEUE_DOES_NOT_EXIST, REQUESTED_ENTITY_NOT_FOUND, TASK_EXISTED_RECENTLY
from taskbell.core.instant import DAY, HOUR, SECOND
from taskbell.core.target import HttpTarget
from taskbell.core.task import DueKey
from taskbell.engine import Engine
from taskbell.testing.engine_samples import (
    NO_BYTES_LIMIT,
    OTHER_QUEUE,
    QUEUE,
    START,
    add,
    due,
    over,
    put,
    refusal,
    refused,
    sample_queue,
    sample_task,
)

NO_QUEUE = ("NOT_FOUND", QUEUE_DOES_NOT_EXIST)
NEVER = ("NOT_FOUND", REQUESTED_ENTITY_NOT_FOUND)
RECENT = ("NOT_FOUND", TASK_EXISTED_RECENTLY)


class ReadingTasks:
    """`due_tasks`, `task`, `tasks`."""

    async def test_due_tasks_come_in_due_order(self, engine: Engine) -> None:
        """By schedule time, then by id; future ones too: the caller knows the clock."""
        late = sample_task(engine, schedule_time=START + DAY)
        early = sample_task(engine, schedule_time=START - DAY)
        same, again = sample_task(engine), sample_task(engine)
        await put(engine, late, again, same, early)

        assert await due(engine) == [early, same, again, late]

    async def test_due_tasks_are_strictly_after_a_key(self, engine: Engine) -> None:
        """The key need not belong to a task."""
        tasks = [await add(engine) for _ in range(4)]

        assert await due(engine, after=tasks[1].due_key) == tasks[2:]
        assert await due(engine, after=DueKey(START - 1, 2**63 - 1)) == tasks
        assert await due(engine, after=DueKey(START, 2**63 - 1)) == []
        assert await due(engine, after=DueKey(START, 0), limit=2) == tasks[:2]

    async def test_due_tasks_are_of_their_queue(self, engine: Engine) -> None:
        """Neighbours are not seen, and a queue that does not exist has none."""
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        task = await add(engine)
        other = await add(engine, queue=OTHER_QUEUE)

        assert await due(engine) == [task]
        assert await due(engine, OTHER_QUEUE) == [other]
        assert await due(engine, QUEUE + "x") == []

    async def test_due_tasks_stop_once_their_bytes_have_passed_a_bound(self, engine: Engine) -> None:
        """At least one comes, and the one that passes the bound is the last."""
        bodies = [100, 0, 5000, 1_000_000, 4096, 4097, 1]
        tasks = [sample_task(engine, target=HttpTarget("https://example.com/", body=b"b" * size)) for size in bodies]
        await put(engine, *tasks)

        async def some(max_bytes: int) -> int:
            page = await engine.due_tasks(QUEUE, None, 100, max_bytes)
            assert page == tasks[: len(page)]
            return len(page)

        first = tasks[0].size
        three = sum(task.size for task in tasks[:3])
        assert await some(0) == 1
        assert await some(first - 1) == 1
        assert await some(first) == 2
        assert await some(three - 1) == 3
        assert await some(three) == 4
        assert await some(NO_BYTES_LIMIT) == len(tasks)

    async def test_paging_walks_over_every_task_once(self, engine: Engine) -> None:
        """Whatever the page size."""
        tasks = [sample_task(engine, schedule_time=START + number // 3) for number in range(25)]
        await put(engine, *reversed(tasks))
        for size in (1, 4, 25, 100):
            seen = page = await engine.tasks(QUEUE, None, size, bodies=True)
            while page:
                page = await engine.tasks(QUEUE, seen[-1].due_key, size, bodies=True)
                assert len(page) <= size
                seen += page
            assert seen == tasks

    async def test_pages_come_without_bodies_if_asked(self, engine: Engine) -> None:
        """Everything else is there."""
        task = await add(engine)
        (bare,) = await engine.tasks(QUEUE, None, 10, bodies=False)

        assert bare.target == HttpTarget("https://example.com/handler", body=b"")
        assert (bare.id, bare.name, bare.due_key) == (task.id, task.name, task.due_key)

    async def test_a_queue_that_does_not_exist_has_no_pages(self, engine: Engine) -> None:
        """It is an error here; an existing empty queue has an empty page."""
        assert await refused(engine.tasks(OTHER_QUEUE, None, 10, bodies=False)) == NO_QUEUE
        assert await engine.tasks(QUEUE, None, 10, bodies=False) == []

    async def test_a_task_is_found_by_its_number_or_its_name(self, engine: Engine) -> None:
        """And in its own queue only."""
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        unnamed, named = await add(engine), await add(engine, name="n")

        assert await engine.task(QUEUE, unnamed.task_id, START) == unnamed
        assert await engine.task(QUEUE, "n", START) == named
        assert await refused(engine.task(OTHER_QUEUE, unnamed.task_id, START)) == NEVER
        assert await refused(engine.task(OTHER_QUEUE, "n", START)) == NEVER

    async def test_a_named_task_is_not_found_by_its_number(self, engine: Engine) -> None:
        """Its id is nobody's business."""
        named = await add(engine, name="n")

        assert await refused(engine.task(QUEUE, str(named.id), START)) == NEVER

    @pytest.mark.parametrize("text", ["0{}", "+{}", "{} ", "-{}", "{}.0"])
    async def test_only_the_canonical_number_finds_a_task(self, engine: Engine, text: str) -> None:
        """Other spellings of the number are other names."""
        task = await add(engine)

        assert await refused(engine.task(QUEUE, text.format(task.task_id), START)) == NEVER

    @pytest.mark.parametrize("text", ["0", "1", "9" * 19, "9" * 500, "٣", str(2**63), str(2**63 - 1)])
    async def test_numbers_that_are_no_ids_find_nothing(self, engine: Engine, text: str) -> None:
        """However long they are."""
        assert await refused(engine.task(QUEUE, text, START)) == NEVER

    async def test_an_all_digits_name_that_came_first_is_found(self, engine: Engine) -> None:
        """Names go before numbers."""
        ahead = str(engine.next_id(START) + 1)
        named = await add(engine, name=ahead)

        assert await engine.task(QUEUE, ahead, START) == named
        assert await engine.delete_task(QUEUE, ahead, START) == named

    async def test_missing_tasks_have_three_texts(self, engine: Engine) -> None:
        """No queue, never existed, existed recently; the last one ends with the tombstone."""
        task = await add(engine, name="n")
        await engine.settle([over(task)], START)

        assert await refused(engine.task(OTHER_QUEUE, "n", START)) == NO_QUEUE
        assert await refused(engine.task(QUEUE, "m", START)) == NEVER
        assert await refused(engine.task(QUEUE, "n", START + DAY - 1)) == RECENT
        assert await refused(engine.task(QUEUE, "n", START + DAY)) == NEVER

    async def test_a_read_sees_every_answered_write(self, engine: Engine) -> None:
        """Whichever way the engine reads."""
        for number in range(50):
            task = await add(engine, name=f"n{number}")
            assert await engine.task(QUEUE, task.task_id, START) == task
            assert await due(engine, limit=1) == [task]
            await engine.settle([over(task)], START)
            assert await due(engine) == []


class DeletingTasks:
    """`delete_task`."""

    async def test_it_returns_the_task_as_it_was(self, engine: Engine) -> None:
        """And removes it."""
        unnamed, named = await add(engine), await add(engine, name="n")

        assert await engine.delete_task(QUEUE, unnamed.task_id, START) == unnamed
        assert await engine.delete_task(QUEUE, "n", START) == named
        assert await due(engine) == []

    async def test_missing_tasks_have_one_text(self, engine: Engine) -> None:
        """Never existed and existed recently are not told apart; a missing queue is."""
        await add(engine, name="n")
        await engine.delete_task(QUEUE, "n", START)

        assert await refused(engine.delete_task(QUEUE, "n", START)) == NEVER
        assert await refused(engine.delete_task(QUEUE, "m", START)) == NEVER
        assert await refused(engine.delete_task(QUEUE, "12345", START)) == NEVER
        assert await refused(engine.delete_task(OTHER_QUEUE, "n", START)) == NO_QUEUE

    async def test_it_leaves_a_tombstone_for_a_chosen_name(self, engine: Engine) -> None:
        """For the queue's tombstone_ttl, from the call's instant."""
        await engine.create_queue(sample_queue(OTHER_QUEUE, tombstone_ttl=SECOND), START)
        await add(engine, name="n", queue=OTHER_QUEUE)
        await engine.delete_task(OTHER_QUEUE, "n", START + HOUR)
        end = START + HOUR + SECOND

        assert await refused(engine.task(OTHER_QUEUE, "n", end - 1)) == RECENT
        assert await refusal(engine, sample_task(engine, end, name="n", queue=OTHER_QUEUE)) is None

    async def test_of_many_deleting_one_task_one_wins(self, engine: Engine) -> None:
        """The first that asked gets the task."""
        task = await add(engine, name="n")
        answers = await asyncio.gather(
            *(engine.delete_task(QUEUE, "n", START) for _ in range(20)), return_exceptions=True
        )

        assert answers[0] == task
        assert {str(answer) for answer in answers[1:]} == {REQUESTED_ENTITY_NOT_FOUND}

    async def test_a_purged_task_cannot_be_deleted(self, engine: Engine) -> None:
        """It is gone already, and its tombstone stays as the purge left it."""
        task, named = await add(engine), await add(engine, name="n")
        await engine.purge_queue(QUEUE, START)

        assert await refused(engine.delete_task(QUEUE, task.task_id, START + HOUR)) == NEVER
        assert await refused(engine.delete_task(QUEUE, named.task_id, START + HOUR)) == NEVER
        assert await refused(engine.task(QUEUE, "n", START + DAY)) == NEVER

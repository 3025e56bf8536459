"""Suite: creating tasks, and the names they take."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from taskbell.core.errors import QUEUE_DOES_NOT_EXIST, TASK_EXISTED_TOO_RECENTLY, TASK_EXISTS
from taskbell.core.instant import DAY, EARLIEST, HOUR, LATEST, SECOND
from taskbell.core.queue import RetryConfig
from taskbell.core.target import AppEngineTarget, HttpTarget, OAuthToken, OidcToken, Routing, Target
from taskbell.core.task import Attempt, Status
from taskbell.engine import Engine
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
    sample_queue,
    sample_task,
)

LIVE = ("ALREADY_EXISTS", TASK_EXISTS)
RECENT = ("ALREADY_EXISTS", TASK_EXISTED_TOO_RECENTLY)

TARGETS: list[Target] = [
    HttpTarget("https://example.com/"),
    HttpTarget("http://[::1]:8080/ü?q=a%2Fb#f", "PUT", (("X-B", "1"), ("x-a", "ä\u2028\x00\ud800"), ("X-B", "")), b""),
    HttpTarget("https://example.com/", "GET", (), b"", OidcToken("sa@example.com", "audience")),
    HttpTarget("https://example.com/", "POST", (), bytes(range(256)), OAuthToken("sa@example.com", "scope")),
    HttpTarget("https://example.com/", "POST", (), b"\xff" * 1_000_000, OidcToken("sa@example.com")),
    AppEngineTarget(),
    AppEngineTarget("/a?b", "PUT", (("User-Agent", "x"),), b"body", Routing("service", "version", "instance", "host")),
]


class CreatingTasks:
    """`create_tasks`."""

    @pytest.mark.parametrize("target", TARGETS)
    async def test_a_task_reads_back_as_it_was_created(self, engine: Engine, target: Target) -> None:
        """Every field of every kind of target survives the store, in all three ways of reading."""
        task = replace(
            sample_task(engine, name="n", target=target, schedule_time=START + DAY),
            dispatch_deadline=15 * SECOND,
            retry_config=RetryConfig(None, 7, 0, 1, 0),
        )
        await put(engine, task)

        assert await engine.task(QUEUE, "n", START) == task
        assert await due(engine) == [task]
        assert await engine.tasks(QUEUE, None, 10, bodies=True) == [task]

    async def test_bookkeeping_reads_back_as_it_was_created(self, engine: Engine) -> None:
        """A task that already had attempts keeps them, and the ends of time fit."""
        first = retried(sample_task(engine, schedule_time=EARLIEST))
        last = replace(
            sample_task(engine, schedule_time=LATEST),
            dispatch_count=3,
            first_dispatch_time=0,
            last_attempt=Attempt(EARLIEST, LATEST, None, Status(4, "ü")),
            previous_response=0,
        )
        await put(engine, last, first)

        assert await due(engine) == [first, last]

    async def test_without_a_queue_it_is_refused(self, engine: Engine) -> None:
        """A task needs its queue."""
        task = sample_task(engine, queue=OTHER_QUEUE)

        assert await refusal(engine, task) == ("NOT_FOUND", QUEUE_DOES_NOT_EXIST)

    async def test_tasks_of_one_call_are_independent(self, engine: Engine) -> None:
        """A refused task does not hold back the others; of two of one name the first wins."""
        await add(engine, name="live")
        unnamed = sample_task(engine)
        orphan = sample_task(engine, queue=OTHER_QUEUE)
        first, second = sample_task(engine, name="n"), sample_task(engine, name="n")
        answers = await engine.create_tasks([sample_task(engine, name="live"), unnamed, orphan, first, second])

        assert [answer and answer.message for answer in answers] == [
            TASK_EXISTS,
            None,
            QUEUE_DOES_NOT_EXIST,
            None,
            TASK_EXISTS,
        ]
        assert await engine.task(QUEUE, "n", START) == first
        assert await engine.task(QUEUE, unnamed.task_id, START) == unnamed

    async def test_no_tasks_are_no_answers(self, engine: Engine) -> None:
        """The empty list is legal."""
        assert await engine.create_tasks([]) == []

    async def test_a_live_name_is_taken_until_the_task_is_gone_and_its_tombstone_ended(self, engine: Engine) -> None:
        """The window opens when the task ends, and its last instant is one before its end."""
        task = await add(engine, name="n")
        assert await refusal(engine, sample_task(engine, START + 99 * DAY, name="n")) == LIVE

        await engine.settle([over(task)], START + HOUR)
        assert await refusal(engine, sample_task(engine, START + HOUR, name="n")) == RECENT
        assert await refusal(engine, sample_task(engine, START + HOUR + DAY - 1, name="n")) == RECENT
        assert await refusal(engine, sample_task(engine, START + HOUR + DAY, name="n")) is None

    async def test_a_name_can_be_used_up_again_and_again(self, engine: Engine) -> None:
        """Each end of the same name blocks it anew."""
        for day in range(0, 6, 2):
            now = START + day * DAY
            task = await add(engine, now, name="n")
            await engine.settle([over(task)], now)
            assert await refusal(engine, sample_task(engine, now + DAY - 1, name="n")) == RECENT

    async def test_without_a_tombstone_ttl_a_name_is_free_at_once(self, engine: Engine) -> None:
        """A tombstone_ttl of zero keeps no names."""
        await engine.create_queue(sample_queue(OTHER_QUEUE, tombstone_ttl=0), START)
        task = await add(engine, name="n", queue=OTHER_QUEUE)
        await engine.settle([over(task)], START)

        assert await refusal(engine, sample_task(engine, name="n", queue=OTHER_QUEUE)) is None

    async def test_names_belong_to_their_queue(self, engine: Engine) -> None:
        """The same name in another queue is another task."""
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        one = await add(engine, name="n")
        other = await add(engine, name="n", queue=OTHER_QUEUE)

        assert await engine.task(QUEUE, "n", START) == one
        assert await engine.task(OTHER_QUEUE, "n", START) == other

    async def test_names_are_compared_exactly(self, engine: Engine) -> None:
        """Case and leading zeros count."""
        for name in ("n", "N", "1", "01", "_", "-"):
            await add(engine, name=name)

        assert (await engine.depths())[QUEUE] == 6

    async def test_an_all_digits_name_gives_way_to_a_live_task_of_that_number(self, engine: Engine) -> None:
        """A caller cannot choose the number by which a task without a name is known, until that one is gone."""
        unnamed = await add(engine)
        assert await refusal(engine, sample_task(engine, name=unnamed.task_id)) == LIVE

        await engine.settle([over(unnamed)], START)
        assert await refusal(engine, sample_task(engine, name=unnamed.task_id)) is None

    async def test_an_all_digits_name_is_checked_within_one_call(self, engine: Engine) -> None:
        """Also when both arrive together."""
        unnamed = sample_task(engine)
        answers = await engine.create_tasks([unnamed, sample_task(engine, name=unnamed.task_id)])

        assert [answer and answer.message for answer in answers] == [None, TASK_EXISTS]

    async def test_of_many_racing_for_a_name_one_wins(self, engine: Engine) -> None:
        """Uniqueness holds however many ask at once, and the first to ask wins."""
        tasks = [sample_task(engine, name="n") for _ in range(50)]
        answers = await asyncio.gather(*(refusal(engine, task) for task in tasks))

        assert answers == [None, *[LIVE] * 49]
        assert await due(engine) == tasks[:1]

    async def test_many_at_once_are_all_kept(self, engine: Engine) -> None:
        """Grouping loses nothing and mixes nothing up."""
        tasks = [sample_task(engine, name=f"n{number}" if number % 3 else None) for number in range(700)]
        answers = await asyncio.gather(*(engine.create_tasks([task]) for task in tasks))

        assert answers == [[None]] * 700
        assert await due(engine) == tasks

    async def test_a_deleted_queue_takes_no_tasks(self, engine: Engine) -> None:
        """Not even for names that were in it."""
        await engine.delete_queue(QUEUE, START, DAY)

        assert await refusal(engine, sample_task(engine, name="n")) == ("NOT_FOUND", QUEUE_DOES_NOT_EXIST)
        assert await refused(engine.tasks(QUEUE, None, 1, bodies=True)) == ("NOT_FOUND", QUEUE_DOES_NOT_EXIST)

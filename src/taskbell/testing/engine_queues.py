"""Suite: queues, and the small things kept beside them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from taskbell.core.errors import (
    QUEUE_DOES_NOT_EXIST,
    QUEUE_EXISTED_TOO_RECENTLY,
    QUEUE_EXISTS,
    REQUESTED_ENTITY_NOT_FOUND,
    InvalidArgument,
)
from taskbell.core.instant import DAY, HOUR, SECOND
from taskbell.core.queue import Queue, QueueState, RateLimits, RetryConfig
from taskbell.core.target import HttpOverride, OAuthToken, OidcToken, Routing
from taskbell.engine import Engine
from taskbell.testing.engine_samples import (
    LOCATION,
    OTHER_QUEUE,
    QUEUE,
    START,
    add,
    due,
    over,
    refusal,
    refused,
    sample_queue,
    sample_task,
)

EXISTS = ("ALREADY_EXISTS", QUEUE_EXISTS)
RECENT = ("FAILED_PRECONDITION", QUEUE_EXISTED_TOO_RECENTLY)
MISSING = ("NOT_FOUND", QUEUE_DOES_NOT_EXIST)
NOTHING_TO_DELETE = ("NOT_FOUND", REQUESTED_ENTITY_NOT_FOUND)

QUEUES = [
    Queue(OTHER_QUEUE),
    Queue(
        OTHER_QUEUE,
        RateLimits(0.001, 7, 3),
        RetryConfig(None, 5 * SECOND, 1, 2, 0),
        QueueState.PAUSED,
        START,
        Routing("s", "v", "i", "h"),
        HttpOverride("http", "ü", 0, "", "a=b", True, True, "GET", (("K", "v"), ("k", "")), OidcToken("e", "a")),
        0.25,
        1,
        0,
    ),
    Queue(OTHER_QUEUE, state=QueueState.DISABLED, http_override=HttpOverride(has_uri=True, token=OAuthToken("e", "s"))),
    Queue(OTHER_QUEUE, RateLimits(1 / 3), http_override=HttpOverride(if_not_exists=False, port=2**40)),
]


def _refuse(_: Queue | None) -> Queue:
    raise InvalidArgument("No.")


class KeepingQueues:
    """`create_queue`, `update_queue`, `queue`, `queues`, `all_queues`, `set_queue_state`."""

    @pytest.mark.parametrize("queue", QUEUES)
    async def test_a_queue_reads_back_as_it_was_created(self, engine: Engine, queue: Queue) -> None:
        """Every setting survives the store."""
        await engine.create_queue(queue, START)

        assert await engine.queue(OTHER_QUEUE) == queue
        assert await engine.queues(LOCATION, QUEUE[:-1], 1) == [queue]

    async def test_a_queue_is_created_once(self, engine: Engine) -> None:
        """The second create changes nothing."""
        assert await refused(engine.create_queue(sample_queue(state=QueueState.PAUSED), START)) == EXISTS
        assert await engine.queue(QUEUE) == sample_queue()

    async def test_of_many_creating_one_queue_one_wins(self, engine: Engine) -> None:
        """The first that asked."""
        answers = await asyncio.gather(
            *(engine.create_queue(sample_queue(OTHER_QUEUE, task_ttl=number), START) for number in range(1, 10)),
            return_exceptions=True,
        )

        assert answers[0] is None
        assert {str(answer) for answer in answers[1:]} == {QUEUE_EXISTS}
        assert (await engine.queue(OTHER_QUEUE)).task_ttl == 1

    async def test_a_missing_queue_is_not_found(self, engine: Engine) -> None:
        """By any verb that needs it, with the text that tells people to wait."""
        assert await refused(engine.queue(OTHER_QUEUE)) == MISSING
        assert await refused(engine.set_queue_state(OTHER_QUEUE, QueueState.PAUSED)) == MISSING
        assert await refused(engine.purge_queue(OTHER_QUEUE, START)) == MISSING

    async def test_updating_replaces_what_is_stored(self, engine: Engine) -> None:
        """The change sees the stored queue, and what it returns is stored and returned."""
        seen: list[Queue | None] = []

        def change(stored: Queue | None) -> Queue:
            seen.append(stored)
            assert stored is not None
            return replace(stored, task_ttl=HOUR)

        updated = await engine.update_queue(QUEUE, change, START)

        assert seen == [sample_queue()]
        assert updated == await engine.queue(QUEUE) == sample_queue(task_ttl=HOUR)

    async def test_updating_keeps_the_tasks_and_the_names(self, engine: Engine) -> None:
        """Only settings change."""
        task, gone = await add(engine, name="n"), await add(engine, name="gone")
        await engine.settle([over(gone)], START)
        await engine.update_queue(QUEUE, lambda _: sample_queue(task_ttl=HOUR), START)

        assert await due(engine) == [task]
        assert await refusal(engine, sample_task(engine, name="n")) is not None
        assert await refusal(engine, sample_task(engine, name="gone")) is not None

    async def test_updating_a_missing_queue_creates_it(self, engine: Engine) -> None:
        """The change sees None."""
        seen: list[Queue | None] = []

        def change(stored: Queue | None) -> Queue:
            seen.append(stored)
            return sample_queue(OTHER_QUEUE)

        assert await engine.update_queue(OTHER_QUEUE, change, START) == sample_queue(OTHER_QUEUE)
        assert seen == [None]
        await add(engine, queue=OTHER_QUEUE)

    async def test_a_change_that_refuses_changes_nothing(self, engine: Engine) -> None:
        """Neither of an existing queue nor of a missing one; what else is under way is not disturbed."""
        task = sample_task(engine)
        answers = await asyncio.gather(
            engine.create_tasks([task]),
            engine.update_queue(QUEUE, _refuse, START),
            engine.update_queue(OTHER_QUEUE, _refuse, START),
            return_exceptions=True,
        )

        assert answers[0] == [None]
        assert [str(answer) for answer in answers[1:]] == ["No.", "No."]
        assert await engine.all_queues() == [sample_queue()]
        assert await due(engine) == [task]

    async def test_a_change_that_breaks_is_its_callers_problem_alone(self, engine: Engine) -> None:
        """An error that is no refusal reaches its own caller, and nobody else notices."""
        first, second = sample_task(engine), sample_task(engine)
        broken: dict[Queue | None, Queue] = {}
        answers = await asyncio.gather(
            engine.create_tasks([first]),
            engine.update_queue(QUEUE, broken.__getitem__, START),
            engine.create_tasks([second]),
            return_exceptions=True,
        )

        assert answers[0] == answers[2] == [None]
        assert isinstance(answers[1], KeyError)
        assert await due(engine) == [first, second]

    async def test_updates_are_not_lost(self, engine: Engine) -> None:
        """Each change sees the one before it."""

        def longer(stored: Queue | None) -> Queue:
            assert stored is not None
            return replace(stored, task_ttl=stored.task_ttl + 1)

        before = (await engine.queue(QUEUE)).task_ttl
        await asyncio.gather(*(engine.update_queue(QUEUE, longer, START) for _ in range(30)))

        assert (await engine.queue(QUEUE)).task_ttl == before + 30

    async def test_pausing_and_resuming(self, engine: Engine) -> None:
        """Only the state changes; repeating is harmless."""
        for state in (QueueState.PAUSED, QueueState.PAUSED, QueueState.RUNNING, QueueState.DISABLED):
            assert await engine.set_queue_state(QUEUE, state) == sample_queue(state=state)
            assert await engine.queue(QUEUE) == sample_queue(state=state)

    async def test_queues_are_listed_by_location_in_the_order_of_names(self, engine: Engine) -> None:
        """Neighbours whose names begin alike stay out, and paging walks over each queue once."""
        shorts = ["Z", "a", "a-b", "b", "z9"]
        for name in [
            *(f"{LOCATION}/queues/{short}" for short in reversed(shorts)),
            "projects/p/locations/l2/queues/x",
            "projects/p2/locations/l/queues/x",
            "projects/p/locations/k/queues/x",
        ]:
            await engine.create_queue(sample_queue(name), START)
        names = sorted([*(f"{LOCATION}/queues/{short}" for short in shorts), QUEUE])

        assert [queue.name for queue in await engine.queues(LOCATION, "", 100)] == names
        for size in (1, 2, 6):
            seen: list[str] = []
            while page := await engine.queues(LOCATION, seen[-1] if seen else "", size):
                assert len(page) <= size
                seen += [queue.name for queue in page]
            assert seen == names
        assert await engine.queues("projects/p/locations/none", "", 10) == []
        assert len(await engine.all_queues()) == 9

    async def test_lists_follow_every_change(self, engine: Engine) -> None:
        """A queue is listed from its create to its delete."""
        one = sample_queue()
        assert await engine.queues(LOCATION, "", 10) == [one]
        await engine.create_queue(sample_queue(OTHER_QUEUE), START)
        assert await engine.queues(LOCATION, "", 10) == [sample_queue(OTHER_QUEUE), one]
        paused = await engine.set_queue_state(OTHER_QUEUE, QueueState.PAUSED)
        assert await engine.queues(LOCATION, "", 10) == [paused, one]
        await engine.delete_queue(OTHER_QUEUE, START, 0)
        assert await engine.queues(LOCATION, "", 10) == [one]


class DeletingQueues:
    """`delete_queue`."""

    async def test_a_deleted_queue_is_gone_with_all_it_held(self, engine: Engine) -> None:
        """From every verb, at once."""
        task = await add(engine, name="n")
        await engine.delete_queue(QUEUE, START, DAY)

        assert await refused(engine.queue(QUEUE)) == MISSING
        assert await refused(engine.task(QUEUE, "n", START)) == MISSING
        assert await refused(engine.delete_task(QUEUE, "n", START)) == MISSING
        assert await refused(engine.set_queue_state(QUEUE, QueueState.RUNNING)) == MISSING
        assert await refused(engine.purge_queue(QUEUE, START)) == MISSING
        assert await refused(engine.delete_queue(QUEUE, START, DAY)) == NOTHING_TO_DELETE
        assert await engine.all_queues() == await engine.queues(LOCATION, "", 10) == []
        assert await due(engine) == []
        assert await engine.depths() == {}
        assert await engine.settle([over(task)], START) == [False]

    async def test_a_missing_queue_cannot_be_deleted(self, engine: Engine) -> None:
        """With the text of its own."""
        assert await refused(engine.delete_queue(OTHER_QUEUE, START, DAY)) == NOTHING_TO_DELETE

    async def test_its_name_is_blocked_for_its_tombstone(self, engine: Engine) -> None:
        """For creating and for upserting, until the very end; the change is not even asked."""
        await engine.delete_queue(QUEUE, START, DAY)

        assert await refused(engine.create_queue(sample_queue(), START + DAY - 1)) == RECENT
        assert await refused(engine.update_queue(QUEUE, _refuse, START + DAY - 1)) == RECENT
        await engine.create_queue(sample_queue(), START + DAY)
        assert await engine.queue(QUEUE) == sample_queue()

    async def test_without_a_tombstone_the_name_is_free_at_once(self, engine: Engine) -> None:
        """Zero blocks nothing."""
        await engine.delete_queue(QUEUE, START, 0)
        await engine.update_queue(QUEUE, lambda _: sample_queue(), START)

        assert await engine.queue(QUEUE) == sample_queue()

    async def test_a_new_queue_of_the_name_ends_the_tombstone(self, engine: Engine) -> None:
        """Deleted again without one, its name is free, even for a clock that has gone back."""
        await engine.delete_queue(QUEUE, START, DAY)
        await engine.create_queue(sample_queue(), START + DAY)
        await engine.delete_queue(QUEUE, START + DAY, 0)

        await engine.create_queue(sample_queue(), START)
        assert await engine.queue(QUEUE) == sample_queue()

    async def test_a_new_queue_of_the_name_starts_empty_and_with_all_names_free(self, engine: Engine) -> None:
        """Neither tasks nor tombstones of live, settled and purged tasks leak into it, before and after a sweep."""
        for number in range(2):
            await add(engine, name="purged")
            await engine.purge_queue(QUEUE, START)
            settled = await add(engine, name="settled")
            await engine.settle([over(settled)], START)
            live, unnamed = await add(engine, name="live"), await add(engine)
            await engine.delete_queue(QUEUE, START, 0)
            await engine.create_queue(sample_queue(), START)
            if number:
                await engine.sweep(START, 100)

            assert await due(engine) == []
            assert await engine.depths() == {QUEUE: 0}
            assert (await refused(engine.task(QUEUE, unnamed.task_id, START)))[1] == REQUESTED_ENTITY_NOT_FOUND
            for name in ("purged", "settled", "live"):
                assert (await refused(engine.task(QUEUE, name, START)))[1] == REQUESTED_ENTITY_NOT_FOUND
                assert await refusal(engine, sample_task(engine, name=name)) is None
            assert await engine.settle([over(live)], START) == [False]
            await engine.delete_queue(QUEUE, START, 0)
            await engine.create_queue(sample_queue(), START)

    async def test_the_policy_goes_with_its_queue(self, engine: Engine) -> None:
        """A later queue of the same name has none."""
        await engine.set_policy(QUEUE, b"p", None)
        await engine.set_policy(OTHER_QUEUE, b"other", None)
        await engine.delete_queue(QUEUE, START, 0)

        assert await engine.policy(QUEUE) is None
        assert await engine.policy(OTHER_QUEUE) == b"other"


class SmallThings:
    """`policy`, `set_policy`, `record`, `put_record`."""

    async def test_policies_are_replaced(self, engine: Engine) -> None:
        """Any stored one, when none is expected."""
        assert await engine.policy(QUEUE) is None
        assert await engine.set_policy(QUEUE, b"one", None)
        assert await engine.set_policy(QUEUE, b"\x00two", None)
        assert await engine.policy(QUEUE) == b"\x00two"

    async def test_a_policy_is_replaced_only_if_it_is_the_expected_one(self, engine: Engine) -> None:
        """So that of two writers that read the same policy one is told."""
        assert not await engine.set_policy(QUEUE, b"new", b"old")
        assert await engine.policy(QUEUE) is None
        await engine.set_policy(QUEUE, b"old", None)

        answers = await asyncio.gather(
            engine.set_policy(QUEUE, b"first", b"old"), engine.set_policy(QUEUE, b"second", b"old")
        )
        assert list(answers) == [True, False]
        assert await engine.policy(QUEUE) == b"first"

    async def test_records_are_stored_and_replaced(self, engine: Engine) -> None:
        """What is stored now comes back."""
        assert await engine.record("key") is None
        assert await engine.put_record("key", b"one") == b"one"
        assert await engine.put_record("key", b"") == b""
        assert await engine.record("key") == b""
        assert await engine.record("other") is None

    async def test_a_record_that_is_there_can_be_kept(self, engine: Engine) -> None:
        """Of many that make a key at first start, all get the same one."""
        answers = await asyncio.gather(
            *(engine.put_record("key", bytes([number]), replace=False) for number in range(10))
        )

        assert answers == [b"\x00"] * 10
        assert await engine.record("key") == b"\x00"

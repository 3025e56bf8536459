from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from taskbell.core.errors import ResourceExhausted, Unavailable
from taskbell.core.instant import DAY, HOUR, SECOND
from taskbell.core.target import HttpTarget
from taskbell.core.task import DueKey, Task
from taskbell.engines.sqlite import SqliteEngine, writer
from taskbell.engines.sqlite.engine import _count, _open
from taskbell.events import BatchCommitted, Events
from taskbell.testing.engine_samples import (
    QUEUE,
    START,
    add,
    due,
    over,
    put,
    refused,
    retry,
    sample_queue,
    sample_task,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@asynccontextmanager
async def opened(path: str) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(path)
    await engine.open()
    yield engine
    await engine.close()


@pytest.fixture
async def engine(path: str) -> AsyncIterator[SqliteEngine]:
    async with opened(path) as engine:
        await engine.create_queue(sample_queue(), START)
        yield engine


@asynccontextmanager
async def held(engine: SqliteEngine) -> AsyncIterator[None]:
    """The writer waits for a foreign lock while the block lasts, so that what the block calls becomes one batch."""
    foreign = sqlite3.connect(engine._path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(engine.set_policy("gate", b"", None))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        foreign.execute("ROLLBACK")
        foreign.close()
        await waiting


def _rows(path: str, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@pytest.fixture
def commits(engine: SqliteEngine) -> list[int]:
    """The operations of each commit from now on."""
    sizes: list[int] = []
    engine._events.subscribe(BatchCommitted, lambda event: sizes.append(event.operations))
    return sizes


async def test_what_waits_together_is_committed_together(engine: SqliteEngine, commits: list[int]) -> None:
    """Hundreds of calls share a few commits, and one alone has its own at once."""
    await add(engine)
    assert commits == [1]

    async with held(engine):
        calls = [asyncio.ensure_future(engine.create_tasks([sample_task(engine)])) for _ in range(500)]
        await asyncio.sleep(0)
    await asyncio.gather(*calls)
    assert sum(commits) == 502
    assert len(commits) <= 4
    assert len(await due(engine)) == 501


async def test_an_impossible_row_harms_nobody_else(engine: SqliteEngine) -> None:
    """The schema refuses it; its batch goes through without it, in order."""
    tasks = [sample_task(engine, name=f"n{number}") for number in range(5)]
    tasks[2] = replace(tasks[2], dispatch_count=1, response_count=2)
    async with held(engine):
        calls = [asyncio.ensure_future(engine.create_tasks([task])) for task in tasks]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(answer).__name__ for answer in answers] == ["list", "list", "Internal", "list", "list"]
    assert await due(engine) == [*tasks[:2], *tasks[3:]]
    assert await engine.depths() == {QUEUE: 4}


async def test_an_id_that_is_taken_is_our_own_fault(engine: SqliteEngine) -> None:
    """It would be a broken promise of `next_id`, so it is told as such, and the task that has it stays."""
    task = await add(engine)

    code, _ = await refused(engine.create_tasks([replace(task, create_time=1)]))
    assert code == "INTERNAL"
    assert await due(engine) == [task]


async def test_too_much_waiting_is_refused(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number and by size, before it costs memory; what was accepted is done."""
    monkeypatch.setattr(writer, "_WAITING_OPERATIONS", 10)
    monkeypatch.setattr(writer, "_WAITING_BYTES", 100_000)
    said = (ResourceExhausted, "Too much waits to be written to the store. Try again in a moment.")
    for body, accepted in ((b"", 10), (b"x" * 60_000, 2)):
        tasks = [sample_task(engine, target=HttpTarget("https://example.com/", body=body)) for _ in range(20)]
        calls = [asyncio.ensure_future(engine.create_tasks([task])) for task in tasks]
        answers = await asyncio.gather(*calls, return_exceptions=True)

        assert answers[:accepted] == [[None]] * accepted
        assert {(type(error), str(error)) for error in answers[accepted:]} == {said}
        assert await due(engine) == tasks[:accepted]
        await engine.settle([over(task) for task in tasks], START)


async def test_commits_are_told_with_their_duration(path: str) -> None:
    """By the events that the engine was made with; a batch that failed was no commit."""
    events, told = Events(), list[BatchCommitted]()
    events.subscribe(BatchCommitted, told.append)
    engine = SqliteEngine(path, events)
    await engine.open()
    await engine.create_queue(sample_queue(), START)
    await refused(engine.create_tasks([replace(sample_task(engine), response_count=1)]))
    await engine.close()

    assert [event.operations for event in told] == [1, 1]
    assert all(0 < event.duration < 60 * SECOND for event in told)


async def test_large_tasks_are_committed_in_bounded_batches(engine: SqliteEngine, commits: list[int]) -> None:
    """Sixty megabytes that wait at once are more than one transaction."""
    body = b"x" * 1_000_000
    tasks = [sample_task(engine, target=HttpTarget("https://example.com/", body=body)) for _ in range(60)]
    answers = await asyncio.gather(*(engine.create_tasks([task]) for task in tasks))

    assert answers == [[None]] * 60
    assert len(commits) >= 2
    assert max(commits) < 40
    assert [task.target.body for task in await engine.due_tasks(QUEUE, None, 100, 2**40)] == [body] * 60


async def test_the_last_id_is_stored_ahead_of_the_ids_in_use(path: str) -> None:
    """So that it need not be written with each commit, and still covers each id that one has used."""
    async with opened(path) as engine:
        await engine.create_queue(sample_queue(), START)
        stored = [_last_id(path)]
        for step in range(4):
            task = await add(engine, START + step * 4 * SECOND)
            stored.append(_last_id(path))
            assert task.id <= stored[-1]
        last = engine.next_id(START)
    assert len(set(stored)) == 2, "with the first commit, and again when ten seconds had passed"
    assert _last_id(path) == last, "a clean close leaves no gap"


def _last_id(path: str) -> int:
    ((last_id,),) = _rows(path, "SELECT value FROM meta WHERE key = 'last_id'")
    assert isinstance(last_id, int)
    return last_id


async def test_tasks_there_at_the_start_are_counted_beside_what_changes(path: str) -> None:
    """The count reads the state at the start; what happens meanwhile is added to it."""
    async with opened(path) as engine:
        await engine.create_queue(sample_queue(), START)
        tasks = [sample_task(engine) for _ in range(50)]
        await put(engine, *tasks)
    async with opened(path) as engine:
        await engine.settle([over(task) for task in tasks[:20]], START)
        await add(engine)
        assert await engine.depths() == {QUEUE: 31}
        await engine.purge_queue(QUEUE, START)
        assert await engine.depths() == {QUEUE: 0}


def test_the_count_at_the_start_is_of_the_start(path: str) -> None:
    """Whenever the background comes to it, and whatever the writer has done by then."""
    lock, connection, snapshot, _, _ = _open(path)
    connection.execute("INSERT INTO tasks VALUES (1, 1, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, '{}', x'')")

    assert _count(snapshot, path) == {}
    connection.close()
    lock.release()
    lock, connection, snapshot, _, _ = _open(path)
    assert _count(snapshot, path) == {1: 1}
    connection.close()
    lock.release()


async def test_retired_generations_are_forgotten(engine: SqliteEngine) -> None:
    """Neither their counts nor the look-ups that they cost outlive them."""
    for number in range(3):
        await add(engine, name=f"n{number}")
        await engine.purge_queue(QUEUE, START)
    await add(engine)
    assert len(engine._queues[QUEUE].retired) == 3
    assert engine._writer is not None
    assert engine._writer.depths.keys() == {engine._queues[QUEUE].generation}
    await engine.sweep(START, 100)
    assert engine._queues[QUEUE].retired == ()


async def test_swept_rows_leave_the_file(path: str) -> None:
    """Purges, deleted queues and ended tombstones leave nothing behind once they are swept."""
    async with opened(path) as engine:
        await engine.create_queue(sample_queue(), START)
        for number in range(3):
            tasks = [await add(engine, name=f"n{number}-{index}") for index in range(5)]
            await engine.settle([over(tasks[0])], START)
            await engine.purge_queue(QUEUE, START)
        await add(engine, name="last")
        await engine.delete_queue(QUEUE, START, HOUR)
        assert _rows(path, "SELECT count(*) FROM tasks") == [(13,)]
        while (await engine.sweep(START + 2 * DAY, 4)).total:
            pass
        for table in ("tasks", "tombstones", "retired_generations", "queues", "queue_tombstones"):
            assert _rows(path, f"SELECT * FROM {table}") == []


async def test_paging_through_one_schedule_time_does_not_start_over(engine: SqliteEngine) -> None:
    """Many tasks of the same instant: each page begins at its key, and no task is skipped or repeated."""
    tasks = [sample_task(engine) for _ in range(500)]
    later = [sample_task(engine, schedule_time=START + 1) for _ in range(3)]
    await put(engine, *later, *tasks)
    seen: list[Task] = []
    key: DueKey | None = None
    while page := await due(engine, after=key, limit=7):
        seen += page
        key = page[-1].due_key

    assert seen == [*tasks, *later]


async def test_misses_in_a_wide_batch_are_told_apart(engine: SqliteEngine) -> None:
    """The wide statements run first and ask questions only when their counts do not add up."""
    tasks = [sample_task(engine) for _ in range(8)]
    await put(engine, *tasks[::2])
    async with held(engine):
        calls = [
            asyncio.ensure_future(engine.settle([over(task) if number < 4 else retry(task)], START))
            for number, task in enumerate(tasks)
        ]
        created = asyncio.ensure_future(engine.create_tasks([sample_task(engine)]))
        await asyncio.sleep(0)
    answers = await asyncio.gather(*calls)

    assert list(answers) == [[True], [False]] * 4
    assert await created == [None]
    assert await engine.depths() == {QUEUE: 3}


async def test_before_opening_everything_is_unavailable(path: str) -> None:
    """And closing is harmless."""
    engine = SqliteEngine(path)
    await engine.close()
    for call in (engine.create_tasks([]), engine.task(QUEUE, "n", START), engine.depths()):
        with pytest.raises(Unavailable):
            await call

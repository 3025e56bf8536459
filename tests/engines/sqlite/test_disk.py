from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskbell.core.errors import ResourceExhausted, Unavailable
from taskbell.core.target import HttpTarget
from taskbell.core.task import Task
from taskbell.engine import Engine
from taskbell.engines.sqlite import SqliteEngine
from taskbell.testing.engine_samples import (
    START,
    due,
    over,
    refusal,
    refused,
    sample_queue,
    sample_task,
)

LARGE = HttpTarget("https://example.com/", body=b"x" * 50_000)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(str(tmp_path / "store.db"))
    await engine.open()
    await engine.create_queue(sample_queue(), START)
    yield engine
    await engine.close()


def _writing(engine: SqliteEngine) -> sqlite3.Connection:
    """The connection of the writer, which rests while nobody calls."""
    assert engine._writer is not None
    assert engine._writer._connection is not None
    return engine._writer._connection


def _grow_by(engine: SqliteEngine, pages: int) -> None:
    connection = _writing(engine)
    (used,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {used + pages}")


async def _outcome(engine: Engine, task: Task) -> tuple[str, str] | None:
    """How a create ended; errors of the store are raised, not answered."""
    try:
        return await refusal(engine, task)
    except (ResourceExhausted, Unavailable) as error:
        return error.code, error.message


async def _create_large(engine: Engine, count: int) -> tuple[list[Task], list[tuple[str, str] | None]]:
    tasks = [sample_task(engine, target=LARGE) for _ in range(count)]
    return tasks, list(await asyncio.gather(*(_outcome(engine, task) for task in tasks)))


async def test_a_full_store_says_so_and_recovers(engine: SqliteEngine, tmp_path: Path) -> None:
    """Nothing of a refused batch is there, all of an answered one is, and room makes it work again."""
    first, answers = await _create_large(engine, 3)
    assert answers == [None] * 3
    _grow_by(engine, 20)
    refused_tasks, answers = await _create_large(engine, 30)

    assert set(answers) == {
        (
            "RESOURCE_EXHAUSTED",
            f"The store {tmp_path}/store.db is full: nothing was stored. Free some space and try again.",
        )
    }
    assert await due(engine) == first
    assert await engine.settle([over(first[0]), over(refused_tasks[0])], START) == [True, False]
    _grow_by(engine, 10_000)
    more, answers = await _create_large(engine, 3)
    assert answers == [None] * 3
    assert await due(engine) == [*first[1:], *more]
    assert list((await engine.depths()).values()) == [5]


async def test_a_full_store_changes_no_queue(engine: SqliteEngine) -> None:
    """What is kept in memory is taken back with the transaction."""
    _grow_by(engine, 1)
    name = sample_queue().name
    task = sample_task(engine, target=LARGE)
    answers = await asyncio.gather(
        engine.update_queue(name, lambda _: sample_queue(task_ttl=1), START),
        engine.purge_queue(name, START),
        engine.delete_queue(name, START, 0),
        engine.create_queue(sample_queue(), START),
        engine.create_tasks([task]),
        return_exceptions=True,
    )

    assert {type(answer).__name__ for answer in answers} == {"ResourceExhausted"}
    assert await engine.queue(name) == sample_queue()
    assert await engine.set_queue_state(name, sample_queue().state) == sample_queue()


async def test_a_store_that_turns_read_only_is_unavailable_and_recovers(engine: SqliteEngine, tmp_path: Path) -> None:
    """SQLite refuses to write; the next batch looks again."""
    _writing(engine).execute("PRAGMA query_only = ON")
    task, again = sample_task(engine, name="n"), sample_task(engine, name="n")

    assert await refused(engine.create_tasks([task])) == (
        "UNAVAILABLE",
        f"The store {tmp_path}/store.db cannot be used just now: attempt to write a readonly database. Try again.",
    )
    assert await due(engine) == []
    assert await engine.create_tasks([again]) == [None]
    assert await due(engine) == [again]


async def test_a_store_that_another_program_locks_is_unavailable_and_recovers(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    """A foreign writer is waited for, though not for ever."""
    _writing(engine).execute("PRAGMA busy_timeout = 1")
    foreign = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    code, text = await refused(engine.create_tasks([sample_task(engine)]))
    foreign.execute("ROLLBACK")
    foreign.close()

    assert (code, text) == (
        "UNAVAILABLE",
        f"The store {tmp_path}/store.db cannot be used just now: database is locked. Try again.",
    )
    assert await engine.create_tasks([sample_task(engine)]) == [None]


def test_a_disk_that_refuses_to_write_gives_no_false_ok_and_recovers(tmp_path: Path) -> None:
    """The operating system itself refuses here: the process may not let its files grow."""
    path = tmp_path / "store.db"
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("limited.py")), str(path), str(1_000_000)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    said = json.loads(ran.stdout)
    outcomes = dict(said["limited"])

    assert set(outcomes.values()) <= {None, "UNAVAILABLE", "RESOURCE_EXHAUSTED"}
    assert len(set(outcomes.values())) > 1, "the limit was never met, or met by everything"
    assert said["listed"] == [f"n{number}" for number, code in outcomes.items() if code is None]
    assert [code for _, code in said["recovered"]] == [None] * 10

    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    names = {name for (name,) in connection.execute("SELECT name FROM tasks")}
    connection.close()
    assert names == {*said["listed"], *(f"n{number}" for number, _ in said["recovered"])}

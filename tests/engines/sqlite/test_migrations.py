from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from taskbell.core.queue import QueueState
from taskbell.engines.sqlite import SqliteEngine
from taskbell.engines.sqlite.store import migrations, open_store
from taskbell.testing.engine_job_samples import JOB, add_job, advance, fired, history, step
from taskbell.testing.engine_samples import (
    OTHER_QUEUE,
    QUEUE,
    START,
    add,
    over,
    put,
    refusal,
    retry,
    sample_queue,
    sample_task,
    state_of,
)

NAMES = {QUEUE: ["settled", "failed", "purged", "never"], OTHER_QUEUE: ["n"]}


def _schema(path: str) -> tuple[int, list[tuple[str, str]]]:
    """The version, and the tables and indexes with the text that made them."""
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    connection.close()
    return version, rows


async def _filled(path: str) -> tuple[dict[str, object], int]:
    """A store with something of all that the first schema knows; what can be seen of it, and its last id."""
    engine = SqliteEngine(path)
    await engine.open()
    await engine.create_queue(sample_queue(), START)
    await engine.create_queue(sample_queue(OTHER_QUEUE), START)
    await engine.set_queue_state(OTHER_QUEUE, QueueState.PAUSED)
    await add(engine, name="purged")
    await engine.purge_queue(QUEUE, START)
    settled, failed = await add(engine, name="settled"), await add(engine, name="failed")
    await engine.settle([over(settled), retry(failed)], START)
    await put(engine, *(sample_task(engine) for _ in range(50)))
    await engine.set_policy(QUEUE, b"policy", None)
    await engine.put_record("key", b"value")
    state = await state_of(engine, START, NAMES)
    last_id = engine.next_id(START)
    await engine.close()
    return state, last_id


async def test_a_store_without_jobs_learns_them_and_keeps_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From schema 1 to the newest: queues, tasks, tombstones, purges, small things, and ids that go on growing."""
    path = str(tmp_path / "store.db")
    first = migrations()[:1]
    with monkeypatch.context() as patched:
        patched.setattr("taskbell.engines.sqlite.store.migrations", lambda: first)
        state, last_id = await _filled(path)
    version, rows = _schema(path)
    assert version == 1
    assert "jobs" not in {name for name, _ in rows}

    engine = SqliteEngine(path)
    await engine.open()
    assert await state_of(engine, START, NAMES) == state
    assert await engine.policy(QUEUE) == b"policy"
    assert await engine.record("key") == b"value"
    assert engine.next_id(0) > last_id
    assert await refusal(engine, sample_task(engine, name="settled")) is not None
    assert await engine.all_jobs() == []
    job = await add_job(engine)
    await advance(engine, step(job))
    assert await history(engine, JOB) == [fired(job)]
    await engine.close()


def test_an_old_store_ends_with_the_schema_of_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever version it starts from, to the letter."""
    steps = migrations()
    schemas = []
    for version in range(len(steps)):
        path = str(tmp_path / f"{version}.db")
        for known in (version, len(steps)):
            monkeypatch.setattr("taskbell.engines.sqlite.store.migrations", lambda known=known: steps[:known])
            open_store(path).close()
        schemas.append(_schema(path))

    assert schemas[0][0] == len(steps)
    assert all(schema == schemas[0] for schema in schemas)

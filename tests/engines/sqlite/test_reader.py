from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

from taskbell.core.target import HttpTarget
from taskbell.engines.sqlite import SqliteEngine
from taskbell.engines.sqlite.queries import QUERIES
from taskbell.engines.sqlite.reader import due_page
from taskbell.testing.engine_samples import QUEUE, START, over, put, sample_queue, sample_task


async def test_a_page_is_whole_although_a_task_of_it_goes_meanwhile(tmp_path: Path) -> None:
    """Long bodies are fetched after their page, from the same snapshot: a short page would pass for the last one."""
    path = str(tmp_path / "store.db")
    engine = SqliteEngine(path)
    await engine.open()
    await engine.create_queue(sample_queue(), START)
    long = HttpTarget("https://example.com/", body=b"x" * 10_000)
    tasks = [sample_task(engine, target=long), sample_task(engine, target=long), sample_task(engine)]
    await put(engine, *tasks)
    loop = asyncio.get_running_loop()

    class Racing(sqlite3.Connection):
        """Lets the second task go between the page and its bodies."""

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == QUERIES["body"] and parameters == ((tasks[1].id,),):
                asyncio.run_coroutine_threadsafe(engine.settle([over(tasks[1])], START), loop).result(10)
            return super().execute(sql, *parameters)

    def read() -> list[int]:
        connection = sqlite3.connect(path, factory=Racing)
        page = due_page(connection, QUEUE, None, 10, 10**9, bodies=True)
        connection.close()
        return [task.id for task in page.tasks]

    assert await asyncio.to_thread(read) == [task.id for task in tasks]
    await engine.close()


async def test_many_readers_at_once(tmp_path: Path) -> None:
    """More than there are threads, beside a writer that keeps changing what they read."""
    engine = SqliteEngine(str(tmp_path / "store.db"))
    await engine.open()
    await engine.create_queue(sample_queue(), START)
    tasks = [sample_task(engine, name=f"n{number}") for number in range(100)]
    await put(engine, *tasks)
    settling = asyncio.gather(*(engine.settle([over(task)], START) for task in tasks[::2]))
    pages = await asyncio.gather(*(engine.due_tasks(QUEUE, None, 1000, 10**9) for _ in range(50)))
    await settling

    kept = tasks[1::2]
    for page in pages:
        assert [task for task in page if task in kept] == kept
        assert page == [task for task in tasks if task in page]
    assert await engine.due_tasks(QUEUE, None, 1000, 10**9) == kept
    await engine.close()

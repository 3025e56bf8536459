from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from taskbell.engines.sqlite.queries import QUERIES, widened
from taskbell.engines.sqlite.store import open_store

ONCE_OR_SMALL = {
    *("count_tasks", "all_jobs", "open_executions"),
    *("all_queues", "all_retired_generations", "delete_ended_queue_tombstones", "first_deleted_job"),
}
"""Statements that may read a whole table: once at start-up, or one with a row for each queue or deleted job."""

KEY = "(job_id=? AND instant=? AND is_forced=?)"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_store(str(tmp_path / "store.db"))
    yield connection
    connection.close()


def _places(sql: str) -> int:
    numbers = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return max(numbers) if numbers else sql.count("?")


def _plan(connection: sqlite3.Connection, name: str) -> list[str]:
    sql = QUERIES[name]
    parameters: Any = dict.fromkeys(re.findall(r":(\w+)", sql), 1) or ["[]"] * _places(sql)
    return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + sql, parameters)]


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - ONCE_OR_SMALL))
def test_no_statement_scans_a_table_or_sorts(connection: sqlite3.Connection, name: str) -> None:
    """Each finds its rows by a key; what it scans are its own lists and pages."""
    for step in _plan(connection, name):
        assert "TEMP B-TREE" not in step
        if step.startswith("SCAN"):
            assert re.match(r"SCAN (\w+ VIRTUAL TABLE|CONSTANT ROW|due\b|listed\b|\(subquery)", step), step


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("due_page", "SEARCH tasks USING COVERING INDEX tasks_by_due_key (generation=? AND schedule_time=? AND id>?)"),
        ("due_page", "SEARCH tasks USING COVERING INDEX tasks_by_due_key (generation=? AND schedule_time>?)"),
        ("task_by_name", "SEARCH tasks USING INDEX tasks_by_name (generation=? AND name=?)"),
        ("old_tasks", "SEARCH tasks USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ("delete_tasks", "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"),
        ("retry_tasks", "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"),
        ("retired_tasks", "SEARCH tasks USING INDEX tasks_by_due_key (generation=?)"),
        ("delete_ended_tombstones", "SEARCH tombstones USING PRIMARY KEY (queue_id=? AND name=?)"),
        ("delete_ended_tombstones", "SEARCH tombstones USING COVERING INDEX tombstones_by_expire_time (expire_time<?)"),
        ("count_tasks", "SCAN tasks USING COVERING INDEX tasks_by_due_key"),
        ("job_page", "SEARCH jobs USING COVERING INDEX sqlite_autoindex_jobs_1 (name>? AND name<?)"),
        ("refused_ticks", "SEARCH timers USING INTEGER PRIMARY KEY (rowid=?)"),
        ("refused_ticks", f"SEARCH executions USING INDEX executions_by_key {KEY}"),
        ("move_timers", "SEARCH timers USING INTEGER PRIMARY KEY (rowid=?)"),
        ("open_positions", f"SEARCH executions USING INDEX executions_by_key {KEY}"),
        ("follow_executions", "SEARCH timers USING INTEGER PRIMARY KEY (rowid=?)"),
        ("cancel_waiting", "SEARCH executions USING INDEX executions_open (job_id=?)"),
        ("cancel_open", "SEARCH executions USING INDEX executions_open (job_id=?)"),
        ("open_executions", "SCAN executions USING INDEX executions_open"),
        ("execution_page", "SEARCH executions USING INDEX executions_by_key (job_id=? AND instant>? AND instant<?)"),
        ("execution_by_key", f"SEARCH executions USING INDEX executions_by_key {KEY}"),
        ("delete_some_of_job", "SEARCH executions USING COVERING INDEX executions_by_key (job_id=?)"),
        ("delete_old_executions", "SEARCH executions USING INDEX executions_closed (instant<?)"),
    ],
)
def test_statements_use_the_index_made_for_them(connection: sqlite3.Connection, name: str, step: str) -> None:
    """With all the columns that they can, whatever this version of SQLite plans otherwise."""
    assert step in _plan(connection, name)


def test_loading_leaves_comments_out_and_takes_every_statement() -> None:
    """A name begins a statement; the text before the first one is for readers."""
    folder = files("taskbell.engines.sqlite")
    texts = [entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".sql")]

    assert len(QUERIES) == sum(text.count("\n-- name: ") for text in texts)
    for sql in QUERIES.values():
        assert "--" not in sql
        assert sql.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}


def test_widening_repeats_the_row() -> None:
    """One row of values becomes several."""
    assert widened("INSERT INTO t (a, b) VALUES (?, ?)", 3) == "INSERT INTO t (a, b) VALUES (?, ?), (?, ?), (?, ?)"
    assert widened("INSERT INTO t (a) VALUES (?) ON CONFLICT DO NOTHING", 2) == (
        "INSERT INTO t (a) VALUES (?), (?) ON CONFLICT DO NOTHING"
    )

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskbell.core.errors import FailedPrecondition
from taskbell.engines import check_store, open_engine
from taskbell.engines.sqlite.store import migrate, migrations, open_store
from taskbell.testing.engine_samples import sample_queue

HOLD = """
import sys
from taskbell.engines.sqlite.store import StoreLock
lock = StoreLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""

EXEC = """
import os, sys
from taskbell.engines.sqlite.store import StoreLock
lock = StoreLock(sys.argv[1])
check = "import sys; from taskbell.engines import check_store; check_store('sqlite:' + sys.argv[1]); print('opened')"
os.execv(sys.executable, [sys.executable, "-c", check, sys.argv[1]])
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


def sentence(path: str) -> str:
    """Why a store cannot be opened."""
    with pytest.raises(FailedPrecondition) as caught:
        check_store(f"sqlite:{path}")
    return caught.value.message


def test_checking_makes_a_store_of_the_newest_schema(path: str) -> None:
    """And checking it again is harmless."""
    for _ in range(2):
        check_store(f"sqlite:{path}")

    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(migrations()),)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_every_commit_reaches_the_disk(path: str) -> None:
    """No test can pull the plug, so look: FULL syncs the log with each commit, and both settings outlive nothing."""
    for _ in range(2):
        connection = open_store(path)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)
        connection.close()


def test_a_store_that_another_process_holds_is_refused_until_it_dies(path: str) -> None:
    """Even by SIGKILL: nothing is left to clean up."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        said = sentence(path)
        holder.kill()
        holder.wait()

    assert said == f"The store {path} is in use by another Taskbell server; stop that one or name another store."
    check_store(f"sqlite:{path}")


def test_the_lock_is_the_same_by_any_name_of_the_file(path: str, tmp_path: Path) -> None:
    """A symbolic link does not open the store twice."""
    check_store(f"sqlite:{path}")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        said = sentence(str(link))
        holder.kill()

    assert "is in use by another Taskbell server" in said


def test_a_program_that_replaces_itself_gives_the_store_up(path: str) -> None:
    """A server may check its store and then exec what serves."""
    ran = subprocess.run([sys.executable, "-c", EXEC, path], capture_output=True, text=True, timeout=60, check=False)

    assert (ran.stdout, ran.stderr) == ("opened\n", "")


def test_a_file_that_is_no_database_is_left_alone(path: str) -> None:
    """It is somebody's."""
    Path(path).write_text("Dear diary, " * 100)

    assert sentence(path) == f"{path} is not a Taskbell store: it is not an SQLite database."
    assert Path(path).read_text().startswith("Dear diary")


def test_another_programs_database_is_left_alone(path: str) -> None:
    """It has tables, and not ours."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()

    assert sentence(path) == f"{path} is not a Taskbell store: it is another program's database."


def test_a_newer_schema_is_refused(path: str) -> None:
    """An older program must not guess what it means."""
    check_store(f"sqlite:{path}")
    newer = len(migrations()) + 1
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {newer}")
    connection.close()

    assert sentence(path) == (
        f"The store {path} has schema {newer}, made by a newer Taskbell; this one knows up to {newer - 1}."
    )


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The sentence holds the path and the system's reason."""
    path = tmp_path / "missing" / "store.db"

    assert sentence(str(path)) == (
        f"The store {path} cannot be opened: No such file or directory ({os.path.realpath(path)}.lock)."
    )


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    """SQLite cannot open it."""
    folder = tmp_path / "folder"
    folder.mkdir()

    assert sentence(str(folder)) == f"The store {folder} cannot be opened: unable to open database file."


@contextmanager
def _ordinary_user() -> Iterator[None]:
    """The superuser may write anywhere, so be nobody for a while."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(0)


def test_a_folder_that_may_not_be_written_is_refused() -> None:
    """With the system's reason, before anything is created in it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
        with _ordinary_user():
            said = sentence(f"{folder}/store.db")
        Path(folder).chmod(stat.S_IRWXU)

        assert said.startswith(f"The store {folder}/store.db cannot be opened: Permission denied (")
        assert list(Path(folder).iterdir()) == []


def test_a_file_that_may_not_be_written_is_refused() -> None:
    """A store that could only be read would break the first promise."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store.db"
        check_store(f"sqlite:{path}")
        Path(folder).chmod(0o777)
        Path(path).chmod(0o444)
        Path(path + ".lock").chmod(0o666)
        with _ordinary_user():
            said = sentence(path)

    assert said == f"The store {path} cannot be opened: attempt to write a readonly database."


def test_a_migration_is_whole_or_absent(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails halfway leaves the schema as it was, and the next start tries it again."""
    check_store(f"sqlite:{path}")
    broken = [*migrations(), "CREATE TABLE half (x);\nCREATE TABLE tasks (x);"]
    monkeypatch.setattr("taskbell.engines.sqlite.store.migrations", lambda: broken)
    said = sentence(path)
    connection = sqlite3.connect(path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()

    assert said == f"The store {path} cannot be opened: table tasks already exists."
    assert version == len(broken) - 1
    assert "half" not in tables


def test_a_migration_goes_on_from_where_the_store_is(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step once, in their order."""
    check_store(f"sqlite:{path}")
    longer = [*migrations(), "CREATE TABLE second (x);", "ALTER TABLE second RENAME TO third;"]
    monkeypatch.setattr("taskbell.engines.sqlite.store.migrations", lambda: longer)
    connection = open_store(path)
    migrate(connection, path)

    assert connection.execute("PRAGMA user_version").fetchone() == (len(longer),)
    assert connection.execute("SELECT count(*) FROM third").fetchone() == (0,)
    connection.close()


def _execution(**columns: object) -> str:
    """A statement that inserts an execution which is possible, but for the columns given."""
    possible = {"job_id": 1, "instant": 0, "is_forced": 0, "disposition": "'fired'", "progress": "'open'"}
    values = {**possible, "attempts": 1, "failures": 1, "reason": "''", **columns}
    return f"INSERT INTO executions ({', '.join(values)}) VALUES ({', '.join(map(str, values.values()))})"


async def test_the_schema_refuses_what_cannot_be(path: str) -> None:
    """Invariants that hold whoever writes."""
    engine = await open_engine(f"sqlite:{path}")
    await engine.create_queue(sample_queue(), 0)
    await engine.close()
    impossible = [
        "INSERT INTO tasks VALUES (-1, 1, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, '{}', x'')",
        "INSERT INTO tasks VALUES (1, 1, '', 0, 0, 0, 0, 0, NULL, NULL, NULL, '{}', x'')",
        "INSERT INTO tasks VALUES (1, 1, NULL, 0, 0, 1, 2, 0, NULL, NULL, NULL, '{}', x'')",
        "INSERT INTO tasks VALUES (1, 1, NULL, 0, 0, 0, 0, -1, NULL, NULL, NULL, '{}', x'')",
        "INSERT INTO tasks VALUES (1, 1, NULL, 'soon', 0, 0, 0, 0, NULL, NULL, NULL, '{}', x'')",
        "UPDATE queues SET state = 'STOPPED'",
        "UPDATE queues SET tombstone_ttl = -1",
        "UPDATE queues SET settings = 'not json'",
        "INSERT INTO jobs VALUES (-1, 'j', '', '', '', 'ENABLED', 0, '{}', x'')",
        "INSERT INTO jobs VALUES (1, 'j', '', '', '', 'STOPPED', 0, '{}', x'')",
        "INSERT INTO jobs VALUES (1, 'j', '', '', '', 'ENABLED', 0, 'not json', x'')",
        "INSERT INTO timers VALUES (1, 0, 'soon', NULL, NULL, NULL)",
        "INSERT INTO timers VALUES (1, 0, NULL, NULL, 5, NULL)",
        _execution(is_forced=1),
        _execution(disposition="'forced'"),
        _execution(disposition="'lost'"),
        _execution(progress="'running'"),
        _execution(failures=2),
        _execution(attempts=0, failures=-1),
        _execution(status_message="'no code'"),
    ]
    connection = open_store(path)
    connection.execute(_execution())
    connection.execute("DELETE FROM executions")
    for statement in impossible:
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.close()

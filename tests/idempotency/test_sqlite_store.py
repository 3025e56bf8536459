"""What the SQLite store promises besides: processes, transactions of its callers, forks, files."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from taskbell.core.claim import Record, Replay, Run, Status, Wait, is_expired
from taskbell.idempotency import (
    DAY,
    HOUR,
    SECOND,
    Answer,
    Bid,
    Guard,
    InProgress,
    LostClaimError,
    PermanentFailure,
    Ran,
    Replayed,
    own_key,
)
from taskbell.idempotency.stores.sqlite import SqliteStore, _turn_to_wal
from taskbell.testing.claim_history import shifted

ROOT = Path(__file__).parents[2]
KEY = own_key("the key")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "claims.db"
    with closing(sqlite3.connect(f"{path}.effects")) as effects:
        effects.execute("CREATE TABLE effects (name TEXT)")
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        yield store


@pytest.fixture
def application(path: Path) -> Iterator[sqlite3.Connection]:
    """The caller's own connection, with its driver's ways of beginning transactions."""
    with closing(sqlite3.connect(path, timeout=0.1)) as connection:
        connection.execute("CREATE TABLE payments (name TEXT)")
        yield connection


class Worker:
    """A process of `sqlite_worker.py`."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.idempotency.sqlite_worker", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.says() == "ready"

    def says(self) -> object:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    workers: list[Worker] = []
    yield workers
    for worker in workers:
        worker.end()


def effects(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"{path}.effects")) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM effects")]


def payments(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM payments")]


def lease_ends(store: SqliteStore) -> None:
    """As if an hour had passed."""
    record = store.get(KEY.text)
    assert record is not None
    store.put(shifted(record, HOUR))


def test_of_fifty_deliveries_in_two_processes_one_runs(path: Path, workers: list[Worker]) -> None:
    """On a file that none of them has made before; the others are refused or replayed."""
    workers += [Worker("compete", str(path), "25") for _ in range(2)]
    for worker in workers:
        worker.go_on()
    outcomes = [outcome for worker in workers for outcome in json.loads(json.dumps(worker.says()))]

    assert len(outcomes) == 50
    assert outcomes.count("Ran") == 1
    assert set(outcomes) <= {"Ran", "Replayed", "InProgress"}
    assert effects(path) == ["compete"]


@pytest.mark.parametrize(
    ("step", "counts"),
    [("begun", (0, 1)), ("claimed", (0, 1)), ("worked", (1, 2)), ("finished", (1, 1))],
)
def test_a_worker_that_is_killed_leaves_a_key_that_completes(
    path: Path, workers: list[Worker], store: SqliteStore, step: str, counts: tuple[int, int]
) -> None:
    """At whichever step: with the lease over, the next delivery completes. Only one window repeats the effect."""
    workers.append(Worker("stop_at", str(path), step))
    workers[0].go_on()
    assert workers[0].says() == "here"
    workers[0].process.send_signal(signal.SIGKILL)
    workers[0].process.wait()
    guard = Guard(store, lease=HOUR)
    assert len(effects(path)) == counts[0]

    def work(_: object) -> None:
        with closing(sqlite3.connect(f"{path}.effects")) as connection:
            connection.execute("INSERT INTO effects VALUES ('next')")
            connection.commit()

    if step in {"claimed", "worked"}:
        assert isinstance(guard.call(KEY, work), InProgress)
        lease_ends(store)
    outcome = guard.call(KEY, work)

    assert isinstance(outcome, Replayed if step == "finished" else Ran)
    assert len(effects(path)) == counts[1]
    record = store.get(KEY.text)
    assert record is not None
    assert record.status is Status.COMPLETED


def test_a_worker_that_was_suspended_past_its_lease_is_refused(
    path: Path, workers: list[Worker], store: SqliteStore
) -> None:
    """SIGSTOP, another finishes, SIGCONT: its result does not stand."""
    workers.append(Worker("stall", str(path)))
    workers[0].go_on()
    assert workers[0].says() == "here"
    workers[0].process.send_signal(signal.SIGSTOP)
    lease_ends(store)
    assert Guard(store).call(KEY, lambda _: Answer(200, body=b"other")) == Ran(*[Answer(200, body=b"other")] * 2)
    workers[0].process.send_signal(signal.SIGCONT)
    workers[0].go_on()

    assert workers[0].says() == "Lost"
    assert Guard(store).claim(KEY) == Replayed(Answer(200, body=b"other"))


def test_effect_and_completion_commit_together(store: SqliteStore, application: sqlite3.Connection, path: Path) -> None:
    """`finish_in`: the claim is seen by all, the rest by nobody until the commit."""
    guard = Guard(store)

    with guard.hold(KEY) as run:
        assert isinstance(guard.claim(KEY), InProgress)
        with application:
            application.execute("INSERT INTO payments VALUES ('a')")
            run.finish_in(application, Answer(201))
            assert isinstance(store.get(KEY.text), Record)
            assert payments(path) == []

    assert payments(path) == ["a"]
    assert guard.claim(KEY) == Replayed(Answer(201))


def test_a_rollback_takes_the_completion_back(store: SqliteStore, application: sqlite3.Connection, path: Path) -> None:
    """The run is released, and the next delivery does both."""
    guard = Guard(store)

    def pay(*, fail: bool) -> None:
        with guard.hold(KEY) as run, application:
            application.execute("INSERT INTO payments VALUES ('a')")
            run.finish_in(application)
            if fail:
                raise ConnectionError

    with pytest.raises(ConnectionError):
        pay(fail=True)
    assert payments(path) == []
    pay(fail=False)
    assert payments(path) == ["a"]


def test_an_effect_whose_claim_was_lost_is_rolled_back(
    store: SqliteStore, application: sqlite3.Connection, path: Path
) -> None:
    """What a late worker did must not stand, and in one transaction it does not."""
    guard = Guard(store, lease=HOUR)

    def late() -> None:
        with guard.hold(KEY) as run:
            lease_ends(store)
            guard.call(KEY, lambda _: None)
            with application:
                application.execute("INSERT INTO payments VALUES ('late')")
                run.finish_in(application)

    with pytest.raises(LostClaimError):
        late()
    assert payments(path) == []


def test_claim_effect_and_completion_in_one_transaction(
    store: SqliteStore, application: sqlite3.Connection, path: Path
) -> None:
    """`within`: before the commit nothing is there, after it everything."""
    store.create_schema()
    guard = Guard(store)

    def pay(_: object) -> Answer:
        application.execute("INSERT INTO payments VALUES ('a')")
        return Answer(201)

    with application:
        assert guard.within(application).call(KEY, pay) == Ran(*[Answer(201)] * 2)
        assert store.get(KEY.text) is None
    with application:
        assert guard.within(application).call(KEY, pay) == Replayed(Answer(201))

    assert payments(path) == ["a"]
    assert guard.claim(KEY) == Replayed(Answer(201))


@pytest.mark.parametrize("error", [ConnectionError("away"), PermanentFailure("no")])
def test_every_error_in_one_transaction_is_the_callers_to_roll_back(
    store: SqliteStore, application: sqlite3.Connection, path: Path, error: Exception
) -> None:
    """Also a permanent one: its record would commit with half an effect."""
    guard = Guard(store)

    def fail(_: object) -> None:
        application.execute("INSERT INTO payments VALUES ('half')")
        raise error

    def deliver() -> None:
        with application:
            guard.within(application).call(KEY, fail)

    with pytest.raises(type(error)):
        deliver()
    assert payments(path) == []
    assert store.get(KEY.text) is None


def test_a_transaction_store_has_every_verb(store: SqliteStore, application: sqlite3.Connection) -> None:
    """All of them in the caller's transaction, and its closing leaves the connection alone."""
    inside = store.in_transaction(application)
    application.row_factory = lambda _, row: {"row": row}
    assert inside.get("k") is None
    assert application.in_transaction  # Also when nothing was written: what was read must still be so at the commit.
    inside.create_schema()
    assert isinstance(inside.claim(Bid("k", "a", HOUR, DAY)), Run)
    assert isinstance(inside.renew("k", "a", HOUR), Record)
    assert isinstance(inside.release("k", "a"), Record)
    assert isinstance(inside.claim(Bid("k", "b", HOUR, DAY)), Run)
    assert isinstance(inside.finish("k", "b", DAY), Record)
    assert inside.sweep() == 0
    assert inside.get("k") is not None
    inside.close()
    application.rollback()

    assert store.get("k") is None


def test_a_connection_that_commits_each_statement_must_begin_by_itself(store: SqliteStore, path: Path) -> None:
    """Otherwise nobody would commit what the store began."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.ProgrammingError, match="BEGIN IMMEDIATE"):
            store.in_transaction(connection).get("k")
        store.create_schema()
        connection.execute("BEGIN IMMEDIATE")
        assert isinstance(store.in_transaction(connection).claim(Bid("k", "a", HOUR, DAY)), Run)
        connection.execute("COMMIT")

    assert isinstance(store.claim(Bid("k", "b", HOUR, DAY)), Wait)


def test_a_file_that_stays_locked_is_an_error_for_now(path: Path, application: sqlite3.Connection) -> None:
    """After the timeout; the delivery fails and comes again."""
    with closing(SqliteStore(path, busy_timeout=SECOND // 20)) as store:
        store.create_schema()
        application.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.claim(Bid("k", "a", HOUR, DAY))
        application.rollback()

        assert isinstance(store.claim(Bid("k", "a", HOUR, DAY)), Run)


def test_a_fork_goes_on_with_a_connection_of_its_own(store: SqliteStore) -> None:
    """Servers fork after they have loaded the program; a thread may have been inside the store just then."""
    store.claim(Bid("k", "a", HOUR, DAY))
    store._lock.acquire()
    with warnings.catch_warnings():
        # Newer Pythons warn where threads run, which is just what this test is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        waits = isinstance(store.claim(Bid("k", "b", HOUR, DAY)), Wait)
        store.finish("k", "a", DAY)
        os._exit(0 if waits else 1)
    store._lock.release()

    assert os.waitpid(child, 0)[1] == 0
    assert store.claim(Bid("k", "b", HOUR, DAY)) == Replay()


def test_what_was_acknowledged_is_on_the_disk(store: SqliteStore) -> None:
    """The settings that say so."""
    store.create_schema()
    connection = store._connection
    assert connection is not None

    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_two_tables_of_one_file_do_not_meet(store: SqliteStore, path: Path) -> None:
    """One for each service that keeps its claims there."""
    with closing(SqliteStore(path, table="other_claims")) as other:
        assert isinstance(store.claim(Bid("k", "a", HOUR, DAY)), Run)
        assert isinstance(other.claim(Bid("k", "b", HOUR, DAY)), Run)


def test_the_table_refuses_what_no_record_is(store: SqliteStore, path: Path) -> None:
    """Whoever writes it by hand."""
    store.claim(Bid("k", "a", HOUR, DAY))
    with closing(sqlite3.connect(path)) as connection:
        for change in ("status = 'done'", "fence = -1", "answer_status = 200"):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(f"UPDATE taskbell_claims SET {change}")


def test_a_verb_that_fails_leaves_nothing_and_the_store_goes_on(store: SqliteStore) -> None:
    """Its transaction is rolled back."""
    with pytest.raises(sqlite3.IntegrityError):
        store.put(Record("k", Status.IN_PROGRESS, "a", 0, 0, fence=-1))

    assert store.get("k") is None
    assert isinstance(store.claim(Bid("k", "a", HOUR, DAY)), Run)


def test_a_sweep_takes_what_the_rules_call_expired(path: Path) -> None:
    """To the microsecond: its statement says the same as `core.claim.is_expired`."""
    now = 1000 * DAY
    records = [
        Record(f"{status}-{attempt_id}-{lease_expires}-{expire_at}", status, attempt_id, lease_expires, expire_at)
        for status in Status
        for attempt_id in ("", "a")
        for lease_expires in (0, now - 1, now, now + 1)
        for expire_at in (now - 1, now, now + 1)
    ]
    with closing(SqliteStore(path, now=lambda: now)) as store:
        for record in records:
            store.put(record)
        swept = store.sweep()
        left = [record for record in records if store.get(record.key) is not None]

    assert left == [record for record in records if not is_expired(record, now)]
    assert swept == len(records) - len(left)


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_store_needs_a_file(path: str) -> None:
    """Each connection would have a memory of its own."""
    with pytest.raises(ValueError, match="MemoryStore"):
        SqliteStore(path)


def test_a_table_has_a_plain_name() -> None:
    """It goes into the statements."""
    with pytest.raises(ValueError, match="letters, digits and underscores"):
        SqliteStore("a.db", table="claims; DROP TABLE claims")


def test_a_store_that_cannot_be_opened_says_so_each_time(tmp_path: Path) -> None:
    """And does not keep a broken connection."""
    (tmp_path / "not.db").write_text("this is no database, and long enough to be read as one " * 20)
    store = SqliteStore(tmp_path / "not.db")

    for _ in range(2):
        with pytest.raises(sqlite3.DatabaseError):
            store.claim(Bid("k", "a", HOUR, DAY))


def test_threads_share_a_store(store: SqliteStore) -> None:
    """Each verb is one transaction, whichever thread calls it."""
    decisions: list[object] = []
    gate = threading.Barrier(8)

    def bid(number: int) -> None:
        gate.wait()
        decisions.append(store.claim(Bid("k", str(number), HOUR, DAY)))

    threads = [threading.Thread(target=bid, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(type(decision).__name__ for decision in decisions) == ["Run", *["Wait"] * 7]


class Busy:
    """A connection to a new file that others turn to WAL at the same moment: SQLite refuses, and does not wait."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.said: list[str] = []

    def execute(self, statement: str) -> None:
        self.said.append(statement)
        if statement.startswith("PRAGMA") and self.refusals:
            self.refusals -= 1
            raise sqlite3.OperationalError("database is locked")


def test_a_new_file_that_others_open_too_is_waited_for() -> None:
    """By a transaction, which does wait; but not for ever."""
    busy: Any = Busy(2)
    _turn_to_wal(busy)
    assert busy.said == [*["PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE", "COMMIT"] * 2, "PRAGMA journal_mode = WAL"]

    with pytest.raises(sqlite3.OperationalError):
        _turn_to_wal(cast("Any", Busy(100)))

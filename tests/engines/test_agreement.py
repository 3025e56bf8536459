"""Random sequences of verbs on the memory engine and on SQLite: every answer and all that can be seen must agree.

The memory engine does what the contract says directly; SQLite groups, merges, defers and sweeps. Bursts are called at
once on SQLite, so that they meet in its batches, and one after the other on the oracle.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from taskbell.core.errors import InvalidArgument, TaskbellError
from taskbell.core.instant import DAY, HOUR, MILLISECOND, SECOND
from taskbell.core.queue import Queue, QueueState
from taskbell.core.target import HttpTarget
from taskbell.core.task import Attempt, DueKey, Status, Task
from taskbell.engine import Engine, Settlement, Swept
from taskbell.engines.memory import MemoryEngine
from taskbell.engines.sqlite import SqliteEngine
from taskbell.testing.engine_samples import OTHER_QUEUE, QUEUE, START, state_of

Draw = Callable[[st.SearchStrategy[Any]], Any]

QUEUES = [QUEUE, OTHER_QUEUE]
NAMES = ["a", "b", "c"]
SPANS = [1, MILLISECOND, SECOND, HOUR, DAY - HOUR, DAY, 8 * DAY, 31 * DAY]
TTLS = [0, HOUR, DAY, 31 * DAY]


@dataclass(frozen=True)
class Call:
    """One call of a verb, to be made on both engines."""

    verb: str
    arguments: tuple[Any, ...]

    async def on(self, engine: Engine) -> Any:
        """The outcome in a form that compares: errors by code and text, and of sweeps and purges what must agree."""
        keywords = {"replace": False} if self.verb == "put_record" else {}
        try:
            outcome = await getattr(engine, self.verb)(*self.arguments, **keywords)
        except TaskbellError as error:
            return error.code, error.message
        if self.verb == "create_tasks":
            return [answer and (answer.code, answer.message) for answer in outcome]
        if self.verb == "purge_queue":
            queue, through = outcome
            assert through < engine.next_id(0)
            return queue
        if isinstance(outcome, Swept):
            # When purged rows and their tombstones go is an engine's own business.
            return outcome.expired_tasks, outcome.queues
        return outcome


def _changed(ttls: tuple[int, int], stored: Queue | None, name: str) -> Queue:
    return replace(stored or Queue(name), task_ttl=max(ttls[0], HOUR), tombstone_ttl=ttls[1])


def _refusing(_: Queue | None) -> Queue:
    raise InvalidArgument("No.")


class Agreement(RuleBasedStateMachine):
    """Both engines side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.memory = MemoryEngine()
        self.sqlite = SqliteEngine(str(Path(self.folder.name) / "store.db"))
        self.runner.run(self.sqlite.open())
        self.now = START
        self.known: list[Task] = []

    @initialize()
    def begin(self) -> None:
        """One queue from the start; the other comes and goes."""
        self.both([Call("create_queue", (Queue(QUEUE), self.now))])

    @rule(span=st.sampled_from(SPANS))
    def time_passes(self, span: int) -> None:
        self.now += span

    @rule(data=st.data())
    def burst(self, data: st.DataObject) -> None:
        """A few calls at once."""
        size = data.draw(st.integers(1, 8))
        self.both([self.draw(data.draw) for _ in range(size)])

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """Pages with bounds."""
        queue = data.draw(st.sampled_from(QUEUES))
        key = data.draw(st.sampled_from([None, DueKey(self.now, 0), *(task.due_key for task in self.known)]))
        limit = data.draw(st.integers(1, 5))
        max_bytes = data.draw(st.sampled_from([0, 2000, 5000, 10**9]))
        self.both([Call("due_tasks", (queue, key, limit, max_bytes))])

    @rule()
    def restart(self) -> None:
        """The oracle keeps its memory, SQLite its file."""
        self.runner.run(self.sqlite.close())
        self.sqlite = SqliteEngine(str(Path(self.folder.name) / "store.db"))
        self.runner.run(self.sqlite.open())

    @invariant()
    def same_state(self) -> None:
        names = {queue: [*NAMES, *(task.task_id for task in self.known)] for queue in QUEUES}

        async def states() -> tuple[Any, Any]:
            return await state_of(self.memory, self.now, names), await state_of(self.sqlite, self.now, names)

        memory, sqlite = self.runner.run(states())
        assert sqlite == memory

    def teardown(self) -> None:
        self.runner.run(self.sqlite.close())
        self.runner.close()
        self.folder.cleanup()

    def both(self, calls: list[Call]) -> None:
        """Make the calls on both engines and compare the answers."""

        async def run() -> tuple[list[Any], list[Any]]:
            expected = [await call.on(self.memory) for call in calls]
            return expected, list(await asyncio.gather(*(call.on(self.sqlite) for call in calls)))

        expected, found = self.runner.run(run())
        assert found == expected

    def draw(self, draw: Draw) -> Call:
        """One call that changes something."""
        queue = draw(st.sampled_from([QUEUE, QUEUE, OTHER_QUEUE]))
        kind = draw(st.sampled_from(["create"] * 4 + ["settle"] * 4 + ["delete"] * 2 + ["sweep", "purge", "queue"]))
        if kind == "create":
            return Call("create_tasks", ([self.new_task(draw, queue) for _ in range(draw(st.integers(1, 4)))],))
        if kind == "settle" and self.known:
            return Call("settle", ([self.outcome(draw) for _ in range(draw(st.integers(1, 4)))], self.now))
        if kind == "delete":
            task_ids = [*NAMES, *(task.task_id for task in self.known)]
            return Call("delete_task", (queue, draw(st.sampled_from(task_ids)), self.now))
        if kind == "purge":
            return Call("purge_queue", (queue, self.now))
        if kind == "queue":
            return self.queue_call(draw, queue)
        return Call("sweep", (self.now, draw(st.integers(1, 6))))

    def queue_call(self, draw: Draw, queue: str) -> Call:
        ttls = draw(st.tuples(st.sampled_from(TTLS), st.sampled_from(TTLS)))
        calls = [
            Call("create_queue", (_changed(ttls, None, queue), self.now)),
            Call("update_queue", (queue, lambda stored: _changed(ttls, stored, queue), self.now)),
            Call("update_queue", (queue, _refusing, self.now)),
            Call("delete_queue", (queue, self.now, ttls[0])),
            Call("set_queue_state", (queue, draw(st.sampled_from(QueueState)))),
            Call("set_policy", (queue, b"p", draw(st.sampled_from([None, b"p"])))),
            Call("policy", (queue,)),
            Call("put_record", ("key", queue.encode())),
        ]
        return calls[draw(st.integers(0, len(calls) - 1))]

    def new_task(self, draw: Draw, queue: str) -> Task:
        """A new task without a chosen name, with one, or with one that is or will be some task's number."""
        task_id = self.sqlite.next_id(self.now)
        numbers = [str(task.id) for task in self.known] or ["7"]
        name = draw(st.none() | st.sampled_from(NAMES) | st.sampled_from(numbers))
        task = Task(
            id=task_id,
            queue=queue,
            task_id=name or str(task_id),
            named=name is not None,
            target=HttpTarget("https://example.com/", body=draw(st.sampled_from([b"", b"x", b"y" * 5000]))),
            schedule_time=self.now + draw(st.sampled_from([0, 0, 1, HOUR])),
            create_time=self.now,
        )
        self.known.append(task)
        return task

    def outcome(self, draw: Draw) -> Settlement:
        """An end or a retry of some task that exists, existed, or was refused."""
        task = draw(st.sampled_from(self.known[-12:]))
        attempts = draw(st.integers(0, 3))
        if attempts == 0:
            return Settlement(task, None)
        retry = replace(
            task,
            schedule_time=self.now + draw(st.sampled_from([0, SECOND, DAY])),
            dispatch_count=attempts,
            response_count=1,
            first_dispatch_time=self.now,
            last_attempt=Attempt(task.schedule_time, self.now, None, Status(4, "late")),
            previous_response=504,
        )
        return Settlement(task, retry)


@pytest.mark.timeout(300)
def test_memory_and_sqlite_agree() -> None:
    """Whatever is asked of them, in whatever order."""
    run_state_machine_as_test(
        Agreement,
        settings=settings(
            max_examples=60,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )

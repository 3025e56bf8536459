"""Random sequences of the verbs of jobs, as `test_agreement.py` has them for tasks, with some of those in between.

Ids, revisions, instants and attempts come from small ranges, so that stale timers, taken keys, late answers and jobs
that came back under their old names are the rule.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import DAY, MINUTE
from taskbell.core.job import STARTED, Disposition, Execution, Job, JobTarget, Progress
from taskbell.core.target import HttpTarget, PubsubTarget
from taskbell.core.task import Status
from taskbell.engine import Engine, ExecutionKey, HistoryFilter, Progression, Tick
from taskbell.engines.memory import MemoryEngine
from taskbell.engines.sqlite import SqliteEngine
from taskbell.testing.engine_job_samples import FIRST, JOB, OTHER_JOB, jobs_state
from taskbell.testing.engine_samples import LOCATION, QUEUE, due, sample_queue, sample_task
from tests.engines.test_agreement import Call, Draw

NAMES = [JOB, OTHER_JOB]
INSTANTS = [FIRST + number * MINUTE for number in range(4)]
NEXT_TIMES = [*INSTANTS, None]
VERBS = ["create"] * 2 + ["tick"] * 6 + ["progress"] * 6 + ["update"] * 3 + ["force"] * 2 + ["delete", "sweep", "task"]
TARGETS: list[JobTarget] = [
    HttpTarget("https://example.com/", body=b"y" * 5000),
    PubsubTarget("projects/p/topics/t", b"x"),
]


def _refusing(_: Job) -> tuple[Job, Sequence[Execution]]:
    raise InvalidArgument("No.")


class JobAgreement(RuleBasedStateMachine):
    """Both engines side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.memory = MemoryEngine()
        self.sqlite = SqliteEngine(str(Path(self.folder.name) / "store.db"))
        self.runner.run(self.sqlite.open())
        self.known: list[Job] = []

    @initialize()
    def begin(self) -> None:
        """A queue, and one job that is there from the start."""
        self.both([Call("create_queue", (sample_queue(), FIRST)), Call("create_job", (self.new_job(JOB, FIRST),))])

    @rule(data=st.data())
    def burst(self, data: st.DataObject) -> None:
        """A few calls at once."""
        size = data.draw(st.integers(1, 8))
        self.both([self.draw(data.draw) for _ in range(size)])

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """Pages with bounds."""
        before = data.draw(st.none() | st.builds(ExecutionKey, st.sampled_from(INSTANTS), st.booleans()))
        wanted = HistoryFilter(
            data.draw(st.frozensets(st.sampled_from(Disposition), max_size=3)),
            data.draw(st.sampled_from([FIRST - DAY, *INSTANTS])),
            data.draw(st.sampled_from([FIRST + DAY, *INSTANTS])),
        )
        limit = data.draw(st.integers(1, 4))
        after = data.draw(st.sampled_from(["", *NAMES]))
        self.both(
            [
                Call("executions", (data.draw(st.sampled_from(NAMES)), before, limit, wanted)),
                Call("jobs", (LOCATION, after, limit)),
            ]
        )

    @rule(limit=st.integers(1, 3), before=st.sampled_from([FIRST - DAY, *INSTANTS]))
    def sweep_in_steps(self, limit: int, before: int) -> None:
        """To the end; which rows of one instant go first is an engine's own business."""

        async def swept(engine: Engine) -> int:
            removed = 0
            while step := await engine.sweep_executions(before, limit):
                assert step <= limit
                removed += step
            return removed

        assert self.runner.run(swept(self.sqlite)) == self.runner.run(swept(self.memory))

    @rule()
    def restart(self) -> None:
        """The oracle keeps its memory, SQLite its file."""
        self.runner.run(self.sqlite.close())
        self.sqlite = SqliteEngine(str(Path(self.folder.name) / "store.db"))
        self.runner.run(self.sqlite.open())

    @invariant()
    def same_state(self) -> None:
        async def state(engine: Engine) -> tuple[Any, Any]:
            return await jobs_state(engine, NAMES), await due(engine)

        assert self.runner.run(state(self.sqlite)) == self.runner.run(state(self.memory))

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
        verb = draw(st.sampled_from(VERBS))
        name = draw(st.sampled_from([JOB, JOB, OTHER_JOB]))
        several = range(draw(st.integers(1, 4)))
        if verb == "create":
            return Call("create_job", (self.new_job(name, draw(st.sampled_from(NEXT_TIMES))),))
        if verb == "tick":
            return Call("tick", ([self.tick(draw) for _ in several],))
        if verb == "progress":
            return Call("progress", ([self.progression(draw) for _ in several],))
        if verb == "update":
            return Call("update_job", (name, self.change(draw)))
        if verb == "force":
            return Call("force", (self.execution(draw, self.job(draw), Disposition.FORCED, 0),))
        if verb == "delete":
            return Call("delete_job", (name, draw(st.sampled_from(INSTANTS))))
        if verb == "sweep":
            return Call("sweep_executions", (draw(st.sampled_from(INSTANTS)), 10**6))
        return Call("create_tasks", ([sample_task(self.sqlite, queue=QUEUE)],))

    def new_job(self, name: str, next_time: int | None) -> Job:
        job_id = self.sqlite.next_id(FIRST)
        target = TARGETS[len(self.known) % 2]
        self.known.append(Job(job_id, name, target, "* * * * *", user_update_time=FIRST, next_time=next_time))
        return self.known[-1]

    def job(self, draw: Draw) -> Job:
        """A job as somebody may know it: as it is stored, or as it was or never was."""
        stored = self.runner.run(self.memory.all_jobs())
        if stored and draw(st.booleans()):
            return draw(st.sampled_from(sorted(stored, key=lambda job: job.id)))  # type: ignore[no-any-return]
        job: Job = draw(st.sampled_from(self.known[-4:]))
        return replace(job, revision=draw(st.integers(0, 2)), next_time=draw(st.sampled_from(NEXT_TIMES)))

    def execution(self, draw: Draw, job: Job, disposition: Disposition, attempts: int) -> Execution:
        """One that started is open or has ended; one that did not is closed."""
        progress = Progress.NONE
        if disposition in STARTED:
            progress = draw(st.sampled_from([Progress.OPEN, Progress.OPEN, Progress.FAILED, Progress.SUCCEEDED]))
        return Execution(
            job.id,
            job.name,
            draw(st.sampled_from(INSTANTS)),
            disposition,
            progress,
            last_attempt_time=FIRST + attempts if attempts else None,
            attempts=attempts,
            retry_time=draw(st.sampled_from(NEXT_TIMES)) if progress is Progress.OPEN else None,
            status=draw(st.sampled_from([None, Status(0, ""), Status(13, "500")])),
            reason=draw(st.sampled_from(["", "r"])),
        )

    def scheduled(self, draw: Draw, job: Job) -> Execution:
        kinds = [Disposition.FIRED, Disposition.LATE, Disposition.MISSED, Disposition.SUPERSEDED]
        return self.execution(draw, job, draw(st.sampled_from(kinds)), 0)

    def tick(self, draw: Draw) -> Tick:
        job = self.job(draw)
        executions = [self.scheduled(draw, job) for _ in range(draw(st.integers(0, 2)))]
        return Tick(job, tuple(executions), draw(st.sampled_from(NEXT_TIMES)))

    def progression(self, draw: Draw) -> Progression:
        """An attempt of an execution that is open, mostly."""
        attempts = draw(st.integers(0, 3))
        kind = draw(st.sampled_from([Disposition.FIRED, Disposition.LATE, Disposition.FORCED]))
        execution = self.execution(draw, self.job(draw), kind, attempts)
        waiting = self.runner.run(self.memory.open_executions())
        if waiting and draw(st.integers(0, 3)):
            waiting.sort(key=lambda each: (each.job_id, each.instant, each.is_forced))
            meant = draw(st.sampled_from(waiting))
            execution = replace(
                execution, job_id=meant.job_id, job=meant.job, instant=meant.instant, disposition=meant.disposition
            )
        if not draw(st.integers(0, 3)):
            execution = replace(execution, progress=Progress.CANCELLED, retry_time=None)
        return Progression(execution, draw(st.sampled_from(NEXT_TIMES)))

    def change(self, draw: Draw) -> Any:
        """An edit, a change of our own, or a refusal."""
        growth = draw(st.integers(-1, 1))
        if growth < 0:
            return _refusing
        now, next_time = draw(st.sampled_from(INSTANTS)), draw(st.sampled_from(NEXT_TIMES))
        drawn = [self.scheduled(draw, self.known[0]) for _ in range(draw(st.integers(0, 2)))]

        def change(stored: Job) -> tuple[Job, Sequence[Execution]]:
            edited = replace(
                stored,
                revision=stored.revision + growth,
                user_update_time=now,
                next_time=next_time,
                target=TARGETS[stored.revision % 2],
            )
            return edited, [replace(execution, job_id=stored.id, job=stored.name) for execution in drawn]

        return change


@pytest.mark.timeout(300)
def test_memory_and_sqlite_agree_on_jobs() -> None:
    """Whatever is asked of them, in whatever order."""
    run_state_machine_as_test(
        JobAgreement,
        settings=settings(
            max_examples=60,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )

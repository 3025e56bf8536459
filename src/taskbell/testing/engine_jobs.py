"""Suite: jobs are kept, edited, listed and deleted; what a store that outlives its engine still knows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from taskbell.core.errors import REQUESTED_ENTITY_NOT_FOUND, InvalidArgument
from taskbell.core.instant import HOUR, MINUTE, SECOND
from taskbell.core.job import Disposition, Execution, Job, JobRetryConfig, JobState, JobTarget, Progress
from taskbell.core.target import AppEngineTarget, HttpTarget, OAuthToken, OidcToken, PubsubTarget, Routing
from taskbell.core.task import Status
from taskbell.engine import Engine, Progression
from taskbell.testing.engine_job_samples import (
    ALL,
    FIRST,
    GONE,
    JOB,
    OTHER_JOB,
    add_job,
    advance,
    closed,
    ended,
    failed,
    fired,
    history,
    jobs_state,
    record,
    sample_job,
    step,
)
from taskbell.testing.engine_samples import LOCATION, START, MakeEngine, add, due, put, refused, sample_task

Change = tuple[Job, Sequence[Execution]]

TARGETS: list[JobTarget] = [
    HttpTarget("https://example.com/ü?a=b", "GET", (("K", "v"), ("k", "")), b"", OidcToken("e@x", "aud")),
    HttpTarget("https://example.com/", body=b"\x00\xff" * 50_000, token=OAuthToken("e@x", "s")),
    AppEngineTarget("/path", "PUT", (("A", "ü\n"),), b"x", Routing("s", "v", "i", "h")),
    PubsubTarget("projects/p/topics/t", b"\x00data", (("key", "value"), ("b", ""))),
    PubsubTarget("projects/p/topics/t"),
]


def _touched(stored: Job) -> Change:
    """An edit by a caller, an hour on."""
    return replace(stored, revision=stored.revision + 1, user_update_time=FIRST + HOUR), ()


def _refuse(_: Job) -> Change:
    raise InvalidArgument("No.")


class KeepingJobs:
    """`create_job`, `job`, `jobs`, `all_jobs`, `delete_job`."""

    @pytest.mark.parametrize("target", TARGETS, ids=lambda target: type(target).__name__)
    async def test_a_job_reads_back_as_it_was_created(self, engine: Engine, target: JobTarget) -> None:
        """Every field survives the store, by each way of reading."""
        job = Job(
            engine.next_id(START),
            JOB,
            target,
            "every 5 minutes",
            "Europe/Zürich",
            "Said\x00so",
            JobState.PAUSED,
            JobRetryConfig(5, HOUR, 1, 2, 0),
            30 * SECOND,
            7,
            START,
            FIRST,
            START - 1,
            Status(4, "late"),
        )
        await engine.create_job(job)

        assert await engine.job(JOB) == job
        assert await engine.jobs(LOCATION, "", 10) == await engine.all_jobs() == [job]

    async def test_what_is_absent_reads_back_as_absent(self, engine: Engine) -> None:
        """No deadline, no next instant, no status: none of them becomes a zero."""
        job = await add_job(engine, next_time=None)

        assert await engine.job(JOB) == job
        assert (job.attempt_deadline, job.next_time, job.last_attempt_time, job.status) == (None,) * 4

    async def test_a_job_is_created_once(self, engine: Engine) -> None:
        """The second create changes nothing."""
        job = await add_job(engine)

        answer = await refused(engine.create_job(sample_job(engine, description="second")))
        assert answer == ("ALREADY_EXISTS", f"Job {JOB} already exists.")
        assert await engine.all_jobs() == [job]

    async def test_of_many_creating_one_job_one_wins(self, engine: Engine) -> None:
        """The first that asked."""
        jobs = [sample_job(engine) for _ in range(10)]
        answers = await asyncio.gather(*(engine.create_job(job) for job in jobs), return_exceptions=True)

        assert answers[0] is None
        assert {str(answer) for answer in answers[1:]} == {f"Job {JOB} already exists."}
        assert await engine.job(JOB) == jobs[0]

    async def test_a_missing_job_is_not_found(self, engine: Engine) -> None:
        """By any verb that names it."""
        assert await refused(engine.job(JOB)) == GONE
        assert await refused(engine.update_job(JOB, _touched)) == GONE
        assert await refused(engine.delete_job(JOB, START)) == GONE
        assert await refused(engine.executions(JOB, None, 10, ALL)) == GONE
        assert await refused(engine.execution(JOB, START, is_forced=False)) == GONE

    async def test_jobs_are_listed_by_location_in_the_order_of_names(self, engine: Engine) -> None:
        """Neighbours whose names begin alike stay out, and paging walks over each job once."""
        names = sorted(f"{LOCATION}/jobs/{short}" for short in ["Z", "a", "a-b", "b", "z9", "_", "0"])
        for name in [
            *reversed(names),
            "projects/p/locations/l2/jobs/x",
            "projects/p2/locations/l/jobs/x",
            "projects/p/locations/k/jobs/x",
        ]:
            await add_job(engine, name, target=TARGETS[len(name) % 2])

        assert [job.name for job in await engine.jobs(LOCATION, "", 100)] == names
        for size in (1, 2, 6):
            seen: list[str] = []
            while page := await engine.jobs(LOCATION, seen[-1] if seen else "", size):
                assert len(page) <= size
                seen += [job.name for job in page]
            assert seen == names
        assert await engine.jobs("projects/p/locations/none", "", 10) == []
        assert len(await engine.all_jobs()) == 10

    async def test_a_deleted_job_is_gone_with_its_history(self, engine: Engine) -> None:
        """It is returned as it was; what was open is so no more, and late answers change nothing."""
        job = await add_job(engine)
        await advance(engine, step(job))
        stored = await engine.job(JOB)

        assert await engine.delete_job(JOB, START) == stored
        assert await refused(engine.job(JOB)) == GONE
        assert await refused(engine.executions(JOB, None, 10, ALL)) == GONE
        assert await engine.open_executions() == []
        assert await engine.all_jobs() == await engine.jobs(LOCATION, "", 9) == []
        assert await engine.progress([Progression(ended(fired(job)))]) == [False]
        assert await engine.tick([step(stored)]) == [False]
        assert not await engine.force(fired(job, disposition=Disposition.FORCED))

    async def test_a_job_of_a_deleted_ones_name_starts_anew(self, engine: Engine) -> None:
        """At once, with an empty history, deaf to what the old one had under way; before and after a sweep."""
        old = await add_job(engine)
        await advance(engine, step(old))
        moved = await engine.job(JOB)
        await engine.delete_job(JOB, START)
        new = await add_job(engine, next_time=moved.next_time)

        assert await history(engine) == []
        assert await refused(engine.execution(JOB, FIRST, is_forced=False)) == (
            "NOT_FOUND",
            REQUESTED_ENTITY_NOT_FOUND,
        )
        assert await engine.tick([step(moved)]) == [False]
        assert await engine.progress([Progression(ended(fired(old)))]) == [False]
        assert not await engine.force(fired(old, disposition=Disposition.FORCED))
        await advance(engine, step(new, fired(new, FIRST)))
        assert await engine.sweep_executions(START, 10) == 1
        assert await history(engine) == [fired(new, FIRST)]
        assert await engine.all_jobs() == [replace(new, next_time=FIRST + 2 * MINUTE)]


class EditingJobs:
    """`update_job`."""

    async def test_updating_replaces_what_is_stored(self, engine: Engine) -> None:
        """The change sees the stored job, and what it returns is stored and returned, each field of it."""
        job = await add_job(engine)
        other = await add_job(engine, OTHER_JOB)
        seen: list[Job] = []
        new = Job(
            job.id,
            JOB,
            TARGETS[2],
            "0 0 * * *",
            "utc",
            "new",
            JobState.DISABLED,
            JobRetryConfig(1),
            1,
            9,
            FIRST,
            None,
            START,
            Status(5, ""),
        )

        def change(stored: Job) -> Change:
            seen.append(stored)
            return new, ()

        assert await engine.update_job(JOB, change) == await engine.job(JOB) == new
        assert seen == [job]
        assert await engine.job(OTHER_JOB) == other

    async def test_updates_are_not_lost(self, engine: Engine) -> None:
        """Each change sees the one before it."""
        await add_job(engine)
        await asyncio.gather(*(engine.update_job(JOB, _touched) for _ in range(30)))

        assert (await engine.job(JOB)).revision == 30

    async def test_a_change_that_refuses_changes_nothing(self, engine: Engine) -> None:
        """What else is under way is not disturbed."""
        job = await add_job(engine)
        task = sample_task(engine)
        answers = await asyncio.gather(
            engine.create_tasks([task]),
            engine.update_job(JOB, _refuse),
            engine.tick([step(job)]),
            return_exceptions=True,
        )

        assert (answers[0], str(answers[1]), answers[2]) == ([None], "No.", [True])
        assert await engine.job(JOB) == replace(job, next_time=FIRST + MINUTE)
        assert await due(engine) == [task]

    async def test_a_change_that_breaks_is_its_callers_problem_alone(self, engine: Engine) -> None:
        """An error that is no refusal reaches its own caller; the ticks beside it apply, and apply once."""
        job = await add_job(engine)
        broken: dict[Job, Change] = {}
        answers = await asyncio.gather(
            engine.tick([step(job)]),
            engine.update_job(JOB, broken.__getitem__),
            engine.progress([Progression(ended(fired(job)))]),
            return_exceptions=True,
        )

        assert (answers[0], answers[2]) == ([True], [True])
        assert isinstance(answers[1], KeyError)
        assert await history(engine) == [ended(fired(job))]

    async def test_an_edit_makes_timers_set_before_it_void(self, engine: Engine) -> None:
        """Though the instant stayed the same; the timer set after it counts."""
        job = await add_job(engine)
        edited = await engine.update_job(JOB, _touched)

        assert await engine.tick([step(job)]) == [False]
        assert await history(engine) == []
        assert await engine.tick([step(edited)]) == [True]

    async def test_an_edit_inserts_rows_beside_those_that_stand(self, engine: Engine) -> None:
        """A dropped instant is told; one that has a row already keeps it."""
        job = await add_job(engine)
        await advance(engine, step(job))
        dropped = [
            closed(job, FIRST, Disposition.SUPERSEDED),
            closed(job, FIRST + MINUTE, Disposition.SUPERSEDED),
            closed(job, FIRST + MINUTE, Disposition.MISSED),
        ]
        await engine.update_job(JOB, lambda stored: (stored, dropped))

        assert await history(engine) == [dropped[1], fired(job)]

    async def test_an_edit_ends_the_wait_for_a_retry(self, engine: Engine) -> None:
        """From the edit's moment on, and of this job alone; the retry that was to come finds it closed."""
        job, other = await add_job(engine), await add_job(engine, OTHER_JOB)
        await advance(engine, step(job), step(other))
        waits, others = failed(fired(job), wait=HOUR + 1), failed(fired(other), wait=HOUR + 1)
        await record(engine, waits, others)
        await engine.update_job(JOB, _touched)

        cancelled = replace(waits, progress=Progress.CANCELLED, end_time=FIRST + HOUR, retry_time=None)
        assert await history(engine) == [cancelled]
        assert await engine.open_executions() == [others]
        assert await engine.progress([Progression(ended(waits))]) == [False]

    @pytest.mark.parametrize("wait", [None, MINUTE, HOUR])
    async def test_an_attempt_that_is_out_goes_on_through_an_edit(self, engine: Engine, wait: int | None) -> None:
        """The first one, or a retry whose time had come."""
        job = await add_job(engine)
        await advance(engine, step(job))
        execution = fired(job)
        if wait is not None:
            execution = failed(execution, wait=wait)
            await record(engine, execution)
        await engine.update_job(JOB, _touched)

        assert await engine.open_executions() == [execution]
        await record(engine, ended(execution))

    async def test_a_forced_run_goes_on_through_an_edit(self, engine: Engine) -> None:
        """Also while it waits for a retry."""
        job = await add_job(engine)
        forced = fired(job, START, disposition=Disposition.FORCED)
        assert await engine.force(forced)
        await record(engine, failed(forced, wait=2 * HOUR))
        await engine.update_job(JOB, _touched)

        assert await engine.open_executions() == [failed(forced, wait=2 * HOUR)]

    async def test_bookkeeping_is_no_edit(self, engine: Engine) -> None:
        """A change that leaves the revision as it is leaves waiting executions alone."""
        job = await add_job(engine)
        await advance(engine, step(job))
        waits = failed(fired(job), wait=HOUR)
        await record(engine, waits)
        await engine.update_job(JOB, lambda stored: (replace(stored, description="d"), ()))

        assert await engine.open_executions() == [waits]


class ReopeningJobs:
    """Close and open again: jobs, their histories and what is open."""

    async def test_jobs_and_histories_are_still_there(self, engine: Engine, make_engine: MakeEngine) -> None:
        """Deleted ones are not, and one instant fires once over a restart, too."""
        job, other = await add_job(engine), await add_job(engine, OTHER_JOB, target=TARGETS[3])
        gone = await add_job(engine, JOB + "-gone")
        await advance(engine, step(job), step(gone), step(other, closed(other, FIRST), wait=None))
        await engine.force(fired(job, START, disposition=Disposition.FORCED))
        await record(engine, failed(fired(job)))
        await engine.update_job(JOB, lambda stored: (replace(stored, revision=3), ()))
        await engine.delete_job(gone.name, START)
        await add(engine)
        names = [JOB, OTHER_JOB, gone.name]
        before = await jobs_state(engine, names)
        await engine.close()

        again = make_engine()
        await again.open()
        assert await jobs_state(again, names) == before
        assert again.next_id(0) > other.id
        stored = await again.job(JOB)
        assert await again.tick([step(job), step(stored, fired(job)), step(stored)]) == [False, False, True]
        assert await again.sweep_executions(START, 10) == 1
        await put(again, sample_task(again))
        await again.close()

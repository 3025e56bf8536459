"""Suite: one instant of one job goes in once; attempts are recorded; histories are read and swept."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from taskbell.core.errors import REQUESTED_ENTITY_NOT_FOUND
from taskbell.core.instant import DAY, HOUR, MINUTE, SECOND
from taskbell.core.job import Disposition, Execution, Job, Progress
from taskbell.core.task import Status
from taskbell.engine import Engine, ExecutionKey, HistoryFilter, Progression, Tick
from taskbell.testing.engine_job_samples import (
    FIRST,
    JOB,
    OTHER_JOB,
    add_job,
    advance,
    closed,
    ended,
    failed,
    fired,
    history,
    record,
    step,
    walked,
)
from taskbell.testing.engine_samples import START, refused

STATUS = Status(14, "UNAVAILABLE(14): HTTP status code 503")


def _forced(job: Job, instant: int = START) -> Execution:
    return fired(job, instant, disposition=Disposition.FORCED)


class Ticking:
    """`tick`."""

    async def test_a_step_inserts_its_rows_and_moves_the_job(self, engine: Engine) -> None:
        """Each field of a row, whatever became of the instant; of this job alone."""
        job, other = await add_job(engine), await add_job(engine, OTHER_JOB)
        full = Execution(
            job.id,
            JOB,
            FIRST,
            Disposition.LATE,
            Progress.OPEN,
            FIRST - SECOND,
            FIRST + 1,
            FIRST + 2,
            FIRST + 3,
            4,
            3,
            FIRST + 5,
            503,
            Status(14, "ü"),
            "A\x00reason.",
        )
        rows = [
            full,
            closed(job, FIRST - MINUTE),
            closed(job, FIRST - 2 * MINUTE, Disposition.SKIPPED_PAUSED),
            closed(job, FIRST - 3 * MINUTE, Disposition.SKIPPED_OVERLAP),
        ]
        await advance(engine, step(job, *rows))

        assert await history(engine) == rows
        assert await engine.open_executions() == [full]
        assert await engine.job(JOB) == replace(job, next_time=FIRST + MINUTE)
        assert await engine.job(OTHER_JOB) == other
        for row in rows:
            assert await engine.execution(JOB, row.instant, is_forced=False) == row

    async def test_a_step_may_have_no_rows_and_no_next_instant(self, engine: Engine) -> None:
        """A job that waits for its run to end is moved on from None as from any instant."""
        job = await add_job(engine)
        await advance(engine, step(job, wait=None))
        waiting = await engine.job(JOB)
        assert waiting == replace(job, next_time=None)
        await advance(engine, Tick(waiting, (), FIRST))

        assert await engine.job(JOB) == job
        assert await engine.tick([Tick(waiting, (), FIRST + MINUTE)]) == [False]
        assert await engine.tick([]) == []

    async def test_a_step_applies_only_to_the_job_that_it_knows(self, engine: Engine) -> None:
        """Not to another id, another revision, or a job that waits for another instant or for none."""
        job = await add_job(engine)
        strangers = [
            replace(job, id=job.id + 1),
            replace(job, revision=1),
            replace(job, next_time=FIRST - 1),
            replace(job, next_time=None),
        ]
        steps = [Tick(stranger, (fired(stranger, FIRST),), FIRST + MINUTE) for stranger in strangers]

        assert await engine.tick(steps) == [False] * 4
        assert await engine.all_jobs() == [job]
        assert await history(engine) == await engine.open_executions() == []

    async def test_one_instant_goes_in_once(self, engine: Engine) -> None:
        """Whoever asks again: the same step, or one whose job has come back to the instant."""
        job = await add_job(engine)
        answers = await asyncio.gather(*(engine.tick([step(job), step(job)]) for _ in range(3)))
        assert answers == [[True, False], [False, False], [False, False]]

        await record(engine, ended(fired(job)))
        back = await engine.update_job(JOB, lambda stored: (replace(stored, revision=1, next_time=FIRST), ()))
        assert await engine.tick([step(back)]) == [False]
        assert await engine.job(JOB) == back
        assert await history(engine) == [ended(fired(job))]

    async def test_a_step_is_whole_or_not_at_all(self, engine: Engine) -> None:
        """One row of many that stands already holds back the others and the job; steps of other jobs apply."""
        job, other = await add_job(engine), await add_job(engine, OTHER_JOB)
        await advance(engine, step(job))
        moved = await engine.job(JOB)
        rows = [closed(moved, FIRST + MINUTE), fired(moved, FIRST), closed(moved, FIRST + SECOND)]

        assert await engine.tick([step(moved, *rows), step(other)]) == [False, True]
        assert await history(engine) == [fired(job)]
        assert await engine.job(JOB) == moved
        assert await history(engine, OTHER_JOB) == [fired(other)]

    async def test_a_step_cannot_say_one_instant_twice(self, engine: Engine) -> None:
        """It would be two rows of one key."""
        job = await add_job(engine)

        assert await engine.tick([step(job, fired(job), closed(job, FIRST))]) == [False]
        assert await engine.all_jobs() == [job]
        assert await history(engine) == []

    async def test_an_instant_that_an_edit_dropped_may_come_back(self, engine: Engine) -> None:
        """By another edit: the new row takes the dropped one's place."""
        job = await add_job(engine)
        dropped = closed(job, FIRST, Disposition.SUPERSEDED)
        await engine.update_job(JOB, lambda stored: (stored, [dropped]))
        await advance(engine, step(job))

        assert await history(engine) == await engine.open_executions() == [fired(job)]

    async def test_a_forced_run_does_not_take_an_instants_place(self, engine: Engine) -> None:
        """They are keys of their own."""
        job = await add_job(engine)
        assert await engine.force(_forced(job, FIRST))
        await advance(engine, step(job))

        assert await history(engine) == [_forced(job, FIRST), fired(job)]

    async def test_thousands_go_in_together(self, engine: Engine) -> None:
        """All on one minute, some refused, in one call and in many; then all of their ends."""
        jobs = [await add_job(engine, f"{JOB}{number}") for number in range(300)]
        stale = [replace(job, revision=1) if job.id % 7 == 0 else job for job in jobs]
        one, *many = [step(job) for job in stale[:50]], *([step(job)] for job in stale[50:])
        answers = await asyncio.gather(*(engine.tick(ticks) for ticks in (one, *many)))
        expected = [job.id % 7 != 0 for job in jobs]

        assert [answer for answers_of_one in answers for answer in answers_of_one] == expected
        went = [fired(job) for job, answer in zip(jobs, expected, strict=True) if answer]
        found = await engine.open_executions()
        assert sorted(found, key=lambda execution: execution.job_id) == went
        ends = [Progression(ended(fired(job))) for job in jobs]
        assert await engine.progress(ends) == expected
        assert await engine.open_executions() == []


class Forcing:
    """`force`."""

    async def test_a_forced_run_stands_beside_the_schedule(self, engine: Engine) -> None:
        """The job reads as not attempted, and its next instant stays."""
        job = await add_job(engine, status=STATUS, last_attempt_time=START)

        assert await engine.force(_forced(job))
        assert await history(engine) == await engine.open_executions() == [_forced(job)]
        assert await engine.job(JOB) == replace(job, status=None)
        assert await engine.execution(JOB, START, is_forced=True) == _forced(job)
        assert (await refused(engine.execution(JOB, START, is_forced=False)))[1] == REQUESTED_ENTITY_NOT_FOUND

    async def test_a_key_is_taken_once(self, engine: Engine) -> None:
        """The second caller is told, and nothing changes."""
        job = await add_job(engine)
        answers = await asyncio.gather(*(engine.force(_forced(job, START + number % 2)) for number in range(4)))
        assert answers == [True, True, False, False]
        await record(engine, failed(_forced(job)))

        assert not await engine.force(_forced(job))
        assert (await engine.job(JOB)).status == STATUS
        assert await engine.execution(JOB, START, is_forced=True) == failed(_forced(job))

    async def test_a_missing_job_is_not_forced(self, engine: Engine) -> None:
        """By its id, whoever has its name now."""
        job = await add_job(engine)

        assert not await engine.force(replace(_forced(job), job_id=job.id + 1))
        assert await engine.open_executions() == []


class Progressing:
    """`progress`."""

    async def test_an_attempt_replaces_the_row_and_the_jobs_status(self, engine: Engine) -> None:
        """Failures and the end, each field of them; the job's next instant stays."""
        job = await add_job(engine)
        await advance(engine, step(job))
        execution = fired(job)
        for attempt in (
            failed(execution),
            replace(failed(failed(execution)), header_time=1, start_time=2, disposition=Disposition.LATE, reason="r"),
            ended(failed(failed(execution)), progress=Progress.FAILED, response=None, status=Status(4, "ü")),
        ):
            await record(engine, attempt)
            assert await history(engine) == [attempt]
            assert await engine.open_executions() == ([attempt] if attempt.is_open else [])
            assert await engine.job(JOB) == replace(
                job,
                next_time=FIRST + MINUTE,
                last_attempt_time=attempt.last_attempt_time,
                status=attempt.status,
            )

    async def test_a_late_answer_changes_nothing(self, engine: Engine) -> None:
        """Of an attempt that is recorded already, or of an execution that is closed or was never there."""
        job = await add_job(engine)
        await advance(engine, step(job))
        twice = failed(failed(fired(job)))
        await record(engine, twice)
        late = [
            Progression(ended(fired(job))),
            Progression(twice),
            Progression(ended(twice, attempts=2)),
            Progression(ended(fired(job, FIRST + 1))),
            Progression(ended(_forced(job, FIRST), attempts=9)),
        ]
        assert await engine.progress(late) == [False] * 5
        assert await history(engine) == [twice]

        await record(engine, ended(twice))
        assert await engine.progress([Progression(ended(twice, attempts=9), FIRST)]) == [False]
        assert (await engine.job(JOB)).status == Status(0, "")
        assert await engine.progress([]) == []

    async def test_a_run_may_be_cancelled_without_another_attempt(self, engine: Engine) -> None:
        """But not behind the back of one that was recorded meanwhile, and once; the status stays the attempt's."""
        job = await add_job(engine)
        await advance(engine, step(job))
        waits = failed(fired(job))
        await record(engine, waits)
        cancelled = replace(waits, progress=Progress.CANCELLED, end_time=FIRST + 9, retry_time=None, reason="Paused.")

        assert await engine.progress([Progression(replace(cancelled, attempts=0))]) == [False]
        assert await engine.progress([Progression(cancelled), Progression(cancelled)]) == [True, False]
        assert await history(engine) == [cancelled]
        assert await engine.open_executions() == []
        stored = await engine.job(JOB)
        assert (stored.status, stored.last_attempt_time) == (STATUS, waits.last_attempt_time)

    async def test_a_run_that_was_never_attempted_leaves_the_jobs_status(self, engine: Engine) -> None:
        """It has nothing to tell of an attempt; a job that waits for its end is told its next instant all the same."""
        job = await add_job(engine, status=STATUS, last_attempt_time=START)
        await advance(engine, step(job, wait=None))
        cancelled = replace(fired(job), progress=Progress.CANCELLED, end_time=FIRST + 9)

        assert await engine.progress([Progression(cancelled, FIRST + HOUR)]) == [True]
        assert await history(engine) == [cancelled]
        assert await engine.job(JOB) == replace(job, next_time=FIRST + HOUR)

    async def test_of_answers_to_one_attempt_the_first_counts(self, engine: Engine) -> None:
        """Asked in one call, and in calls at once."""
        job = await add_job(engine)
        await advance(engine, step(job))
        first, second = ended(fired(job)), failed(fired(job))
        answers = await asyncio.gather(
            engine.progress([Progression(first), Progression(second)]), engine.progress([Progression(second)])
        )

        assert list(answers) == [[True, False], [False]]
        assert await history(engine) == [first]

    async def test_two_executions_of_one_job_end_at_once(self, engine: Engine) -> None:
        """A forced run beside a scheduled one; the later answer is the job's status."""
        job = await add_job(engine)
        await advance(engine, step(job))
        await engine.force(_forced(job))
        await record(engine, failed(fired(job)), ended(_forced(job)))

        assert await history(engine) == [failed(fired(job)), ended(_forced(job))]
        assert (await engine.job(JOB)).status == Status(0, "")

    async def test_the_end_of_a_run_sets_the_job_that_waits_for_it(self, engine: Engine) -> None:
        """And no other; a second end comes too late."""
        job, other = await add_job(engine), await add_job(engine, OTHER_JOB)
        await advance(engine, step(job, wait=None), step(other))
        await engine.force(_forced(job))
        ends = [
            Progression(ended(fired(job)), FIRST + HOUR),
            Progression(ended(fired(other)), FIRST + HOUR),
            Progression(ended(_forced(job)), FIRST + 2 * HOUR),
        ]

        assert await engine.progress(ends) == [True] * 3
        assert (await engine.job(JOB)).next_time == FIRST + HOUR
        assert (await engine.job(OTHER_JOB)).next_time == FIRST + MINUTE

    async def test_a_job_goes_on_waiting_while_its_run_does(self, engine: Engine) -> None:
        """A failed attempt names no next instant."""
        job = await add_job(engine)
        await advance(engine, step(job, wait=None))
        await record(engine, failed(fired(job)))

        assert (await engine.job(JOB)).next_time is None

    async def test_all_of_a_run_may_be_asked_for_at_once(self, engine: Engine) -> None:
        """Each verb sees those before it, whatever group they are committed in."""
        job = await add_job(engine)
        moved = replace(job, next_time=FIRST + MINUTE)
        answers = await asyncio.gather(
            engine.tick([step(job)]),
            engine.progress([Progression(failed(fired(job)))]),
            engine.tick([step(moved)]),
            engine.progress([Progression(ended(failed(fired(job)))), Progression(ended(fired(moved)))]),
            engine.force(_forced(job)),
            engine.progress([Progression(failed(_forced(job)))]),
            engine.delete_job(JOB, START),
            engine.progress([Progression(ended(failed(_forced(job))))]),
        )

        assert answers[:6] == [[True], [True], [True], [True, True], True, [True]]
        assert answers[6] == replace(moved, next_time=FIRST + 2 * MINUTE, last_attempt_time=START + 7, status=STATUS)
        assert answers[7] == [False]


class ReadingHistories:
    """`executions`, `execution`."""

    async def test_a_history_is_read_newest_first_in_pages(self, engine: Engine) -> None:
        """Forced runs stand before the scheduled one of their instant; each row comes once."""
        job = await add_job(engine)
        other = await add_job(engine, OTHER_JOB)
        rows = [closed(job, FIRST - number * SECOND) for number in range(7)]
        await advance(engine, step(job, *reversed(rows)), step(other))
        await engine.force(_forced(job, FIRST))
        await engine.force(_forced(job, FIRST - 3 * SECOND))
        expected = [_forced(job, FIRST), *rows[:3], _forced(job, FIRST - 3 * SECOND), *rows[3:]]

        for size in (1, 2, 3, 9, 100):
            assert await walked(engine, JOB, size) == expected
        assert await engine.executions(JOB, ExecutionKey(FIRST - 3 * SECOND, is_forced=True), 1, HistoryFilter()) == [
            rows[3]
        ]

    @pytest.mark.parametrize("size", [1, 2, 100])
    async def test_a_history_is_filtered(self, engine: Engine, size: int) -> None:
        """By what became of the instants, and by time: from `since` on, before `until`."""
        job = await add_job(engine)
        kinds = [Disposition.MISSED, Disposition.SKIPPED_OVERLAP, Disposition.SUPERSEDED]
        rows = [closed(job, FIRST - number, kinds[number % 3]) for number in range(9)]
        await advance(engine, step(job, *rows))
        await engine.force(_forced(job, FIRST - 4))

        async def found(*among: Disposition, since: int = FIRST - DAY, until: int = FIRST + DAY) -> list[Execution]:
            return await walked(engine, JOB, size, HistoryFilter(frozenset(among), since, until))

        assert await found(Disposition.MISSED) == rows[::3]
        assert await found(*kinds) == rows
        assert await found(Disposition.FIRED) == []
        assert await found(Disposition.FORCED) == [_forced(job, FIRST - 4)]
        assert await found(*kinds, since=FIRST - 5, until=FIRST - 2) == rows[3:6]
        assert await found(since=FIRST - 4, until=FIRST - 3) == [_forced(job, FIRST - 4), rows[4]]
        assert await found(since=FIRST, until=FIRST) == []

    async def test_a_missing_row_is_not_found(self, engine: Engine) -> None:
        """Neither of another instant nor of another kind."""
        job = await add_job(engine)
        await advance(engine, step(job))
        missing = ("NOT_FOUND", REQUESTED_ENTITY_NOT_FOUND)

        assert await refused(engine.execution(JOB, FIRST + 1, is_forced=False)) == missing
        assert await refused(engine.execution(JOB, FIRST, is_forced=True)) == missing


class SweepingHistories:
    """`sweep_executions`."""

    async def test_old_closed_rows_go(self, engine: Engine) -> None:
        """Those before the instant, oldest first, few at a time; open ones stay whatever their age."""
        job, other = await add_job(engine), await add_job(engine, OTHER_JOB)
        rows = [closed(job, FIRST + number) for number in range(6)]
        await advance(engine, step(job, fired(job, FIRST - 1), *rows), step(other))
        await record(engine, ended(fired(other)))

        assert await engine.sweep_executions(FIRST - 1, 10) == 0
        assert await engine.sweep_executions(FIRST + 4, 2) == 2
        assert await engine.sweep_executions(FIRST + 4, 2) == 2
        assert await engine.sweep_executions(FIRST + 4, 2) == 1
        assert await engine.sweep_executions(FIRST + 4, 2) == 0
        assert await history(engine) == [rows[5], rows[4], fired(job, FIRST - 1)]
        assert await history(engine, OTHER_JOB) == []
        assert await engine.all_jobs() == [
            replace(job, next_time=FIRST + MINUTE),
            await engine.job(OTHER_JOB),
        ]

    async def test_a_row_may_go_as_soon_as_it_is_closed(self, engine: Engine) -> None:
        """By its end, or by its job's edit."""
        job = await add_job(engine)
        await advance(engine, step(job))
        await record(engine, failed(fired(job)))
        assert await engine.sweep_executions(FIRST + DAY, 10) == 0
        await engine.update_job(JOB, lambda stored: (replace(stored, revision=1), ()))

        assert await engine.sweep_executions(FIRST + DAY, 10) == 1
        assert await history(engine) == []

    async def test_histories_of_deleted_jobs_go_whatever_their_age(self, engine: Engine) -> None:
        """Few at a time; other jobs, and later ones of the name, keep theirs."""
        for round_ in range(3):
            job = await add_job(engine)
            await advance(engine, step(job, fired(job), *(closed(job, FIRST - number) for number in range(1, 5))))
            if round_ < 2:
                await engine.delete_job(JOB, START)
        await add_job(engine, OTHER_JOB)
        await engine.delete_job(OTHER_JOB, START)

        assert [await engine.sweep_executions(START, 4) for _ in range(5)] == [4, 4, 2, 0, 0]
        assert len(await history(engine)) == 5
        assert len(await engine.open_executions()) == 1

    async def test_it_may_run_beside_everything_else(self, engine: Engine) -> None:
        """Ticks, ends and edits of the same moment are neither lost nor disturbed."""
        jobs = [await add_job(engine, f"{JOB}{number}") for number in range(20)]
        calls = [
            call
            for job in jobs
            for call in (
                engine.tick([step(job)]),
                engine.sweep_executions(FIRST + DAY, 3),
                engine.progress([Progression(ended(fired(job)))]),
            )
        ]
        answers = await asyncio.gather(*calls)

        assert answers[::3] == answers[2::3] == [[True]] * 20
        swept = [answer for answer in answers[1::3] if isinstance(answer, int)]
        assert sum(swept) + await engine.sweep_executions(FIRST + DAY, 100) == 20

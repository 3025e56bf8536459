"""Jobs on a node that is killed again and again: one execution for each instant, a row for each, and pauses hold.

The seed of a run is in its name; `TASKBELL_CRASH_SEED=N` repeats its choices, `TASKBELL_CRASH_ROUNDS=N` kills more
often.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from taskbell.core.execution import execution_key
from taskbell.core.instant import rfc3339
from taskbell.core.job import STARTED, Disposition, Execution
from taskbell.core.schedule import parse_schedule
from taskbell.engine import HistoryFilter
from taskbell.engines import open_engine
from tests.crash.fast_node import JOBS, job_name
from tests.support.receiver import Received, Receiver
from tests.support.rest import RestClient
from tests.support.server import ServerProcess

ROUNDS = int(os.environ.get("TASKBELL_CRASH_ROUNDS", "8"))
SEED = int(os.environ.get("TASKBELL_CRASH_SEED", random.SystemRandom().randrange(2**32)))
ROOT = Path(__file__).resolve().parents[2]
IN_FLIGHT = 0.3
"""Seconds. What was sent before a pause was acknowledged has arrived by then."""

pytestmark = pytest.mark.timeout(180)


def play(store: Path, receiver: Receiver, rng: random.Random) -> dict[int, float]:
    """Life after life; the last one ends in good order. Returns which job was paused when."""
    for number in range(0, JOBS, 3):
        receiver.script(f"/{number}", 500, 200, 500, 500, 200, 200, 500, 500, 500, 200)
    epoch = time.time()
    paused: dict[int, float] = {}
    for life in range(ROUNDS + 1):
        command = [sys.executable, "-m", "tests.crash.fast_node", str(store), receiver.url, str(epoch), str(life)]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as node:
            assert node.stdout is not None
            assert node.stdout.readline() == "ready\n"
            if life:
                word, paused_number, instant = node.stdout.readline().split()
                assert word == "paused"
                paused[int(paused_number)] = float(instant)
            if life == ROUNDS:
                time_passes(2)
                node.communicate(timeout=30)
            else:
                time_passes(rng.uniform(0.05, 1.2))
                node.kill()
    return paused


def time_passes(seconds: float) -> None:
    """Let the node, which is another process on a clock of its own, live on."""
    threading.Event().wait(seconds)


async def histories(store: Path) -> dict[int, list[Execution]]:
    """All rows of each job, oldest first; nothing may be open but what the end has parked."""
    engine = await open_engine(f"sqlite:{store}")
    try:
        assert all(each.retry_time is not None for each in await engine.open_executions())
        found = {}
        for number in range(JOBS):
            rows = await engine.executions(job_name(number), None, 100_000, HistoryFilter())
            found[number] = rows[::-1]
            job = await engine.job(job_name(number))
            schedule = parse_schedule(job.schedule, job.time_zone)
            instants = [row.instant for row in rows[::-1]]
            assert len(instants) > 3
            if schedule.interval is None:
                # No instant is missing, and the next one is the one that the job waits for.
                following = [schedule.next_after(instant) for instant in instants]
                assert following == [*instants[1:], job.next_time], job.name
        return found
    finally:
        await engine.close()


async def test_one_execution_for_each_instant_whatever_dies(tmp_path: Path) -> None:
    """Requests without a row there are none; repeated ones carry the key and the time of their execution."""
    print(f"TASKBELL_CRASH_SEED={SEED}")  # noqa: T201 - to repeat a run
    store = tmp_path / "store.db"
    with Receiver() as receiver:
        paused = play(store, receiver, random.Random(SEED))
        requests = {number: receiver.requests(f"/{number}") for number in range(JOBS)}
    rows = await histories(store)

    fates: Counter[Disposition] = Counter()
    for number in range(JOBS):
        by_key: dict[str | None, list[Received]] = defaultdict(list)
        for request in requests[number]:
            by_key[request.header("Idempotency-Key")].append(request)
        started = {execution_key(row): row for row in rows[number] if row.disposition in STARTED}
        assert set(by_key) <= set(started)
        for key, row in started.items():
            assert len(by_key[key]) >= row.attempts
            times = {request.header("X-CloudScheduler-ScheduleTime") for request in by_key[key]}
            assert times <= {rfc3339(row.instant) if row.header_time is not None else None}
        fates.update(row.disposition for row in rows[number])
        if number in paused:
            late = [each for each in requests[number] if each.arrival_time > paused[number] + IN_FLIGHT]
            assert late == []
            assert rows[number][-1].disposition is Disposition.SKIPPED_PAUSED
    assert fates[Disposition.FIRED] > JOBS
    assert fates[Disposition.SKIPPED_PAUSED] > 0


def test_a_forced_run_that_was_acknowledged_is_made_after_a_crash(tmp_path: Path) -> None:
    """Under the key that it had before, while its retry was waited for."""
    parent = "projects/p/locations/us-central1"
    with Receiver() as receiver, ServerProcess(tmp_path) as server:
        receiver.script("/w", 500, 200)
        with RestClient(server.address) as client:
            client.expect(
                "POST",
                f"/v1/{parent}/jobs",
                {
                    "name": f"{parent}/jobs/j",
                    "schedule": "0 0 1 1 *",
                    "httpTarget": {"uri": f"{receiver.url}/w"},
                    "retryConfig": {"retryCount": 1, "minBackoffDuration": "2s"},
                },
            )
            client.expect("POST", f"/v1/{parent}/jobs/j:run", {})
        receiver.wait("/w", 1)
        time_passes(0.3)
        server.kill()
        server.start()
        first, second = receiver.wait("/w", 2)
        with RestClient(server.address) as client:
            history = client.expect("GET", f"/taskbell/v1/{parent}/jobs/j/executions")

    assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
    assert first.header("X-CloudScheduler-ScheduleTime") == second.header("X-CloudScheduler-ScheduleTime")
    assert [each["outcome"] for each in history["executions"]] == ["forced"]

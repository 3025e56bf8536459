"""Bad handlers beside a good one: every attempt ends by its deadline, nobody else waits, memory stays flat.

The server is the whole program; the deadline is 15 s, the least that the API takes, and all cases share one play.
"""

from __future__ import annotations

import pytest

from tests.server.hostile import BACKOFF, CASES, DEADLINE, MAX_BACKOFF, Case, Facts, play, queue_of, seconds
from tests.support.process import MEBIBYTE
from tests.support.server import ServerProcess

LATE_MAX = 1.0
GROWTH_MAX = 48 * MEBIBYTE

SLOW = [case for case in CASES if case.is_slow]
FAILING = [case for case in CASES if case.codes]


@pytest.fixture(scope="module")
def log() -> list[str]:
    """The lines that the server printed, filled when the play is over."""
    return []


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory, log: list[str]) -> Facts:
    """The play's facts."""
    with ServerProcess(tmp_path_factory.mktemp("hostile"), "--log-format", "json") as server:
        seen = play(server)
        assert server.terminate() == 0
        log.extend(server.log_path.read_text().splitlines())
    return seen


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.name)
def test_the_attempt_ends_as_what_it_was(facts: Facts, case: Case) -> None:
    """With its status, by its deadline, and retried after the backoff."""
    task = facts.first[queue_of(case)]
    assert task is not None
    attempt = task["lastAttempt"]
    status = attempt["responseStatus"]
    wait = MAX_BACKOFF if case.name == "huge Retry-After" else BACKOFF
    duration = seconds(task["scheduleTime"]) - wait - seconds(attempt["dispatchTime"])

    assert task["dispatchCount"] == 1
    assert status["code"] in case.codes
    assert status["message"].endswith(f"HTTP status code {case.http_status}")
    assert ("responseTime" in attempt) == bool(case.http_status)
    if case.is_slow:
        assert DEADLINE - 0.01 <= duration < DEADLINE + LATE_MAX
    else:
        assert 0 <= duration < DEADLINE + LATE_MAX


@pytest.mark.parametrize("case", SLOW, ids=lambda case: case.name)
def test_the_next_task_of_the_queue_is_on_time(facts: Facts, case: Case) -> None:
    """The only slot of the queue is free at the deadline, and the next task takes it at once."""
    first, second = facts.first[queue_of(case)], facts.second[queue_of(case)]
    assert first is not None
    assert second is not None
    end = seconds(first["scheduleTime"]) - BACKOFF

    assert 0 <= seconds(second["lastAttempt"]["dispatchTime"]) - end < LATE_MAX


@pytest.mark.parametrize("case", [case for case in SLOW if case.answer is not None], ids=lambda case: case.name)
def test_the_connection_is_closed_at_the_deadline(facts: Facts, case: Case) -> None:
    """As the handler sees it."""
    open_seconds = facts.ended[queue_of(case)][0]

    # A handler that drips sees the close when it writes the next byte but one.
    assert DEADLINE - 0.5 < open_seconds < DEADLINE + LATE_MAX + 1.8


def test_a_connection_that_nobody_accepted_is_closed(facts: Facts) -> None:
    """It holds the request and then ends."""
    assert facts.unaccepted.startswith(b"POST /x HTTP/1.1\r\n")


def test_an_endless_body_after_200_is_a_success(facts: Facts) -> None:
    """The status was complete; only a small part of the body is read."""
    (case,) = (case for case in CASES if case.name == "body for ever")

    assert facts.first[queue_of(case)] is None
    assert facts.second[queue_of(case)] is None
    assert max(facts.ended[queue_of(case)]) < DEADLINE / 2


def test_a_quick_end_frees_the_queue(facts: Facts) -> None:
    """Where the first attempt ended early, the second task has been attempted too."""
    quick = [case for case in FAILING if not case.is_slow]
    counts = {case.name: (facts.second[queue_of(case)] or {}).get("dispatchCount", 0) for case in quick}

    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_redirects_are_not_followed(facts: Facts) -> None:
    """Their status is the outcome."""
    assert facts.redirected == 0


def test_other_queues_are_on_time(facts: Facts) -> None:
    """Every task of the good queue came once, less than a second late, and never early."""
    lateness = {}
    for request in facts.good:
        name = request.header("X-CloudTasks-TaskName")
        assert name is not None
        assert name not in lateness
        lateness[name] = request.arrival_time / 1_000_000 - facts.good_due[name]
    ordered = sorted(lateness.values())
    print(f"late by p50 {ordered[len(ordered) // 2] * 1000:.1f} ms, worst {ordered[-1] * 1000:.1f} ms")  # noqa: T201

    assert set(lateness) == set(facts.good_due)
    assert ordered[0] >= 0
    assert ordered[-1] < LATE_MAX


def test_memory_is_flat(facts: Facts) -> None:
    """Neither endless answers nor stalled megabytes make the server grow."""
    before, *during = facts.resident
    growth = max(during) - before
    print(f"{before / MEBIBYTE:.0f} MiB before, at most {growth / MEBIBYTE:.1f} MiB more")  # noqa: T201

    assert growth < GROWTH_MAX


def test_the_log_tells_each_failure_in_one_line(facts: Facts, log: list[str]) -> None:
    """And nothing went wrong in the server itself."""
    assert facts.first
    assert [line for line in log if "Traceback" in line or '"level": "error"' in line] == []
    failed = [line for line in log if '"attempt.finished"' in line]
    for case in FAILING:
        lines = [line for line in failed if f"/queues/{queue_of(case)}/tasks/t0" in line]
        assert len(lines) == 1, case.name

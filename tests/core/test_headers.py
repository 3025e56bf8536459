"""The exact headers of an attempt (wire.md section 5.4), and which of the caller's survive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.attempt import after_failure, dispatched
from taskbell.core.headers import (
    dispatch_headers,
    headers_size,
    idempotency_key,
    is_reserved,
    stored_app_engine_headers,
    stored_http_headers,
)
from taskbell.core.instant import SECOND
from taskbell.core.outcome import Failure, Outcome
from taskbell.core.queue import RetryConfig
from taskbell.core.target import AppEngineTarget, Headers, HttpTarget, Target
from taskbell.core.task import Task

QUEUE = "projects/p/locations/l/queues/mail"
NOW = 1_758_700_000 * SECOND + 123_456
ANSWERS = [503, 404, 429, 500, 302, 200]
CONFIG = RetryConfig(min_backoff=2 * SECOND, max_backoff=2 * SECOND)
TIMEOUT = Outcome(failure=Failure.TIMEOUT)


def make_task(target: Target, *, task_id: str = "welcome", number: int = 7) -> Task:
    """A task that is due now and has not been attempted."""
    return Task(number, QUEUE, task_id, named=True, target=target, schedule_time=NOW, create_time=NOW)


def http_task(headers: Headers = (), body: bytes = b"") -> Task:
    """An HTTP task as it is stored."""
    return make_task(HttpTarget("http://h/", headers=stored_http_headers(headers), body=body))


def app_engine_task(headers: Headers = (), body: bytes = b"") -> Task:
    """An App Engine task as it is stored."""
    return make_task(AppEngineTarget(headers=stored_app_engine_headers(headers, body), body=body))


def sent(task: Task, bearer: str | None = None) -> Headers:
    """The headers of an attempt that is out."""
    return dispatch_headers(task, task.target.headers, bearer)


def attempts(task: Task, outcomes: list[Outcome]) -> list[dict[str, str]]:
    """The headers of one attempt after another, each header at most once."""
    seen = []
    now = NOW
    for outcome in outcomes:
        out = dispatched(task, now)
        pairs = sent(out)
        assert len({name.lower() for name, _ in pairs}) == len(pairs)
        seen.append(dict(pairs))
        now += SECOND
        retry = after_failure(out, outcome, CONFIG, now)
        assert retry is not None
        task, now = retry, retry.schedule_time
    return seen


def statuses(*numbers: int) -> list[Outcome]:
    """Answers with these statuses."""
    return [Outcome(status=number) for number in numbers]


def test_the_first_attempt_of_an_http_task_carries_exactly_this() -> None:
    """Neither PreviousResponse nor RetryReason; the caller's headers first."""
    task = http_task((("content-type", "application/json"), ("X-Mixed-Case", "keep")), b"{}")

    assert dict(sent(dispatched(task, NOW))) == {
        "content-type": "application/json",
        "X-Mixed-Case": "keep",
        "User-Agent": "Google-Cloud-Tasks",
        "X-CloudTasks-QueueName": "mail",
        "X-CloudTasks-TaskName": "welcome",
        "X-CloudTasks-TaskRetryCount": "0",
        "X-CloudTasks-TaskExecutionCount": "0",
        "X-CloudTasks-TaskETA": "1758700000.123456",
        "Idempotency-Key": idempotency_key(task),
    }


def test_the_first_attempt_of_an_app_engine_task_carries_exactly_this() -> None:
    """No X-CloudTasks header; the length is the sender's to say."""
    task = app_engine_task((), b"{}")

    assert dict(sent(dispatched(task, NOW))) == {
        "User-Agent": "AppEngine-Google; (+http://code.google.com/appengine)",
        "Content-Type": "application/octet-stream",
        "X-AppEngine-QueueName": "mail",
        "X-AppEngine-TaskName": "welcome",
        "X-AppEngine-TaskRetryCount": "0",
        "X-AppEngine-TaskExecutionCount": "0",
        "X-AppEngine-TaskETA": "1758700000.123456",
        "Idempotency-Key": idempotency_key(task),
    }


HTTP_ROWS = {
    "X-CloudTasks-TaskRetryCount": ["0", "1", "2", "3", "4", "5"],
    "X-CloudTasks-TaskExecutionCount": ["0", "0", "1", "2", "2", "3"],
    "X-CloudTasks-TaskPreviousResponse": [None, "503", "404", "429", "500", "302"],
    "X-CloudTasks-TaskRetryReason": [None, "", "", "", "", ""],
}
APP_ENGINE_ROWS = {
    "X-AppEngine-TaskRetryCount": ["0", "1", "2", "3", "4", "5"],
    "X-AppEngine-TaskExecutionCount": ["0", "1", "2", "3", "4", "5"],
    "X-AppEngine-TaskPreviousResponse": [None, "503", "404", "429", "500", "302"],
    "X-AppEngine-TaskRetryReason": [None, *["App Error"] * 5],
}


@pytest.mark.parametrize("name", HTTP_ROWS)
def test_r01_http_retries_carry_the_recorded_sequence(name: str) -> None:
    """503, 404, 429, 500, 302, 200 as recorded on the real service: 5xx answers raise no ExecutionCount."""
    rows = attempts(http_task(), statuses(503, 404, 429, 500, 302, 500))

    assert [row.get(name) for row in rows] == HTTP_ROWS[name]


@pytest.mark.parametrize("name", APP_ENGINE_ROWS)
def test_r01_app_engine_retries_carry_the_recorded_sequence(name: str) -> None:
    """Every answer raises App Engine's ExecutionCount."""
    rows = attempts(app_engine_task(), statuses(503, 404, 429, 500, 302, 500))

    assert [row.get(name) for row in rows] == APP_ENGINE_ROWS[name]


def test_r01_after_a_timeout_an_http_task_says_504_and_counts_no_execution() -> None:
    """The retry counter moves all the same."""
    last = attempts(http_task(), [TIMEOUT, TIMEOUT, TIMEOUT])[-1]

    assert last["X-CloudTasks-TaskRetryCount"] == "2"
    assert last["X-CloudTasks-TaskExecutionCount"] == "0"
    assert last["X-CloudTasks-TaskPreviousResponse"] == "504"
    assert last["X-CloudTasks-TaskRetryReason"] == ""


def test_r01_after_a_timeout_an_app_engine_task_says_0_and_instance_unavailable() -> None:
    """The number of the answer there was not."""
    last = attempts(app_engine_task(), [TIMEOUT, TIMEOUT, TIMEOUT])[-1]

    assert last["X-AppEngine-TaskRetryCount"] == "2"
    assert last["X-AppEngine-TaskExecutionCount"] == "0"
    assert last["X-AppEngine-TaskPreviousResponse"] == "0"
    assert last["X-AppEngine-TaskRetryReason"] == "Instance Unavailable"


@pytest.mark.parametrize("failure", list(Failure))
def test_r01_without_an_answer_the_next_attempt_has_both_optional_headers(failure: Failure) -> None:
    """A refused connection is a failed attempt like any other."""
    rows = attempts(http_task(), [Outcome(failure=failure), TIMEOUT])

    assert "X-CloudTasks-TaskPreviousResponse" not in rows[0]
    assert rows[1]["X-CloudTasks-TaskPreviousResponse"] == "504"
    assert rows[1]["X-CloudTasks-TaskRetryReason"] == ""


def test_s09_the_eta_is_the_schedule_time_of_this_attempt() -> None:
    """On a retry it is the retry's time: here one second of answering and two of backoff."""
    rows = attempts(http_task(), statuses(500, 500))

    assert [row["X-CloudTasks-TaskETA"] for row in rows] == ["1758700000.123456", "1758700003.123456"]


FORGED = ["Host", "Content-Length", "User-Agent", "X-CloudTasks-TaskName", "X-AppEngine-QueueName", "X-Google-Foo"]


@pytest.mark.parametrize("name", [*FORGED, *map(str.lower, FORGED), *map(str.upper, FORGED), "x-CLOUDtasks-any"])
def test_h09_headers_of_the_service_are_not_the_callers_to_set(name: str) -> None:
    """Whatever the case of their letters, the value never reaches the handler of an HTTP task."""
    task = http_task(((name, "forged"), ("X-Mine", "1")))

    assert is_reserved(name)
    assert dict(task.target.headers) == {"X-Mine": "1", "User-Agent": "Google-Cloud-Tasks"}
    assert "forged" not in {value for _, value in sent(dispatched(task, NOW))}


@pytest.mark.parametrize("name", ["X-Cloud-Tasks-TaskName", "X-AppEngineQueueName", "Hosts", "Accept", "XGoogle-A"])
def test_headers_that_only_look_like_the_services_are_kept(name: str) -> None:
    """The prefixes end in a hyphen."""
    assert not is_reserved(name)


@given(letters=st.lists(st.booleans(), min_size=22, max_size=22))
def test_h09_no_mix_of_upper_and_lower_case_gets_through(letters: list[bool]) -> None:
    """Header names are compared without regard to case."""
    name = "".join(c.upper() if up else c.lower() for c, up in zip("x-cloudtasks-queuename", letters, strict=True))

    assert is_reserved(name)


@pytest.mark.parametrize(
    ("headers", "body", "stored"),
    [
        ((), b"", {"User-Agent": "Google-Cloud-Tasks"}),
        ((), b"x" * 17, {"User-Agent": "Google-Cloud-Tasks"}),
        (
            (("content-type", "application/json"), ("X-Mixed-Case", "preserve-me")),
            b"x" * 17,
            {"content-type": "application/json", "X-Mixed-Case": "preserve-me", "User-Agent": "Google-Cloud-Tasks"},
        ),
        ((("user-agent", "mine/1"),), b"", {"User-Agent": "Google-Cloud-Tasks"}),
    ],
)
def test_a02_an_http_task_stores_its_headers_with_the_user_agent_alone_added(
    headers: Headers, body: bytes, stored: dict[str, str]
) -> None:
    """Keys stay verbatim, and no Content-Type appears."""
    assert dict(stored_http_headers(headers)) == stored


GAE = "AppEngine-Google; (+http://code.google.com/appengine)"


@pytest.mark.parametrize(
    ("headers", "body", "stored"),
    [
        ((), b"", {"User-Agent": GAE}),
        ((), b"x" * 17, {"User-Agent": GAE, "Content-Length": "17", "Content-Type": "application/octet-stream"}),
        (
            (("content-type", "application/json"), ("X-Mixed-Case", "preserve-me")),
            b"x" * 17,
            {
                "content-type": "application/json",
                "X-Mixed-Case": "preserve-me",
                "User-Agent": GAE,
                "Content-Length": "17",
            },
        ),
        ((("CONTENT-TYPE", "a/b"),), b"x", {"CONTENT-TYPE": "a/b", "User-Agent": GAE, "Content-Length": "1"}),
        ((("user-agent", "mine/1"),), b"", {"User-Agent": f"mine/1 {GAE}"}),
    ],
)
def test_a02_an_app_engine_task_stores_length_and_type_of_its_body(
    headers: Headers, body: bytes, stored: dict[str, str]
) -> None:
    """The type only where the caller gave none in any case; the caller's agent before the service's."""
    assert dict(stored_app_engine_headers(headers, body)) == stored


def test_a_token_replaces_the_callers_own_authorization() -> None:
    """One Authorization on the wire, whatever the case of the caller's."""
    task = dispatched(http_task((("authorization", "Basic mine"), ("AUTHORIZATION", "Basic other"))), NOW)

    values = [value for name, value in sent(task, "minted") if name.lower() == "authorization"]

    assert values == ["Bearer minted"]


def test_without_a_token_the_callers_authorization_goes_out() -> None:
    """It is a header like any other."""
    task = dispatched(http_task((("authorization", "Basic mine"),)), NOW)

    assert dict(sent(task))["authorization"] == "Basic mine"


def test_the_idempotency_key_is_one_for_all_attempts_of_a_task() -> None:
    """Stable over retries."""
    rows = attempts(http_task(), statuses(500, 404, 503))

    assert len({row["Idempotency-Key"] for row in rows}) == 1


def test_tasks_that_share_a_name_one_after_the_other_have_keys_of_their_own() -> None:
    """A name may be used again after its tombstone; the work is another."""
    first = make_task(HttpTarget("http://h/"), number=1)
    second = make_task(HttpTarget("http://h/"), number=2)

    assert idempotency_key(first) != idempotency_key(second)


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
def test_a_key_that_the_creator_chose_is_never_overwritten(name: str) -> None:
    """Not in any case of letters."""
    pairs = sent(dispatched(http_task(((name, "order-17"),)), NOW))

    assert [value for key, value in pairs if key.lower() == "idempotency-key"] == ["order-17"]


def test_the_size_of_headers_counts_bytes() -> None:
    """Names and values as UTF-8."""
    assert headers_size((("A", "bc"), ("Dé", ""))) == 3 + 3

"""The one scenario that every client of Google's plays, and what each step of it must show.

A driver (`gapic.py`, `discovery.py`, `node/scenario.mjs`, `go/main.go`) plays the steps below in this order against one
queue of its own project and reports, for each step, one JSON value: the fact. A queue, a task, a location, a policy and
a refusal have one shape each, whatever the client calls their fields, so that one table can judge all clients:

1.  create the queue, create it again, get it, list queues, update it through a mask, get a queue that is not there;
2.  create a named HTTP task in an hour, with headers and a body that is not text; create it again; get it BASIC and
    FULL; create one with a bad id; create three without names; list in pages of two; get a task that never was;
3.  run the named task now, watch it finish, and try its name again;
4.  deliver a task at once; deliver one to a handler that answers 503, 404, 200; delete one; delete one that never was;
5.  pause the queue, and while a due task is held: policies, locations, the encryption key; resume, and watch it go out;
6.  create a batch, create it again, delete it;
7.  purge and delete the queue, look for it, delete it again, create it again.

The handler is `tests.support.receiver`; `check_deliveries` judges what it saw.
"""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from tests.support.receiver import Received, Receiver

LOCATION = "us-central1"
# Every byte that a text encoding, a line reader or a JSON writer could spoil.
BODY = bytes(range(256)) + b'\r\n\r\n{"a": 1}'
KMS_KEY = "projects/keys/locations/us-central1/keyRings/ring/cryptoKeys/key"
NO_QUEUE = "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize."
NOT_FOUND = {"code": "NOT_FOUND", "message": "Requested entity was not found."}
FINISHED = {
    "code": "NOT_FOUND",
    "message": "The task no longer exists, though a task with this name existed recently. "
    "The task either successfully completed or was deleted.",
}
RETRIES = ("503", "404")


@dataclass(frozen=True, slots=True)
class Given:
    """What a driver needs to play the scenario; it travels to foreign drivers as JSON."""

    host: str
    port: int
    parent: str
    queue: str
    handler: str
    future_time: str
    body: str
    kms_key: str

    @property
    def queue_name(self) -> str:
        """The full name of the queue that the scenario plays in."""
        return f"{self.parent}/queues/{self.queue}"

    def task_name(self, task_id: str) -> str:
        """The full name of a task in that queue."""
        return f"{self.queue_name}/tasks/{task_id}"

    def as_json(self) -> str:
        """The form in which foreign drivers take it."""
        return json.dumps(asdict(self))


def given_for(client: str, host: str, port: int, handler: str) -> Given:
    """The scenario's givens for one client: a project of its own, so that its lists hold nothing else."""
    future = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=1)
    return Given(
        host=host,
        port=port,
        parent=f"projects/{client}/locations/{LOCATION}",
        queue="scenario",
        handler=f"{handler}/{client}",
        future_time=future.strftime("%Y-%m-%dT%H:%M:%SZ"),
        body=base64.b64encode(BODY).decode(),
        kms_key=KMS_KEY,
    )


class Like:
    """Equal to every text that a pattern matches whole; lets exact tables hold what only the server knows."""

    def __init__(self, pattern: str) -> None:
        """Take the pattern."""
        self._pattern = pattern

    def __eq__(self, other: object) -> bool:
        """Compare with a text."""
        return isinstance(other, str) and re.fullmatch(self._pattern, other) is not None

    def __hash__(self) -> int:
        """Hash as the pattern does."""
        return hash(self._pattern)

    def __repr__(self) -> str:
        """Show the pattern where a comparison fails."""
        return f"Like({self._pattern!r})"


class AnyTime:
    """Equal to every instant that is a plausible wall-clock time, in seconds."""

    def __eq__(self, other: object) -> bool:
        """Compare with a number of seconds since the Unix epoch."""
        return isinstance(other, int | float) and 1.7e9 < other < 1e10

    def __hash__(self) -> int:
        """All are alike."""
        return 0

    def __repr__(self) -> str:
        """Show as a call."""
        return "AnyTime()"


def _queue(given: Given, **changes: Any) -> dict[str, Any]:
    queue = {
        "name": given.queue_name,
        "state": "RUNNING",
        "rate": 500,
        "burst": 100,
        "concurrent": 1000,
        "attempts": 100,
        "min_backoff": 0.1,
        "max_backoff": 3600,
        "doublings": 16,
    }
    return queue | changes


def _task(given: Given, task_id: str, **changes: Any) -> dict[str, Any]:
    task = {
        "name": given.task_name(task_id),
        "method": "POST",
        "url": f"{given.handler}/{task_id}",
        "headers": {
            "Content-Type": "application/x-scenario",
            "X-Mixed-Case": "preserve-me",
            "User-Agent": "Google-Cloud-Tasks",
        },
        "body": "",
        "view": "BASIC",
        "deadline": 600,
        "schedule_time": AnyTime(),
        "dispatches": 0,
        "responses": 0,
    }
    return task | changes


def _refused(code: str, message: object) -> dict[str, object]:
    return {"code": code, "message": message}


def _region() -> Any:
    return {"name": Like(r"projects/[^/]+/locations/[a-z0-9-]+"), "id": LOCATION, "region": LOCATION}


def expected(given: Given) -> dict[str, Any]:
    """What each step must show. Lists whose order is the server's choice are compared by `check_step`."""
    named_at = dt.datetime.fromisoformat(given.future_time).timestamp()
    changed = _queue(given, rate=100, burst=20, attempts=5, max_backoff=1)
    policy = {"bindings": [{"role": "roles/cloudtasks.enqueuer", "members": ["user:ada@example.com"]}]}
    config = {"name": f"{given.parent}/cmekConfig", "kms_key": given.kms_key}
    generated = Like(re.escape(given.queue_name) + "/tasks/[A-Za-z0-9_-]{1,500}")
    return {
        "create_queue": _queue(given),
        "create_queue_again": _refused("ALREADY_EXISTS", "Queue already exists"),
        "get_queue": _queue(given),
        "list_queues": [given.queue_name],
        "update_queue": changed,
        "missing_queue": _refused("NOT_FOUND", NO_QUEUE),
        "create_task": _task(given, "named-1", schedule_time=named_at),
        "create_task_again": _refused("ALREADY_EXISTS", "Requested entity already exists"),
        "get_task_basic": _task(given, "named-1", schedule_time=named_at),
        "get_task_full": _task(given, "named-1", schedule_time=named_at, view="FULL", body=given.body),
        "bad_task_id": _refused(
            "INVALID_ARGUMENT",
            'Task ID "not a valid id" can contain only letters ([A-Za-z]), numbers ([0-9]), hyphens (-), or '
            "underscores (_). Task ID must between 1 and 500 characters.",
        ),
        "create_unnamed": [generated] * 3,
        "list_tasks": {"pages": [2, 2], "names": [generated] * 4},
        "missing_task": NOT_FOUND,
        "run_task": _task(given, "named-1", dispatches=1),
        "run_task_finished": FINISHED,
        "finished_name": _refused(
            "ALREADY_EXISTS", Like(r"The task cannot be created because a task with this name existed too recently\..*")
        ),
        "deliver_task": _task(given, "plain-1"),
        "deliver_task_finished": FINISHED,
        "flaky_task": _task(given, "flaky-1"),
        "flaky_task_finished": FINISHED,
        "delete_task": FINISHED,
        "delete_missing_task": NOT_FOUND,
        "pause_queue": changed | {"state": "PAUSED"},
        "held_task": _task(given, "held-1"),
        "get_iam_policy": {"bindings": []},
        "set_iam_policy": policy,
        "get_iam_policy_again": policy,
        "test_iam_permissions": ["cloudtasks.tasks.create", "cloudtasks.queues.get"],
        "list_locations": [_region()],
        "get_location": _region() | {"name": given.parent},
        "get_cmek_config": {"name": f"{given.parent}/cmekConfig", "kms_key": ""},
        "update_cmek_config": config,
        "get_cmek_config_again": config,
        "held_task_waits": _task(given, "held-1"),
        "resume_queue": changed,
        "resume_called": AnyTime(),
        "held_task_finished": FINISHED,
        "batch_create": {"done": True, "names": [given.task_name("batch-1"), given.task_name("batch-2")]},
        "batch_create_again": _refused("ABORTED", Like("None of the requests succeeded, refer to .*")),
        "batch_delete": {"done": True, "left": [generated] * 3},
        "purge_queue": {"state": "RUNNING", "purged": True, "left": {"pages": [0], "names": []}},
        "delete_queue": _refused("NOT_FOUND", NO_QUEUE),
        "delete_queue_again": NOT_FOUND,
        "recreate_queue": _refused(
            "FAILED_PRECONDITION",
            "The queue cannot be created because a queue with this name existed too recently.",
        ),
    }


# The order is fixed here once, so that a test can be made for each step before any client has run.
STEPS = tuple(expected(given_for("any", "127.0.0.1", 0, "http://127.0.0.1")))


def check_step(step: str, facts: dict[str, Any], given: Given) -> None:
    """Judge one step by what the driver reported."""
    assert step in facts, f"the driver stopped before {step}; its last step was {list(facts)[-1:]}"
    fact = facts[step]
    if step == "list_locations":
        # A server may know more places; the one that the scenario lives in must be among them, with its label.
        fact = [place for place in fact if place["id"] == LOCATION]
    if step == "test_iam_permissions":
        fact = sorted(fact, reverse=True)
    assert fact == expected(given)[step]
    if step == "list_tasks":
        assert sorted(fact["names"]) == sorted([given.task_name("named-1"), *facts["create_unnamed"]])
    if step == "batch_delete":
        assert sorted(fact["left"]) == sorted(facts["create_unnamed"])


def check_deliveries(facts: dict[str, Any], given: Given, receiver: Receiver) -> None:
    """Judge what the handler saw: each task once, the flaky one three times, with exactly the promised headers."""
    path = given.handler.removeprefix(receiver.url)
    for task_id in ("named-1", "plain-1", "held-1"):
        (request,) = receiver.requests(f"{path}/{task_id}")
        _check_request(request, task_id, given, receiver, attempt=0)
    # Deleted, batched and purged tasks were due in an hour, and unnamed ones too: none of them may have gone out.
    for task_id in ("doomed-1", "batch-1", "batch-2", ""):
        assert receiver.requests(f"{path}/{task_id}") == []
    attempts = receiver.requests(f"{path}/flaky-1")
    assert len(attempts) == 3
    for number, request in enumerate(attempts):
        _check_request(request, "flaky-1", given, receiver, attempt=number)
    assert len({request.header("Idempotency-Key") for request in attempts}) == 1
    gaps = [later.arrival_time - sooner.arrival_time for sooner, later in itertools.pairwise(attempts)]
    # Backoff 0.1 s, then 0.2 s, counted from the failure (wire rules 5.7); clocks are read to the microsecond.
    assert gaps[0] >= 0.099, gaps
    assert gaps[1] >= 0.199, gaps
    (held,) = receiver.requests(f"{path}/held-1")
    assert held.arrival_time > facts["resume_called"]


def _check_request(request: Received, task_id: str, given: Given, receiver: Receiver, attempt: int) -> None:
    headers = request.lowered()
    eta = float(headers.pop("x-cloudtasks-tasketa"))
    wanted: dict[str, object] = {
        "host": receiver.url.removeprefix("http://"),
        "content-length": str(len(BODY)),
        "content-type": "application/x-scenario",
        "x-mixed-case": "preserve-me",
        "user-agent": "Google-Cloud-Tasks",
        "x-cloudtasks-queuename": given.queue,
        "x-cloudtasks-taskname": task_id,
        "x-cloudtasks-taskretrycount": str(attempt),
        # Answers of 5xx do not count (wire rules 5.4): after 503 and 404 one did.
        "x-cloudtasks-taskexecutioncount": ("0", "0", "1")[attempt],
        "idempotency-key": Like(".+"),
    }
    if attempt:
        wanted["x-cloudtasks-taskpreviousresponse"] = RETRIES[attempt - 1]
        wanted["x-cloudtasks-taskretryreason"] = ""
    assert headers == wanted
    assert (request.method, request.body) == ("POST", BODY)
    # A forced run goes out before the time it was scheduled for; every other attempt not before its time.
    assert task_id == "named-1" or eta <= request.arrival_time + 0.001

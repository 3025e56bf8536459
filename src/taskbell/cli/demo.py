"""`taskbell demo`: the main job, watched. Tasks reach a handler, fail, back off, retry and finish, over a `kill -9`.

The story is told by `_Demo.run`. Its parts: `demo_server.py` is `taskbell serve` in a process of its own,
`demo_handler.py` the program that the tasks are for, `demo_report.py` what may be claimed at the end.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from taskbell.cli.demo_handler import SampleHandler
from taskbell.cli.demo_report import Acknowledged, Afterwards, Ledger, Report, checked, compare, remarks
from taskbell.cli.demo_screen import Screen
from taskbell.cli.demo_server import ENDING_SIGNALS, ServerChild, ServerFailedError, free_port
from taskbell.core.instant import SECOND

PARENT = "projects/demo/locations/us-central1"
CREATES_PER_SECOND = 75
"""Slow enough that there is a middle to kill the server in."""
DISPATCH_SECONDS = 6.0
"""How long the queue's rate spreads the dispatches over; longer, so that tasks wait when the server is killed."""
FINISH_SECONDS = 20.0
"""How long the queue may go without a delivery before the demo gives up on the rest."""
LATER = 3 * SECOND
"""How far in the future some tasks are scheduled."""


@click.command()
@click.option(
    "--tasks", "count", type=click.IntRange(1, 5000), default=300, show_default=True, help="How many to create."
)
@click.option("--port", type=click.IntRange(1, 65535), default=None, help="Port of the server [default: a free one].")
@click.option(
    "--store", default=None, help="Where state is kept, as for serve [default: an SQLite file in a temporary folder]."
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder with the store and the server's log.")
@click.option("--no-crash", is_flag=True, help="Do not kill the server in the middle.")
@click.option(
    "--failure-rate",
    type=click.FloatRange(0, 0.9),
    default=0.2,
    show_default=True,
    help="Share of the requests that the handler fails.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Chooses which requests fail.")
@click.option(
    "--server",
    type=click.Choice(["auto", "pyvoy", "hypercorn"]),
    default="auto",
    show_default=True,
    help="As for serve.",
)
def demo(  # noqa: PLR0917 - click passes them by name
    count: int,
    port: int | None,
    store: str | None,
    keep: bool,  # noqa: FBT001 - as above
    no_crash: bool,  # noqa: FBT001 - as above
    failure_rate: float,
    seed: int,
    server: str,
) -> None:
    """Watch tasks reach a handler, fail, back off, retry and finish, on a server that is killed on the way.

    Everything runs on this machine and is gone at the end. The exit code is 0 only if every task whose create was
    acknowledged was delivered.
    """
    if store is not None and store.startswith("memory:") and not no_crash:
        raise click.UsageError("a store in memory does not survive a kill: add --no-crash, or leave out --store")
    try:
        with _ended_by_signals(), ExitStack() as stack:
            folder = stack.enter_context(_folder(keep=keep))
            where = _absolute(store) if store else f"sqlite:{folder / 'taskbell.db'}"
            handler = stack.enter_context(SampleHandler(seed, failure_rate))
            child = stack.enter_context(ServerChild(folder, where, port or free_port(), server))
            screen = stack.enter_context(Screen(count))
            is_kept = _Demo(count, child, handler, screen, where, is_killed=not no_crash).run(
                f"fails {failure_rate:.0%} of its requests (seed {seed})"
            )
    except ServerFailedError as failure:
        click.echo(f"taskbell demo: {failure}", err=True)
        sys.exit(1)
    except KeyboardInterrupt as interrupt:
        click.echo("taskbell demo: interrupted; the server is stopped", err=True)
        sys.exit(128 + (interrupt.args[0] if interrupt.args else signal.SIGINT))
    if is_kept:
        _say_how_to_go_on(where if store or keep else None)
    sys.exit(0 if is_kept else 1)


class _Demo:
    """The story."""

    def __init__(
        self, count: int, child: ServerChild, handler: SampleHandler, screen: Screen, where: str, *, is_killed: bool
    ) -> None:
        self._count = count
        self._child = child
        self._handler = handler
        self._screen = screen
        self._where = where
        self._is_killed = is_killed
        self._ledger = Ledger()
        self._failed_create: list[BaseException] = []

    def run(self, how_it_fails: str) -> bool:
        """Whether everything that was promised was kept."""
        say = self._screen.say
        say(f"Taskbell serves gRPC and REST on {self._child.address} (pid {self._child.pid}), store {self._where}")
        say(f"A sample handler listens on {self._handler.url} and {how_it_fails}")
        self._client = _client(self._child.address)
        self._queue = self._create_queue()
        say(f"Google's own client (google-cloud-tasks, gRPC) created the queue {self._queue}")
        creating = threading.Thread(target=self._create_all, name="creating", daemon=True)
        creating.start()
        if self._is_killed:
            self._watch(lambda: len(self._ledger.acknowledged) >= max(1, self._count // 2))
            self._kill_and_restart()
        self._watch(lambda: not creating.is_alive())
        self._watch(self._is_finished)
        report = compare(self._ledger, self._handler.deliveries())
        refused, named = self._count_refused()
        waiting = sum(1 for _ in self._client.list_tasks(parent=self._queue))
        self._child.stop()
        self._screen.show(report.delivered, self._state(report), last=True)
        self._screen.end()
        say("\nWhat happened")
        checks = checked(report, Afterwards(waiting, refused, named))
        for check in checks:
            say(f"  {'ok  ' if check.holds else 'FAIL'}  {check.text}")
        for remark in remarks(report, is_killed=self._is_killed):
            say(f"        {remark}")
        return all(check.holds for check in checks)

    def _create_queue(self) -> str:
        """A queue with a quick retry configuration; its name has a number where the store knows it already."""
        from google.api_core.exceptions import AlreadyExists, FailedPrecondition

        retry = {"min_backoff": {"nanos": 200_000_000}, "max_backoff": {"seconds": 2}, "max_doublings": 3}
        per_second = min(500, max(50, round(self._count / DISPATCH_SECONDS)))
        rate = {"max_dispatches_per_second": per_second, "max_concurrent_dispatches": 50}
        for number in range(1, 1000):
            name = f"{PARENT}/queues/demo" + (f"-{number}" if number > 1 else "")
            queue = {"name": name, "rate_limits": rate, "retry_config": {"max_attempts": -1, **retry}}
            try:
                created: str = self._client.create_queue(parent=PARENT, queue=queue).name
            except (AlreadyExists, FailedPrecondition):
                continue
            return created
        raise ServerFailedError("the store holds a thousand queues of earlier demos: choose another with --store")

    def _create_all(self) -> None:
        """Create the tasks at a steady pace. A create without an answer is given up, and another made in its place."""
        from google.api_core.exceptions import GoogleAPICallError

        began = time.monotonic()
        ticket = 0
        try:
            while len(self._ledger.acknowledged) < self._count:
                ticket += 1
                try:
                    self._create(ticket)
                except GoogleAPICallError as error:
                    if error.code not in {503, 504} or len(self._ledger.unanswered) > 10 * self._count:
                        raise
                    self._ledger.unanswered.add(ticket)
                    time.sleep(0.1)
                due = began + len(self._ledger.acknowledged) / CREATES_PER_SECOND
                time.sleep(max(0.0, due - time.monotonic()))
        except Exception as error:  # noqa: BLE001 - a thread's error is told by the main thread
            self._failed_create.append(error)

    def _create(self, ticket: int) -> None:
        """Every fifth task has a name of its own, every tenth is for some seconds later."""
        nth = len(self._ledger.acknowledged) + 1
        is_named = nth % 5 == 0
        task: dict[str, Any] = {"http_request": {"url": f"{self._handler.url}/tasks/{ticket}", "body": b"ring"}}
        if is_named:
            task["name"] = f"{self._queue}/tasks/order-{ticket}"
        schedule_time = None
        if nth % 10 == 3:
            schedule_time = time.time_ns() // 1000 + LATER
            task["schedule_time"] = datetime.fromtimestamp(schedule_time / SECOND, UTC)
        created = self._client.create_task(parent=self._queue, task=task, timeout=5)
        self._ledger.acknowledged[ticket] = Acknowledged(ticket, created.name, is_named, schedule_time)

    def _kill_and_restart(self) -> None:
        report = compare(self._ledger, self._handler.deliveries())
        say = self._screen.say
        open_tasks = report.acknowledged - report.delivered
        pid = self._child.pid
        self._child.kill()
        say(f"  kill -9 {pid}: the server is gone, with {open_tasks} acknowledged tasks not delivered yet")
        took = self._child.start()
        say(f"  started again on the same store (pid {self._child.pid}), ready after {took:.2f} s")

    def _watch(self, until: Callable[[], bool]) -> None:
        """Show how far it is, until something holds or nothing has arrived for too long."""
        deliveries, last_time = -1, time.monotonic()
        while not until():
            if self._failed_create:
                raise ServerFailedError(f"a create failed: {self._failed_create[0]}")
            report = compare(self._ledger, self._handler.deliveries())
            self._screen.show(report.delivered, self._state(report))
            if report.attempts != deliveries:
                deliveries, last_time = report.attempts, time.monotonic()
            elif time.monotonic() - last_time > FINISH_SECONDS:
                return
            time.sleep(0.05)

    @staticmethod
    def _state(report: Report) -> str:
        return f"{report.acknowledged} created, {report.attempts} attempts, {report.failures} failed"

    def _is_finished(self) -> bool:
        return not compare(self._ledger, self._handler.deliveries()).missing and not self._is_waiting()

    def _is_waiting(self) -> bool:
        """Whether the queue still holds tasks: one that is settled by a 2xx is gone."""
        return next(iter(self._client.list_tasks(parent=self._queue)), None) is not None

    def _count_refused(self) -> tuple[int, int]:
        """How many of the names that the demo chose are refused now, and how many there are."""
        from google.api_core.exceptions import AlreadyExists

        names = [each.task_name for each in self._ledger.acknowledged.values() if each.is_named]
        refused = 0
        for name in names:
            task = {"name": name, "http_request": {"url": f"{self._handler.url}/tasks/0"}}
            try:
                self._client.create_task(parent=self._queue, task=task, timeout=5)
            except AlreadyExists:
                refused += 1
        return refused, len(names)


def _client(address: str) -> Any:
    """Google's client over a plain-text channel that looks for a restarted server at once."""
    import grpc
    from google.cloud import tasks_v2
    from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

    options = [(f"grpc.{which}_reconnect_backoff_ms", 100) for which in ("initial", "min", "max")]
    # A proxy that the environment names has no business between two processes of one machine.
    options.append(("grpc.enable_http_proxy", 0))
    return tasks_v2.CloudTasksClient(
        transport=CloudTasksGrpcTransport(channel=grpc.insecure_channel(address, options=options))
    )


def _absolute(store: str) -> str:
    """The same store, seen from the server's own folder."""
    scheme, colon, rest = store.partition(":")
    return f"sqlite:{Path(rest).absolute()}" if scheme == "sqlite" and rest else scheme + colon + rest


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """A temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="taskbell-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and a closed terminal clean up as Ctrl-C does."""

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    # What was ignored before, as nohup has it, stays ignored.
    heeded = [each for each in ENDING_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, interrupt) for each in heeded}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _program() -> str:
    """How this command was typed."""
    typed = Path(sys.argv[0])
    if typed.name == "__main__.py":
        return f"{sys.executable} -m taskbell"
    found = shutil.which("taskbell")
    return "taskbell" if found and Path(found).samefile(typed) else str(typed)


def _say_how_to_go_on(store: str | None) -> None:
    """The commands and the lines that point a program of one's own at a server."""
    click.echo(
        f"""
How to go on
  Start a server on 127.0.0.1:8123; its state is kept in the file taskbell.db of the current folder:

    {_program()} serve

  Point your own program at it: one line, where it makes its client.

    import grpc
    from google.cloud import tasks_v2
    from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

    channel = grpc.insecure_channel("127.0.0.1:8123")
    client = tasks_v2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))

  README.md shows the same for asyncio, REST, Node, gcloud and Terraform."""
    )
    if store is not None:
        click.echo(f"\n  The store of this demo was kept: {_program()} serve --store {store}")

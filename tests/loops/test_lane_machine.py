"""A lane against everything that can happen around it, in any order.

The machine plays engine, service and dispatcher: verbs commit at once, but what they say to the lane arrives later, in
the order of the commits; reads see the state of the moment in which they begin and end at any time afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from taskbell.core.attempt import dispatched
from taskbell.core.instant import HOUR, SECOND
from taskbell.core.queue import Queue, QueueState, RateLimits
from taskbell.core.target import HttpTarget
from taskbell.core.task import Task
from taskbell.loops.lane import ClockStep, Lane, Reading, Window

NAME = "projects/p/locations/l/queues/q"
TARGET = HttpTarget("http://h/")
WINDOW = Window(tasks=4, bytes=1 << 20)
CONCURRENCY = 3
START = 1_800_000_000 * SECOND


@dataclass
class Read:
    """A read of the engine that is under way."""

    reading: Reading
    tasks: list[Task]


class LaneMachine(RuleBasedStateMachine):
    """Every waiting task is dispatched once for each wait, and nothing else is."""

    def __init__(self) -> None:
        """An empty queue, or one that a restart found with tasks in it."""
        super().__init__()
        self.queue = Queue(NAME, RateLimits(500.0, 5, CONCURRENCY))
        self.lane = Lane(self.queue, 0, WINDOW, empty=True)
        self.now, self.monotonic = START, 0
        self.last_id = 0
        self.rows: dict[int, Task] = {}
        self.news: list[Callable[[], None]] = []
        self.attempts: list[Task] = []
        self.dispatches: set[tuple[int, int]] = set()
        self.waits: dict[tuple[int, int], int] = {}
        self.due: set[tuple[int, int]] = set()
        self.gone: set[int] = set()
        self.ahead: Read | None = None
        self.run: Read | None = None
        self.is_paused = False

    # The engine and the service.

    def insert(self, delay: int) -> Task:
        """Commit a create."""
        self.last_id += 1
        schedule_time = self.now + max(0, delay) * SECOND
        task = Task(self.last_id, NAME, str(self.last_id), False, TARGET, schedule_time, self.now)
        self.store(task)
        return task

    def store(self, task: Task) -> None:
        """Commit a row, with which a wait begins."""
        self.rows[task.id] = task
        self.waits[task.id, task.dispatch_count] = task.schedule_time
        self.note_due()

    def note_due(self) -> None:
        """Remember which waits have come to their end, whatever the wall clock does afterwards."""
        for wait in [wait for wait, schedule_time in self.waits.items() if schedule_time <= self.now]:
            del self.waits[wait]
            self.due.add(wait)

    @rule(delay=st.integers(0, 30))
    def create(self, delay: int) -> None:
        """A create is committed; the lane hears of it later."""
        task = self.insert(delay)
        self.news.append(lambda: self.lane.offer(task, self.now))

    @rule(delays=st.lists(st.integers(0, 30), min_size=4, max_size=12))
    def create_many(self, delays: list[int]) -> None:
        """More than a window at once."""
        for delay in delays:
            self.create(delay)

    @rule(number=st.integers(0, 100))
    @precondition(lambda self: self.rows)
    def delete(self, number: int) -> None:
        """A delete is committed."""
        task_id = sorted(self.rows)[number % len(self.rows)]
        del self.rows[task_id]

        def forget() -> None:
            self.lane.forget(task_id)
            self.gone.add(task_id)

        self.news.append(forget)

    @rule()
    def purge(self) -> None:
        """A purge is committed: it covers what was asked for before."""
        through = self.last_id
        self.last_id += 1
        covered = set(self.rows)
        self.rows.clear()

        def purged() -> None:
            self.lane.purge(through)
            self.gone |= covered

        self.news.append(purged)

    @rule()
    def pause_or_resume(self) -> None:
        """The queue's state changes."""
        state = QueueState.PAUSED if self.queue.state is QueueState.RUNNING else QueueState.RUNNING
        self.queue = queue = replace(self.queue, state=state)

        def changed() -> None:
            self.lane.configure(queue, self.monotonic)
            self.is_paused = queue.state is QueueState.PAUSED

        self.news.append(changed)

    @rule(count=st.integers(1, 5))
    @precondition(lambda self: self.news)
    def hear(self, count: int) -> None:
        """What was committed reaches the lane, in that order."""
        for news in self.news[:count]:
            news()
        del self.news[:count]

    @rule()
    def restart(self) -> None:
        """The process dies and comes back: attempts are lost, rows are not."""
        self.lane = Lane(self.queue, self.monotonic, WINDOW, empty=False)
        self.is_paused = self.queue.state is QueueState.PAUSED
        self.news.clear()
        self.attempts.clear()
        self.ahead = self.run = None
        # What was out is due again, with the count that the row has.
        self.dispatches -= {(task.id, task.dispatch_count + 1) for task in self.rows.values()}
        self.dispatches = {pair for pair in self.dispatches if self.settled(*pair)}
        self.note_due()

    def settled(self, task_id: int, count: int) -> bool:
        """Whether this attempt's outcome is in the store."""
        return task_id not in self.rows or count <= self.rows[task_id].dispatch_count

    # The dispatcher.

    @rule()
    def take(self) -> None:
        """The loop looks at the lane."""
        tasks = self.lane.take(self.now, self.monotonic)
        assert not (tasks and self.is_paused), "an attempt began after the pause was answered"
        keys = [task.due_key for task in tasks]
        assert keys == sorted(keys), "what is ready goes in the order of its due keys"
        assert len({task.id for task in tasks}) == len(tasks)
        for task in tasks:
            assert (task.id, task.dispatch_count) in self.due, "an attempt began before its time"
            assert self.lane.slots_taken < CONCURRENCY, "more attempts are out than the queue allows"
            self.begin(task)

    def begin(self, task: Task) -> None:
        """An attempt goes out."""
        assert task.id not in self.gone, "an attempt began after the delete or purge was answered"
        out = dispatched(task, self.now)
        assert (out.id, out.dispatch_count) not in self.dispatches, "one wait ended in two attempts"
        self.dispatches.add((out.id, out.dispatch_count))
        self.lane.began(out)
        self.attempts.append(out)

    @rule(number=st.integers(0, 100), succeeded=st.booleans(), backoff=st.integers(0, 20))
    @precondition(lambda self: self.attempts)
    def end(self, number: int, backoff: int, *, succeeded: bool) -> None:
        """An attempt ends, and its outcome is committed."""
        out = self.attempts.pop(number % len(self.attempts))
        row = self.rows.get(out.id)
        retry: Task | None = None
        if succeeded:
            self.rows.pop(out.id, None)
        elif self.lane.is_current(out) and row is not None and row.dispatch_count < out.dispatch_count:
            retry = replace(out, schedule_time=self.now + backoff * SECOND)
            self.store(retry)

        def ended() -> None:
            self.lane.settled(out.id)
            self.lane.ended(out)
            if retry is not None:
                self.lane.offer(retry, self.now)

        self.news.append(ended)

    @rule()
    @precondition(lambda self: self.ahead is None and self.lane.wants_read)
    def begin_reading_ahead(self) -> None:
        """The engine is asked for the next window."""
        reading = self.lane.begin_reading()
        horizon = self.lane.horizon
        assert horizon is not None
        tasks = sorted((t for t in self.rows.values() if t.due_key > horizon), key=lambda t: t.due_key)
        self.ahead = Read(reading, tasks[: WINDOW.tasks])

    @rule(fails=st.booleans())
    @precondition(lambda self: self.ahead is not None)
    def end_reading_ahead(self, *, fails: bool) -> None:
        """The window arrives, as it was when it was read; or the engine could not say."""
        assert self.ahead is not None
        read, self.ahead = self.ahead, None
        if fails:
            self.lane.abandon_reading(read.reading)
        else:
            is_last = len(read.tasks) < WINDOW.tasks
            self.lane.end_reading(read.reading, read.tasks, is_last=is_last, now=self.now)

    @rule(number=st.integers(0, 100))
    @precondition(lambda self: self.run is None and self.rows)
    def begin_run(self, number: int) -> None:
        """RunTask reads a task."""
        task = self.rows[sorted(self.rows)[number % len(self.rows)]]
        self.run = Read(self.lane.begin_reading(), [task])

    @rule()
    @precondition(lambda self: self.run is not None)
    def end_run(self) -> None:
        """RunTask begins its attempt, or reads again where the task changed meanwhile."""
        assert self.run is not None
        (task,), reading = self.run.tasks, self.run.reading
        self.run = None
        self.lane.abandon_reading(reading)
        known = self.lane.known(task.id) or reading.arrivals.get(task.id)
        if known is None and task.id in reading.changed:
            if task.id in self.rows:
                self.run = Read(self.lane.begin_reading(), [self.rows[task.id]])
            return
        if not self.lane.is_purged(task.id):
            task = known or task
            self.begin(replace(task, schedule_time=min(task.schedule_time, self.now)))

    # Time.

    @rule(seconds=st.integers(1, 15))
    def advance(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds * SECOND
        self.monotonic += seconds * SECOND
        self.note_due()

    @rule(seconds=st.integers(1, 100))
    def step_back(self, seconds: int) -> None:
        """Somebody sets the wall clock back."""
        self.last_id += 1
        self.lane.clock_stepped_back(ClockStep(self.now, self.last_id))
        self.now -= seconds * SECOND

    @rule(seconds=st.integers(1, 100))
    def step_forward(self, seconds: int) -> None:
        """Somebody sets the wall clock forward."""
        self.now += seconds * SECOND
        self.note_due()

    # What holds at all times.

    @invariant()
    def memory_is_bounded(self) -> None:
        """Half a window more than the window at most, and keys in proportion."""
        assert self.lane.held <= WINDOW.tasks * 3 // 2
        assert len(self.lane._ready) + len(self.lane._waiting) <= 2 * (WINDOW.tasks * 3 // 2) + 66

    @invariant()
    def slots_are_counted(self) -> None:
        """A slot for each attempt that is out or whose end has not been heard of."""
        assert self.lane.slots_taken >= len(self.attempts)

    @invariant()
    def every_waiting_task_is_in_memory_or_beyond_the_horizon(self) -> None:
        """Seen whenever the lane has heard everything and no read is under way."""
        if self.news or self.ahead is not None:
            return
        assert set(self.lane._held) <= set(self.rows), "a task came back to life"
        for task in self.rows.values():
            is_near = self.lane.horizon is None or task.due_key <= self.lane.horizon
            if task.id not in self.lane.running and is_near:
                assert self.lane._held.get(task.id) == task, "a task was lost"

    def teardown(self) -> None:
        """Left to itself, the lane dispatches everything that is there."""
        if self.queue.state is QueueState.PAUSED:
            self.pause_or_resume()
        for _ in range(10_000):
            self.hear(len(self.news))
            if not self.rows and not self.attempts:
                return
            self.advance(HOUR // SECOND)
            if self.run is not None:
                self.end_run()
            self.take()
            while self.attempts:
                self.end(0, 0, succeeded=True)
            if self.ahead is not None:
                self.end_reading_ahead(fails=False)
            elif self.lane.wants_read:
                self.begin_reading_ahead()
        raise AssertionError(f"never dispatched: {sorted(self.rows)}")


TestLane = LaneMachine.TestCase
TestLane.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)

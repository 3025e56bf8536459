"""One queue's pacing, case by case; `test_lane_machine.py` tries the cases in every order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskbell.core.attempt import dispatched
from taskbell.core.instant import DAY, HOUR, SECOND
from taskbell.core.queue import Queue, QueueState, RateLimits
from taskbell.core.target import HttpTarget
from taskbell.core.task import Task
from taskbell.loops.lane import BEFORE_ALL, ClockStep, Lane, Window

NAME = "projects/p/locations/l/queues/q"
NOW = 1_800_000_000 * SECOND
QUEUE = Queue(NAME, RateLimits(500.0, 100, 1000))


def make_task(number: int, delay: int = 0, *, body: bytes = b"", created: int = NOW) -> Task:
    """A task that is due `delay` seconds from now."""
    target = HttpTarget("http://h/", body=body)
    return Task(number, NAME, str(number), False, target, NOW + delay * SECOND, created)


def make_lane(queue: Queue = QUEUE, window: Window | None = None, *, empty: bool = True) -> Lane:
    """A lane whose bucket is full."""
    return Lane(queue, 0, window or Window(), empty=empty)


def take(lane: Lane, now: int = NOW, monotonic: int = 0) -> list[int]:
    """The ids of what begins now; the attempts are out."""
    tasks = lane.take(now, monotonic)
    for task in tasks:
        lane.began(dispatched(task, now))
    return [task.id for task in tasks]


def test_ready_tasks_go_by_schedule_time_then_by_id() -> None:
    """Whatever the order in which they came."""
    lane = make_lane()
    for task in (make_task(3, -1), make_task(1, -5), make_task(2, -1), make_task(4, -9)):
        lane.offer(task, NOW)

    assert take(lane) == [4, 1, 2, 3]


def test_a_task_waits_for_its_time_to_the_microsecond() -> None:
    """Not one before."""
    lane = make_lane()
    lane.offer(make_task(1, 10), NOW)

    assert take(lane, NOW + 10 * SECOND - 1) == []
    assert lane.next_delay(NOW + 10 * SECOND - 1) == 1
    assert take(lane, NOW + 10 * SECOND) == [1]
    assert lane.next_delay(NOW + 10 * SECOND) is None


def test_a_second_offer_of_a_task_does_not_dispatch_it_twice() -> None:
    """A read may bring a task in before its create is answered."""
    lane = make_lane()
    lane.offer(make_task(1), NOW)
    lane.offer(make_task(1), NOW)

    assert take(lane) == [1]
    assert take(lane) == []


def test_an_offer_of_a_task_whose_attempt_is_out_is_not_held() -> None:
    """The attempt's own end says how the task goes on."""
    lane = make_lane()
    lane.offer(make_task(1), NOW)
    assert take(lane) == [1]
    lane.offer(make_task(1), NOW)

    assert lane.held == 0
    assert take(lane) == []


def test_the_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    """Two at the start, then one every half second."""
    lane = make_lane(replace(QUEUE, rate_limits=RateLimits(2.0, 2, 1000)))
    for number in range(1, 6):
        lane.offer(make_task(number), NOW)

    assert take(lane) == [1, 2]
    assert take(lane, monotonic=SECOND // 2 - 1) == []
    assert lane.next_delay(NOW) == pytest.approx(1, abs=2)
    assert take(lane, monotonic=SECOND // 2) == [3]
    assert take(lane, monotonic=SECOND * 3 // 2) == [4, 5]


def test_slots_bound_what_is_out_and_an_end_frees_one() -> None:
    """No timer helps a lane without a slot."""
    lane = make_lane(replace(QUEUE, rate_limits=RateLimits(500.0, 100, 2)))
    for number in range(1, 5):
        lane.offer(make_task(number), NOW)
    assert take(lane) == [1, 2]
    assert take(lane) == []
    assert lane.next_delay(NOW) is None

    lane.ended(lane.running[1])

    assert take(lane) == [3]


def test_q04_fewer_slots_take_effect_as_attempts_end() -> None:
    """Three are out, one may be: two must end before the next begins."""
    lane = make_lane(replace(QUEUE, rate_limits=RateLimits(500.0, 100, 3)))
    for number in range(1, 6):
        lane.offer(make_task(number), NOW)
    assert take(lane) == [1, 2, 3]
    lane.configure(replace(QUEUE, rate_limits=RateLimits(500.0, 100, 1)), 0)

    lane.ended(lane.running[1])
    lane.ended(lane.running[2])
    assert take(lane) == []
    lane.ended(lane.running[3])
    assert take(lane) == [4]


@pytest.mark.parametrize("state", [QueueState.PAUSED, QueueState.DISABLED])
def test_q06_a_queue_that_does_not_run_begins_nothing_and_sets_no_timer(state: QueueState) -> None:
    """Resumed, everything is still there."""
    lane = make_lane()
    lane.offer(make_task(1), NOW)
    lane.configure(replace(QUEUE, state=state), 0)
    lane.offer(make_task(2), NOW)

    assert take(lane) == []
    assert lane.next_delay(NOW) is None
    lane.configure(QUEUE, 0)
    assert take(lane) == [1, 2]


def test_a_forgotten_task_begins_no_attempt_and_its_running_one_counts_for_nothing() -> None:
    """The slot is held until the attempt ends."""
    lane = make_lane()
    lane.offer(make_task(1), NOW)
    lane.offer(make_task(2, 5), NOW)
    take(lane)
    out = lane.running[1]

    lane.forget(1)
    lane.forget(2)

    assert not lane.is_current(out)
    assert lane.slots_taken == 1
    lane.ended(out)
    assert lane.slots_taken == 0
    assert take(lane, NOW + HOUR) == []


def test_a_purge_covers_ids_up_to_its_frontier_and_no_others() -> None:
    """Waiting and out; what is offered late, too."""
    lane = make_lane()
    for number in (1, 2, 12):
        lane.offer(make_task(number, 5 if number == 2 else 0), NOW)
    lane.began(dispatched(make_task(1), NOW))
    out = lane.running[1]

    lane.purge(10)
    lane.offer(make_task(9), NOW)
    lane.offer(make_task(11), NOW)

    assert not lane.is_current(out)
    assert (lane.is_purged(10), lane.is_purged(11)) == (True, False)
    assert take(lane, NOW + HOUR) == [11, 12]


def test_an_older_purge_does_not_take_back_a_newer_one() -> None:
    """The frontier only moves on."""
    lane = make_lane()
    lane.purge(10)
    lane.purge(5)
    lane.offer(make_task(8), NOW)

    assert lane.held == 0


def test_only_the_newest_attempt_of_a_task_is_current() -> None:
    """A forced run beside one that is out."""
    lane = make_lane()
    first = dispatched(make_task(1), NOW)
    lane.began(first)
    second = dispatched(first, NOW)
    lane.began(second)

    assert not lane.is_current(first)
    lane.ended(first)
    assert lane.is_current(second)
    assert lane.slots_taken == 1


def test_a_task_past_its_time_to_live_is_let_go_without_a_token() -> None:
    """Thirty-one days after its creation; the sweeper removes the row."""
    lane = make_lane(replace(QUEUE, rate_limits=RateLimits(1.0, 1, 10)))
    lane.offer(make_task(1, -1, created=NOW - 31 * DAY), NOW)
    lane.offer(make_task(2, 0, created=NOW - 31 * DAY + 1), NOW)

    assert take(lane) == [2]
    assert lane.held == 0


def test_a_restarted_lane_holds_nothing_until_it_has_read() -> None:
    """What is offered before lies beyond the horizon, where the read finds it."""
    lane = make_lane(empty=False)
    lane.offer(make_task(5), NOW)

    assert (lane.horizon, lane.held, lane.wants_read) == (BEFORE_ALL, 0, True)
    lane.end_reading(lane.begin_reading(), [make_task(1), make_task(5)], is_last=True, now=NOW)
    assert lane.horizon is None
    assert take(lane) == [1, 5]


def test_a_window_that_overflows_keeps_its_near_end() -> None:
    """Half as much again is kept at most; the horizon says where the rest begins."""
    lane = make_lane(window=Window(tasks=4, bytes=1 << 20))
    for number in range(1, 8):
        lane.offer(make_task(number, number), NOW)

    assert lane.held == 4
    assert lane.horizon == make_task(4, 4).due_key
    lane.offer(make_task(8, 8), NOW)
    assert lane.held == 4
    lane.offer(make_task(9, 1), NOW)
    assert lane.held == 5


def test_a_window_of_big_bodies_is_bounded_by_bytes_but_holds_one_at_least() -> None:
    """A single task may be larger than the window."""
    lane = make_lane(window=Window(tasks=100, bytes=10_000))
    lane.offer(make_task(1, 1, body=b"x" * 50_000), NOW)
    assert lane.held == 1
    lane.offer(make_task(2, 2, body=b"x" * 5_000), NOW)

    assert lane.held == 1
    assert lane.horizon == make_task(1, 1).due_key


def wants_read(lane: Lane) -> bool:
    """Whether the lane wants one now; its answer changes from call to call."""
    return lane.wants_read


def test_a_lane_reads_when_its_window_is_half_empty_and_the_engine_has_more() -> None:
    """Not while it is full, paused, complete, or reading already."""
    lane = make_lane(window=Window(tasks=4, bytes=1 << 20))
    assert not wants_read(lane)
    for number in range(1, 8):
        lane.offer(make_task(number, number), NOW)
    assert not wants_read(lane)
    assert take(lane, NOW + 2 * SECOND) == [1, 2]
    assert wants_read(lane)
    reading = lane.begin_reading()
    assert not wants_read(lane)
    lane.abandon_reading(reading)
    lane.configure(replace(QUEUE, state=QueueState.PAUSED), 0)
    assert not wants_read(lane)


def test_a_stale_copy_from_a_read_never_comes_back_to_life() -> None:
    """Deleted, run or retried while the read was under way."""
    lane = make_lane(empty=False)
    reading = lane.begin_reading()
    deleted, out, later = make_task(1), make_task(2), make_task(3)
    lane.forget(deleted.id)
    lane.began(dispatched(out, NOW))
    lane.began(dispatched(later, NOW))
    retry = replace(lane.running[3], schedule_time=NOW + 60 * SECOND)
    lane.settled(3)
    lane.ended(lane.running[3])
    lane.offer(retry, NOW)

    lane.end_reading(reading, [deleted, out, later], is_last=True, now=NOW)

    assert take(lane) == []
    assert take(lane, NOW + 60 * SECOND) == [3]


def test_what_arrives_behind_the_horizon_while_a_read_is_under_way_is_not_missed() -> None:
    """The read's own state is older than the arrival."""
    lane = make_lane(empty=False)
    reading = lane.begin_reading()
    lane.offer(make_task(2, 5), NOW)

    lane.end_reading(reading, [make_task(1)], is_last=True, now=NOW)

    assert take(lane, NOW + 5 * SECOND) == [1, 2]


def test_the_last_task_of_a_read_that_was_dropped_meanwhile_is_read_again() -> None:
    """The horizon stops just short of it."""
    lane = make_lane(window=Window(tasks=2, bytes=1 << 20), empty=False)
    reading = lane.begin_reading()
    one, two, three = make_task(1, 1), make_task(2, 2), make_task(3, 3)
    for task in (one, two, three):
        lane.offer(task, NOW)
    lane.forget(1)

    lane.end_reading(reading, [two, three], is_last=False, now=NOW)

    assert lane.horizon is not None
    assert lane.horizon < three.due_key
    assert take(lane, NOW + HOUR) == [2]


def test_a_window_that_overflows_during_a_read_discards_what_the_read_brings() -> None:
    """The horizon has moved nearer than where the read began."""
    lane = make_lane(window=Window(tasks=2, bytes=1 << 20))
    for number in range(10, 14):
        lane.offer(make_task(number, number), NOW)
    assert lane.horizon == make_task(11, 11).due_key
    reading = lane.begin_reading()
    for number in range(1, 5):
        lane.offer(make_task(number, number), NOW)
    assert lane.horizon == make_task(2, 2).due_key

    lane.end_reading(reading, [make_task(12, 12), make_task(13, 13)], is_last=True, now=NOW)

    assert lane.horizon == make_task(2, 2).due_key
    assert take(lane, NOW + HOUR) == [1, 2]


def test_p04_what_was_due_stays_due_when_the_wall_clock_goes_back() -> None:
    """In memory, and in the engine behind the horizon; what was not due waits for its time."""
    lane = make_lane(empty=False)
    reading = lane.begin_reading()
    lane.end_reading(reading, [make_task(1), make_task(2, 60)], is_last=False, now=NOW - SECOND)
    back = NOW - 2 * HOUR

    lane.clock_stepped_back(ClockStep(NOW, 100))
    lane.end_reading(lane.begin_reading(), [make_task(3, -1), make_task(4, 61)], is_last=True, now=back)
    lane.offer(make_task(101, -3600), back)

    assert take(lane, back) == [3, 1]
    assert take(lane, NOW - HOUR) == [101]
    assert take(lane, NOW + 61 * SECOND) == [2, 4]


def test_p04_the_furthest_of_several_steps_back_stands() -> None:
    """A smaller one adds nothing."""
    lane = make_lane(empty=False)
    lane.clock_stepped_back(ClockStep(NOW, 100))
    lane.clock_stepped_back(ClockStep(NOW - HOUR, 200))
    lane.end_reading(lane.begin_reading(), [make_task(1)], is_last=True, now=NOW - 3 * HOUR)

    assert take(lane, NOW - 3 * HOUR) == [1]


def test_p04_a_retry_keeps_the_time_that_it_was_given_after_the_step() -> None:
    """Its id is old, its time is new."""
    lane = make_lane()
    lane.clock_stepped_back(ClockStep(NOW, 100))
    retry = replace(make_task(1, -1800), dispatch_count=1)
    lane.offer(retry, NOW - HOUR)

    assert take(lane, NOW - HOUR) == []
    assert take(lane, NOW - HOUR // 2) == [1]


def test_far_off_tasks_that_are_deleted_leave_no_keys_behind() -> None:
    """A thousand creates and deletes with one task waiting before them all."""
    lane = make_lane()
    lane.offer(make_task(1, 10), NOW)
    for number in range(2, 1002):
        lane.offer(make_task(number, 3600), NOW)
        lane.forget(number)

    assert len(lane._waiting) < 100
    assert take(lane, NOW + HOUR) == [1]


def test_throttling_slows_the_bucket_and_leaves_the_configuration_alone() -> None:
    """Half the rate after an overload."""
    lane = make_lane(replace(QUEUE, rate_limits=RateLimits(10.0, 1, 1000)))
    lane.throttle.overloaded(0)
    lane.repace(0)
    for number in (1, 2):
        lane.offer(make_task(number), NOW)

    assert take(lane) == [1]
    assert take(lane, monotonic=SECOND // 10) == []
    assert take(lane, monotonic=SECOND // 5) == [2]
    assert lane.queue.rate_limits.max_dispatches_per_second == 10.0

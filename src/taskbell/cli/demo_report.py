"""What `taskbell demo` may claim at its end: the ledger of what was acknowledged against what the handler saw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from taskbell.cli.demo_handler import Delivery
from taskbell.core.instant import Instant


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A create that was answered OK."""

    ticket: int
    task_name: str
    is_named: bool
    schedule_time: Instant | None
    """Where the demo asked for one."""


@dataclass(slots=True)
class Ledger:
    """Every create of the demo, by what became of the call."""

    acknowledged: dict[int, Acknowledged] = field(default_factory=dict)
    unanswered: set[int] = field(default_factory=set)
    """Creates that got no answer, since the server was down; they promise nothing, either way."""


@dataclass(frozen=True, slots=True)
class Report:
    """The ledger and the deliveries, compared."""

    acknowledged: int
    delivered: int
    missing: tuple[str, ...]
    """Names of tasks that were acknowledged and not delivered. Must be empty."""
    scheduled: int
    """Tasks with a schedule time."""
    early: tuple[str, ...]
    """Names of those that came before their time. Must be empty."""
    mixed_keys: tuple[str, ...]
    """Names of tasks whose deliveries did not all carry the same Idempotency-Key. Must be empty."""
    unanswered: int
    unanswered_delivered: int
    attempts: int
    failures: int
    repeated: int
    """Attempts that came twice, since the kill took away what the server knew of the first one's answer."""
    repeated_after_success: int
    """Those of them whose first answer was a success: what handlers must be idempotent for."""
    most_attempts: int
    """The most attempts that one task took."""


def compare(ledger: Ledger, deliveries: Iterable[Delivery]) -> Report:
    """What was promised against what came."""
    by_ticket: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        by_ticket[delivery.ticket].append(delivery)
    done = {ticket for ticket, each in by_ticket.items() if any(one.status == 200 for one in each)}
    promised = ledger.acknowledged
    repeats = [_repeats(each) for each in by_ticket.values()]
    return Report(
        acknowledged=len(promised),
        delivered=len(done & promised.keys()),
        missing=tuple(each.task_name for each in promised.values() if each.ticket not in done),
        scheduled=sum(each.schedule_time is not None for each in promised.values()),
        early=tuple(each.task_name for each in promised.values() if _is_early(each, by_ticket.get(each.ticket, []))),
        mixed_keys=tuple(
            each[0].task_name for each in by_ticket.values() if len({one.idempotency_key for one in each}) > 1
        ),
        unanswered=len(ledger.unanswered),
        unanswered_delivered=len(done & ledger.unanswered),
        attempts=sum(map(len, by_ticket.values())),
        failures=sum(one.status != 200 for each in by_ticket.values() for one in each),
        repeated=sum(each for each, _ in repeats),
        repeated_after_success=sum(each for _, each in repeats),
        most_attempts=max(map(len, by_ticket.values()), default=0),
    )


@dataclass(frozen=True, slots=True)
class Afterwards:
    """What the server says at the end."""

    waiting: int
    """Tasks in the queue."""
    refused: int
    """Names of finished tasks that it did not accept again."""
    named: int
    """Names that were tried."""


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, and whether it was kept."""

    holds: bool
    text: str


def checked(report: Report, after: Afterwards) -> list[Check]:
    """Each promise with its evidence; the names of the tasks that broke it, were there any."""
    return [
        Check(
            not report.missing,
            f"{report.delivered} of {report.acknowledged} acknowledged tasks were delivered{_named(report.missing)}",
        ),
        Check(after.waiting == 0, f"{after.waiting} tasks are left in the queue"),
        Check(
            not report.early,
            f"{len(report.early)} of {report.scheduled} tasks that were scheduled for later came too early"
            + _named(report.early),
        ),
        Check(
            after.refused == after.named,
            f"{after.refused} of {after.named} names of finished tasks are refused when used again",
        ),
        Check(
            not report.mixed_keys,
            f"each delivery of one task carried the same Idempotency-Key{_named(report.mixed_keys)}",
        ),
    ]


def remarks(report: Report, *, is_killed: bool) -> list[str]:
    """The rest of the story, in sentences."""
    failed = f"{report.attempts} attempts, of which {report.failures} failed and were retried"
    said = [f"{failed}; the unluckiest task took {report.most_attempts}"]
    if report.unanswered:
        said.append(
            f"{report.unanswered} creates got no answer while the server was down and were made anew; "
            f"{report.unanswered_delivered} of them had been stored all the same"
        )
    if is_killed:
        said.append(
            f"{report.repeated} attempts were repeated because of the kill, "
            f"{report.repeated_after_success} of them after a success: delivery is at least once"
        )
    return said


def _named(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return f": {shown}{', ...' if len(names) > 5 else ''}" if names else ""


def _is_early(task: Acknowledged, deliveries: list[Delivery]) -> bool:
    return task.schedule_time is not None and any(one.arrival_time < task.schedule_time for one in deliveries)


def _repeats(deliveries: list[Delivery]) -> tuple[int, int]:
    """Of one task: attempts with a number that had come before; and those of them that followed a success."""
    counts = Counter(one.retry_count for one in deliveries)
    succeeded = sum(one.status == 200 for one in deliveries)
    return sum(count - 1 for count in counts.values()), max(0, succeeded - 1)

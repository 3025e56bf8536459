"""The table: every figure with its spread, every target with its verdict, and the conditions they hold under."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.place import Part
from bench.stats import TARGETS, Round, Summary, composite_floor, herd_share, summarise

FLOOR = "floor"
OURS = "ours"
JOBS = "jobs"
PEERS = "peers"


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table."""

    group: str
    key: str
    label: str
    unit: str
    digits: int = 0


FIGURES = (
    Figure(FLOOR, "floor.noop", "(a) no-op unary calls", "/s"),
    Figure(FLOOR, "floor.post", "(b) bare POSTs", "/s"),
    Figure(FLOOR, "floor.engine", "(c) engine: written and removed", "/s"),
    Figure(FLOOR, "floor.engine_writes", "engine: written", "/s"),
    Figure(FLOOR, "floor.engine_removals", "engine: removed", "/s"),
    Figure(FLOOR, "floor.composite", "composite floor, 1/(1/a + 1/b + 1/c)", "/s"),
    Figure(FLOOR, "floor.noop_idle_p50", "a lonely no-op call, p50", "ms", 2),
    Figure(FLOOR, "floor.post_idle_p50", "a lonely POST, p50", "ms", 2),
    Figure(OURS, "ours.creates", "durable creates, queues paused", "/s"),
    Figure(OURS, "ours.end_to_end", "created to delivered, end to end", "/s"),
    Figure(OURS, "ours.drain", "drained after a resume", "/s"),
    Figure(OURS, "ours.idle_p50", "idle, create to handler, p50", "ms", 2),
    Figure(OURS, "ours.idle_p99", "idle, create to handler, p99", "ms", 2),
    Figure(OURS, "ours.idle_create_p50", "idle, create to its answer, p50", "ms", 2),
    Figure(OURS, "ours.cpu_us", "CPU for each task, end to end", "µs"),
    Figure(OURS, "ours.memory", "peak memory, end to end", "MB"),
    Figure(OURS, "ours.memory_kb_a_task", "growth of peak memory for each task", "kB", 2),
    *(
        Figure(OURS, f"ours.{key}_{label}", f"{text}, {shown} waiting", unit, digits)
        for label, shown in (("1k", "1 k"), ("20k", "20 k"), ("100k", "100 k"), ("1m", "1 M"))
        for key, text, unit, digits in (
            ("rate", "end to end", "/s", 0),
            ("memory", "peak memory", "MB", 0),
            ("ready", "time to ready", "s", 2),
        )
    ),
    Figure(OURS, "ours.ready_empty", "time to ready, empty store", "s", 2),
    Figure(JOBS, "jobs.late_first", "herd on one minute: late, the first job", "ms", 1),
    Figure(JOBS, "jobs.late_p50", "herd on one minute: late, p50", "ms"),
    Figure(JOBS, "jobs.late_p99", "herd on one minute: late, p99", "ms"),
    Figure(JOBS, "jobs.herd_s", "herd on one minute: until the last one has arrived", "s", 2),
    Figure(JOBS, "jobs.herd_rate", "herd on one minute: rate", "/s"),
    Figure(JOBS, "jobs.herd_share", "herd on one minute: rate over bare POSTs", "ratio", 2),
    Figure(JOBS, "jobs.herd_cpu_us", "herd on one minute: CPU for each job", "µs"),
    *(
        Figure(JOBS, f"jobs.{key}_{label}", f"{text}, {shown}", unit, digits)
        for key, text, unit, digits in (
            ("hour_cpu", "CPU of an hour", "s", 2),
            ("ready", "time to ready", "s", 2),
            ("memory", "memory when ready", "MB", 0),
        )
        for label, shown in (("many", "jobs at rest"), ("empty", "empty store"))
    ),
    *(
        Figure(PEERS, f"{peer}.{key}", f"{peer}: {text}", "/s")
        for peer in ("bullmq", "graphile-worker", "celery", "gcloud-tasks-emulator")
        for key, text in (("end_to_end", "end to end"), ("drain", "drain"), ("enqueue", "enqueue, worker running"))
    ),
)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run found out."""

    conditions: Mapping[str, str]
    rounds: Sequence[Round]
    parts: Sequence[Part]
    skipped: Mapping[str, str]

    def text(self) -> str:
        """The whole page, in Markdown."""
        blocks = (
            ["# Benchmarks", "", *INTRODUCTION],
            ["## Targets", "", *self.targets()],
            *([f"## {TITLES[group]}", "", *self.figures(group)] for group in (OURS, JOBS, FLOOR, PEERS)),
            ["## Conditions", "", *(f"- {name}: {text}" for name, text in self.conditions.items())],
            ["## Settings", "", *self.settings()],
        )
        return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"

    def targets(self) -> Iterable[str]:
        """One row for each target."""
        rows = []
        for target in TARGETS:
            seen = target.summary(self.rounds)
            sign = "≥" if target.at_least else "≤"
            bound = f"{sign} {target.bound:g} {target.unit}".rstrip()
            rows.append([target.sentence, bound, *spread(seen, 2), target.judge(self.rounds).value])
        return table(["in one round", "target", "median", "min – max", "verdict"], rows)

    def figures(self, group: str) -> Iterable[str]:
        """One row for each figure of the group that was measured."""
        rounds = [found | composed(found) for found in self.rounds]
        rows = []
        for figure in FIGURES:
            seen = summarise(found[figure.key] for found in rounds if figure.key in found)
            if figure.group == group and seen is not None:
                rows.append([f"{figure.label} ({figure.unit})", *spread(seen, figure.digits), str(seen.count)])
        return table(["figure", "median", "min – max", "rounds"], rows) if rows else ["Not measured."]

    def settings(self) -> Iterable[str]:
        """What each part ran with, once each, and why some did not run."""
        lines = dict.fromkeys(f"- {line}" for part in self.parts for line in labelled(part))
        return [*lines, *(f"- {name}: skipped: {reason}" for name, reason in self.skipped.items())]


def labelled(part: Part) -> Iterable[str]:
    """A part's settings under its name."""
    return (f"{part.name}: {line}" for line in part.settings)


def composed(found: Round) -> Round:
    """What follows from the figures of one round."""
    figures = {"floor.composite": composite_floor(found), "jobs.herd_share": herd_share(found)}
    return {key: value for key, value in figures.items() if value is not None}


def spread(seen: Summary | None, digits: int) -> list[str]:
    """Median and extremes, as two cells."""
    if seen is None:
        return ["–", "–"]
    return [number(seen.median, digits), f"{number(seen.low, digits)} – {number(seen.high, digits)}"]


def number(value: float, digits: int) -> str:
    """A number with thin groups of thousands."""
    return f"{value:,.{digits}f}".replace(",", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; every column but the first is aligned to the right."""
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


TITLES = {FLOOR: "Floor: the parts alone", OURS: "Taskbell: tasks", JOBS: "Taskbell: jobs", PEERS: "Peers"}

INTRODUCTION = (
    "Written by `make bench`; do not edit. Every figure is the median over rounds, with the smallest and the largest.",
    "A round measures each part once, and every ratio is taken inside one round. Load generator, server and handler",
    "share the machine's cores, so read ratios rather than rates. Every task, ours or a peer's, is one POST of 100",
    "bytes to the same handler. *End to end* counts from the first create to the last arrival, with creates and",
    "deliveries side by side; *drain* from the first to the last arrival of what was enqueued before.",
)

"""`python -m bench`: measure everything that this machine can, print the table, and write it into the docs."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from bench.conditions import conditions
from bench.handler import running_handler
from bench.parts import PARTS, chosen
from bench.place import FULL, QUICK, Part, Place
from bench.processes import ROOT, Failed, Unavailable, say
from bench.report import Report
from bench.stats import Round


@click.command()
@click.option("--only", multiple=True, metavar="NAME", help="Only parts whose name begins so; may be repeated.")
@click.option("--runs", default=5, show_default=True, type=click.IntRange(1), help="Rounds to take medians over.")
@click.option("--quick", is_flag=True, help="A few seconds for each part: to see that it works, not for verdicts.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to write the table. Default: docs/benchmarks.md for a whole run, nowhere for a quick or partial one.",
)
@click.option("--folder", type=click.Path(path_type=Path), help="Keep installs and stores here instead of a fresh one.")
def main(only: tuple[str, ...], runs: int, out: Path | None, folder: Path | None, *, quick: bool) -> None:
    """Measure Taskbell against its floor and its peers."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A shell that starts us in the background has interrupts ignored; a benchmark must stop on one wherever it runs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parts = chosen(only)
    if not parts:
        raise click.BadParameter(f"no part has such a name; there are: {', '.join(part.name for part in PARTS)}")
    if out is None and not quick and not only:
        out = ROOT / "docs" / "benchmarks.md"
    try:
        with working_folder(folder) as place_folder, running_handler(place_folder / "handler.log") as handler:
            place = Place(place_folder, handler, QUICK if quick else FULL)
            report = measure(place, parts, runs, quick=quick)
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
    click.echo(report.text())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.text())
        say(f"written to {out}")


@contextlib.contextmanager
def working_folder(folder: Path | None) -> Iterator[Path]:
    """The folder that was asked for, or one that is removed at the end."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="taskbell-bench-", ignore_cleanup_errors=True) as fresh:
        yield Path(fresh)


def measure(place: Place, parts: list[Part], runs: int, *, quick: bool) -> Report:
    """Prepare every part once, then measure those that can be, round by round."""
    skipped: dict[str, str] = {}
    ready = []
    for part in parts:
        try:
            part.prepare(place)
        except (Unavailable, Failed) as reason:
            say(f"{part.name}: skipped: {reason}")
            skipped[part.name] = without_paths(place, reason)
        else:
            ready.append(part)
    under = conditions(place.folder, runs, quick=quick)
    rounds = []
    for number in range(1, runs + 1):
        say(f"round {number} of {runs}")
        rounds.append(measure_round(place, ready, skipped))
    return Report(under, rounds, ready, skipped)


def measure_round(place: Place, parts: list[Part], skipped: dict[str, str]) -> Round:
    """Every part once. One that fails leaves a gap in this round, and its reason in the report."""
    found: Round = {}
    for part in parts:
        try:
            found |= part.measure(place)
        except (Failed, OSError) as reason:
            say(f"{part.name}: failed: {reason}")
            skipped[part.name] = f"failed in a round: {without_paths(place, reason)}"
    return found


def without_paths(place: Place, reason: Exception) -> str:
    """A reason as it may stand in a published page: nothing of where this machine keeps things."""
    text = str(reason)
    for path, word in ((place.folder, "FOLDER"), (Path(sys.prefix), "PYTHON"), (ROOT, ".")):
        text = text.replace(str(path), word)
    return text


if __name__ == "__main__":
    main()

"""Where `taskbell demo` shows itself: a live bar on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_PLAIN_INTERVAL_SECONDS = 1.0


class Screen:
    """Lines that stay, and a state that moves; use it in a `with` statement."""

    def __init__(self, total: int) -> None:
        """`total` is what the bar counts up to."""
        self._total = total
        self._bar: Progress | None = None
        self._row = TaskID(0)
        self._shown = ""
        self._next_time = 0.0
        self._began = time.monotonic()

    def say(self, line: str = "") -> None:
        """A line that stays."""
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            click.echo(line)

    def show(self, done: int, state: str, *, last: bool = False) -> None:
        """How far it is; on plain output about once a second, and not when nothing has changed."""
        if self._bar is not None:
            self._bar.update(self._row, completed=done, state=state)
            return
        now = time.monotonic()
        text = f"{done}/{self._total} delivered, {state}"
        if text != self._shown and (last or now >= self._next_time):
            self._shown, self._next_time = text, now + _PLAIN_INTERVAL_SECONDS
            click.echo(f"  [{now - self._began:4.1f} s] {text}")

    def __enter__(self) -> Self:
        """Begin the bar, where there is a terminal."""
        self._began = time.monotonic()
        console = Console()
        if sys.stdout is not None and sys.stdout.isatty() and not console.is_dumb_terminal:
            columns = (
                TextColumn("  delivered"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f}  {task.fields[state]}"),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=console)
            self._row = self._bar.add_task("", total=self._total, state="")
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Give the terminal back."""
        self.end()

    def end(self) -> None:
        """Leave the bar as it was last; what is said from now on follows below it."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

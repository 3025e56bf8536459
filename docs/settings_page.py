"""Writes docs/reference/settings.md from settings.py: `python docs/settings_page.py`. A test says when it is stale."""  # noqa: INP001 - a script

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from taskbell.settings import PREFIX, Settings, parse_span, print_span

PAGE = Path(__file__).parent / "reference" / "settings.md"

_HEAD = f"""# Settings

<!-- Written by docs/settings_page.py from src/taskbell/settings.py; change it there. -->

Each setting can be given in three ways; the first of them that speaks wins:

1. a flag of `taskbell serve`: `--log-level debug` for `log_level`;
2. an environment variable: `{PREFIX}LOG_LEVEL=debug`;
3. a key of a TOML file: `log_level = "debug"`. The file is `taskbell.toml` in the current folder where there is one, or
   what `--config` names.

A value that cannot be read, and a key that is not below, stop the start with one line that says which it is. Spans are
a number with a unit: `250ms`, `30s`, `10m`, `24h`, `7d`; `0` means none. Lists are comma-separated, or TOML arrays. A
limit is Google's by default; an operator may raise it.
"""


def render() -> str:
    """The whole page."""
    groups = _groups()
    parts = [_HEAD]
    for title, names in groups:
        rows = [_row(item) for item in fields(Settings) if item.name in names]
        parts.append("\n".join([f"## {title}", "", "| key | default | meaning |", "|---|---|---|", *rows, ""]))
    return "\n".join(parts)


def _groups() -> list[tuple[str, list[str]]]:
    """The settings under the comments that group them in the source."""
    groups: list[tuple[str, list[str]]] = []
    for line in inspect.getsource(Settings).splitlines():
        if title := re.fullmatch(r"    # (.+)\.", line):
            groups.append((title[1], []))
        elif field := re.match(r"    (\w+): .*= _setting\(", line):
            groups[-1][1].append(field[1])
    return groups


def _row(item: Any) -> str:
    return f"| `{item.name}` | {_default(item)} | {item.metadata['help'].replace('|', chr(92) + '|')} |"


def _default(item: Any) -> str:
    default = item.default
    if default is None:
        text = ""
    elif item.metadata["parse"] is parse_span:
        text = print_span(default)
    elif isinstance(default, tuple):
        text = ",".join(default)
    elif isinstance(default, bool):
        text = str(default).lower()
    else:
        text = f"{default:g}" if isinstance(default, float) else str(default)
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

"""The named statements of the .sql files beside this one."""

from __future__ import annotations

import re
from importlib.resources import files

FILES = ("queries.sql", "jobs.sql")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?|\s+$", re.MULTILINE)

_VALUES = re.compile(r"(?<=VALUES )(\([?, ]+\))")


def load_queries() -> dict[str, str]:
    """Statement by name; comments between the name and the statement are for readers and left out."""
    folder = files(__package__)
    pieces = [piece for file in FILES for piece in _NAME.split((folder / file).read_text("utf-8"))[1:]]
    return {name: _COMMENT.sub("", sql).strip() for name, sql in zip(pieces[::2], pieces[1::2], strict=True)}


def widened(insert: str, rows: int) -> str:
    """An `INSERT ... VALUES (?, ...)` of one row as the same statement of several rows."""
    head, row, tail = _VALUES.split(insert, maxsplit=1)
    return head + ", ".join([row] * rows) + tail


QUERIES = load_queries()

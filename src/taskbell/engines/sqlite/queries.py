"""The named statements of queries.sql."""

from __future__ import annotations

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?|\s+$", re.MULTILINE)


def load_queries() -> dict[str, str]:
    """Statement by name; comments between the name and the statement are for readers and left out."""
    text = (files(__package__) / "queries.sql").read_text("utf-8")
    pieces = _NAME.split(text)[1:]
    return {name: _COMMENT.sub("", sql).strip() for name, sql in zip(pieces[::2], pieces[1::2], strict=True)}


def widened(insert: str, rows: int) -> str:
    """An `INSERT ... VALUES (?, ...)` of one row as the same statement of several rows."""
    head, values, row = insert.rpartition("VALUES ")
    return head + values + ", ".join([row] * rows)


QUERIES = load_queries()

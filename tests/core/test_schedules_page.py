"""docs/reference/schedules.md: each row of its tables is what happens."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import from_datetime, rfc3339
from taskbell.core.schedule import LONGEST_SCHEDULE, fires, parse_schedule

PAGE = (Path(__file__).parents[2] / "docs/reference/schedules.md").read_text(encoding="utf-8")


def rows(first_cell: str) -> Iterator[list[str]]:
    """The rows of every table whose head begins with this cell."""
    wanted = False
    for line in PAGE.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            wanted = False
        elif cells[0] == first_cell:
            wanted = True
        elif wanted and not line.startswith("|---"):
            yield cells


FIRES = list(rows("Schedule"))
REFUSED = list(rows("Refused"))


def test_the_page_is_read() -> None:
    """A page without rows would always be right."""
    assert 2 * len(FIRES) == PAGE.count(" | 20")
    assert len(FIRES) > 30
    assert len(REFUSED) > 20
    assert f"{LONGEST_SCHEDULE:,} characters" in PAGE


@pytest.mark.parametrize("row", FIRES, ids=lambda row: f"{row[0]} {row[2]}")
def test_a_row_of_fires(row: list[str]) -> None:
    """Schedule, zone, the instant asked for, the fires after it."""
    text, zone, after, *expected = row[:4]
    schedule, wanted = parse_schedule(text, zone), expected[0].split(", ")

    found = fires(schedule, from_datetime(datetime.fromisoformat(after).replace(tzinfo=UTC)), len(wanted))

    assert [rfc3339(instant).removesuffix(":00Z") for instant in found] == wanted


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row[0]} {row[1]}")
def test_a_row_of_refusals(row: list[str]) -> None:
    """Schedule, zone, what the message says."""
    text, zone, part = row

    with pytest.raises(InvalidArgument) as refusal:
        parse_schedule(text, zone)

    assert refusal.value.message.startswith("Schedule or time zone is invalid. ")
    assert part in refusal.value.message

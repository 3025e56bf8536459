"""How a schedule or a time zone is refused: Google's one sentence first, then ours, which names the word at fault.

Google's text does not say which of the two is wrong, let alone where. Clients match on its beginning, so ours follows
it. Used by `zone.py`, `cron.py`, `groc.py` and `schedule.py`.
"""

from __future__ import annotations

from taskbell.core.errors import InvalidArgument

SCHEDULE_INVALID = "Schedule or time zone is invalid."

_LONGEST = 40


def refused(reason: str) -> InvalidArgument:
    """The error to raise; the reason is one sentence that says what was found and what was expected."""
    return InvalidArgument(f"{SCHEDULE_INVALID} {reason}")


def quoted(word: str) -> str:
    """A caller's word as it may stand in a sentence: in quotes, printable, and cut when it is long."""
    shown = word if len(word) <= _LONGEST else word[:_LONGEST] + "…"
    return '"' + "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown) + '"'

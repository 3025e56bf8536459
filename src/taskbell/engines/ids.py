"""Time-ordered ids: `milliseconds << 21`, with room below for two million ids in one millisecond.

The engines share this rule, because sweeping reads a task's age off its id.
"""

from __future__ import annotations

import random

from taskbell.core.instant import MILLISECOND, Instant, Span

_SHIFT = 21
_RANDOM_BITS = 16
_LAST_MILLISECOND = 2**42 - 2
"""The last millisecond whose ids stay below 2**63 (in the year 2109); later clocks count on from there."""


def floor_id(instant: Instant) -> int:
    """The smallest id that the instant's millisecond can have: every id handed out earlier on is below it."""
    return min(max(instant // MILLISECOND, 0), _LAST_MILLISECOND) << _SHIFT


def id_span(span: Span) -> int:
    """How far ids move on in a span."""
    return span // MILLISECOND << _SHIFT


class IdSequence:
    """Hands out ids, each larger than all before, whatever the clock does. For one thread."""

    __slots__ = ("last",)

    def __init__(self, last: int) -> None:
        self.last = last

    def next_id(self, now: Instant) -> int:
        """A new id: of this millisecond if the clock has moved on, else the next number."""
        # The low bits start at random, so that two stores are unlikely to hand out the same ids; no secret hangs on it.
        start = floor_id(now) | random.getrandbits(_RANDOM_BITS)
        self.last = start if start > self.last else self.last + 1
        return self.last

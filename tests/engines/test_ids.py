from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.instant import EARLIEST, LATEST, MILLISECOND, SECOND
from taskbell.engines.ids import IdSequence, floor_id, id_span


@given(last=st.integers(0, 2**62), clock=st.lists(st.integers(EARLIEST, LATEST), min_size=1))
def test_each_id_is_larger_than_all_before(last: int, clock: list[int]) -> None:
    """Whatever the clock does, and wherever a store had come to."""
    sequence = IdSequence(last)
    ids = [last, *(sequence.next_id(now) for now in clock)]

    assert all(earlier < later for earlier, later in pairwise(ids))
    assert ids[-1] < 2**63


@given(earlier=st.integers(0, 4 * 10**15), gap=st.integers(MILLISECOND, 10**15))
def test_ids_handed_out_before_an_instant_are_below_its_floor(earlier: int, gap: int) -> None:
    """To the millisecond, which is what sweeping relies on."""
    assert floor_id(earlier) <= IdSequence(0).next_id(earlier) < floor_id(earlier + gap)
    assert floor_id(EARLIEST) == 0


def test_spans_of_ids() -> None:
    """Two million for each millisecond."""
    assert id_span(SECOND) == floor_id(5 * SECOND) - floor_id(4 * SECOND) == 1000 << 21

"""Page tokens: opaque, bound to what they page through, short-lived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.errors import InvalidArgument
from taskbell.core.instant import HOUR, SECOND
from taskbell.core.paging import cursor_of, page_size, page_token

NOW = 1_800_000_000 * SECOND
TOKEN = page_token([NOW, 17], "tasks\nq", NOW + 2 * HOUR)


@given(cursor=st.lists(st.integers() | st.text()), scope=st.text())
def test_a_token_gives_back_its_cursor(cursor: list[object], scope: str) -> None:
    """Whatever the cursor is made of."""
    assert cursor_of(page_token(cursor, scope, NOW), scope, NOW) == cursor


def test_no_token_is_no_cursor() -> None:
    """The first page."""
    assert cursor_of("", "tasks\nq", NOW) is None


def test_a04_a_token_is_good_for_two_hours_and_not_longer() -> None:
    """To the microsecond."""
    assert cursor_of(TOKEN, "tasks\nq", NOW + 2 * HOUR) == [NOW, 17]
    with pytest.raises(InvalidArgument, match="expired"):
        cursor_of(TOKEN, "tasks\nq", NOW + 2 * HOUR + 1)


def test_a04_a_token_of_another_parent_or_filter_is_refused() -> None:
    """What a token pages through may not change."""
    with pytest.raises(InvalidArgument, match="may not change"):
        cursor_of(TOKEN, "tasks\nother", NOW)


@pytest.mark.parametrize("token", ["x", "bad token", "é", "AAAA", TOKEN[:-1], TOKEN + "A", "=" * 8, "a" * 5, "/+=="])
def test_a04_a_token_that_was_never_handed_out_is_refused(token: str) -> None:
    """One answer for garbage, cut and lengthened tokens."""
    with pytest.raises(InvalidArgument, match="page token"):
        cursor_of(token, "tasks\nq", NOW)


@given(st.text())
def test_any_text_is_a_token_or_a_refusal(text: str) -> None:
    """Nothing else comes out."""
    if text:
        with pytest.raises(InvalidArgument):
            cursor_of(text, "tasks\nq", NOW)


def test_tokens_are_safe_in_a_query() -> None:
    """Letters, digits, hyphen and underscore."""
    assert TOKEN.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(("asked", "given"), [(0, 1000), (1, 1), (999, 999), (1000, 1000), (1001, 1000), (2**31, 1000)])
def test_a04_a_page_size_is_clamped_and_zero_means_the_largest(asked: int, given: int) -> None:
    """Too large is not refused."""
    assert page_size(asked, 1000) == given


def test_a_negative_page_size_is_refused() -> None:
    """The text says what was asked."""
    with pytest.raises(InvalidArgument, match="-1"):
        page_size(-1, 1000)

"""Instants and spans as texts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskbell.core.instant import (
    DAY,
    EARLIEST,
    HOUR,
    LATEST,
    MILLISECOND,
    MINUTE,
    SECOND,
    decimal_seconds,
    from_datetime,
    rfc3339,
    span_text,
    to_datetime,
)


@pytest.mark.parametrize(
    ("instant", "offset", "text"),
    [
        (0, 0, "1970-01-01T00:00:00Z"),
        (1, 0, "1970-01-01T00:00:00.000001Z"),
        (1_800_000_000 * SECOND, 0, "2027-01-15T08:00:00Z"),
        (1_800_000_000 * SECOND + 500_000, 0, "2027-01-15T08:00:00.500000Z"),
        (1_800_000_000 * SECOND, -8 * HOUR, "2027-01-15T00:00:00-08:00"),
        (1_800_000_000 * SECOND + 1, -7 * HOUR, "2027-01-15T01:00:00.000001-07:00"),
        (1_800_000_000 * SECOND, 5 * HOUR + 45 * MINUTE, "2027-01-15T13:45:00+05:45"),
        (EARLIEST, 0, "0001-01-01T00:00:00Z"),
        (LATEST, 0, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_an_instant_prints_as_rfc_3339_with_a_fraction_only_where_there_is_one(
    instant: int, offset: int, text: str
) -> None:
    """`Z` at offset zero."""
    assert rfc3339(instant, offset) == text


@given(st.integers(EARLIEST, LATEST))
def test_an_instant_survives_the_way_through_datetime(instant: int) -> None:
    """Exact to the microsecond over the whole range of the wire."""
    assert from_datetime(to_datetime(instant)) == instant


@pytest.mark.parametrize(
    ("instant", "text"),
    [(0, "0.000000"), (1_758_700_000 * SECOND + 123_456, "1758700000.123456"), (SECOND + 1, "1.000001")],
)
def test_s09_an_eta_is_unix_seconds_as_a_decimal_of_six_digits(instant: int, text: str) -> None:
    """Within a microsecond of the instant, however it is parsed."""
    assert decimal_seconds(instant) == text
    assert abs(float(text) * SECOND - instant) < MILLISECOND


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (15 * SECOND, "15s"),
        (30 * MINUTE, "30m"),
        (24 * HOUR + 15 * SECOND, "24h15s"),
        (30 * DAY, "720h"),
        (HOUR + MINUTE + SECOND, "1h1m1s"),
        (0, "0s"),
        (100 * MILLISECOND, "0.1s"),
        (MINUTE + 1, "1m0.000001s"),
    ],
)
def test_a_span_prints_as_in_the_services_error_texts(span: int, text: str) -> None:
    """Hours, minutes and seconds, each only where it is there."""
    assert span_text(span) == text


def test_the_ends_of_time_are_those_of_the_wire() -> None:
    """timestamp.proto: from 0001-01-01 to the end of 9999."""
    assert to_datetime(EARLIEST) == datetime(1, 1, 1, tzinfo=UTC)
    assert to_datetime(LATEST) == datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from taskbell.api.time_text import LONGEST_DURATION_SECONDS, NANOS, duration_nanos, timestamp_nanos

FIRST, LAST = -62_135_596_800, 253_402_300_799


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1969-12-31T23:59:59.9Z", -100_000_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T16:00:00-08:00", 0),
        ("1970-01-01t00:00:00z", 0),
        ("0001-01-01T00:00:00Z", FIRST * NANOS),
        ("9999-12-31T23:59:59Z", LAST * NANOS),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * NANOS),
        # Refused:
        ("", None),
        ("1671593022", None),
        ("1970-01-01", None),
        ("1970-01-01T00:00:00", None),
        ("1970-01-01 00:00:00Z", None),
        ("1970-01-01T00:00Z", None),
        ("1970-01-01T00:00:00.Z", None),
        ("1970-01-01T00:00:00.1234567891Z", None),
        ("1970-01-01T00:00:60Z", None),
        ("1970-01-01T24:00:00Z", None),
        ("1970-13-01T00:00:00Z", None),
        ("2023-02-29T00:00:00Z", None),
        ("1970-01-01T00:00:00+24:00", None),
        ("1970-01-01T00:00:00+01:60", None),
        ("1970-01-01T00:00:00+0100", None),
        ("0000-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+00:01", None),
        ("9999-12-31T23:59:59-00:01", None),
        ("1970-01-01T00:00:00Z\n", None),
        ("١٩٧٠-01-01T00:00:00Z", None),
    ],
)
def test_timestamps_are_rfc_3339_with_an_offset(text: str, nanos: int | None) -> None:
    """Exactly RFC 3339, of the years that timestamp.proto knows."""
    assert timestamp_nanos(text) == nanos


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("600s", 600 * NANOS),
        ("0.100s", 100_000_000),
        ("-1.5s", -1_500_000_000),
        ("0.000000001s", 1),
        (f"{LONGEST_DURATION_SECONDS}s", LONGEST_DURATION_SECONDS * NANOS),
        # Refused:
        ("", None),
        ("s", None),
        ("600", None),
        ("10m", None),
        ("+1s", None),
        ("1.s", None),
        ("1.0000000001s", None),
        ("1e3s", None),
        (" 1s", None),
        (f"{LONGEST_DURATION_SECONDS + 1}s", None),
        ("9" * 5000 + "s", None),
    ],
)
def test_durations_are_decimal_seconds(text: str, nanos: int | None) -> None:
    """Exactly what duration.proto's JSON form allows."""
    assert duration_nanos(text) == nanos


@given(st.integers(FIRST, LAST), st.integers(0, NANOS - 1))
def test_every_timestamp_survives_its_own_text(seconds: int, nanos: int) -> None:
    """What protobuf prints is read back as it was."""
    text = Timestamp(seconds=seconds, nanos=nanos).ToJsonString()

    assert timestamp_nanos(text) == seconds * NANOS + nanos


@given(st.integers(-LONGEST_DURATION_SECONDS, LONGEST_DURATION_SECONDS), st.integers(0, NANOS - 1))
def test_every_duration_survives_its_own_text(seconds: int, nanos: int) -> None:
    """What protobuf prints is read back as it was."""
    signed = -nanos if seconds < 0 else nanos
    if abs(seconds) == LONGEST_DURATION_SECONDS:
        signed = 0

    text = Duration(seconds=seconds, nanos=signed).ToJsonString()

    assert duration_nanos(text) == seconds * NANOS + signed

"""RFC 3339 times, to the nanosecond and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.protocol.evidence import nanoseconds, timestamp


@pytest.mark.parametrize(
    ("text", "ns"),
    [  # RFC 3339, section 5.8; seconds by `date -d … +%s`
        ("1985-04-12T23:20:50.52Z", 482_196_050_520_000_000),
        ("1996-12-19T16:39:57-08:00", 851_042_397_000_000_000),
        ("1990-12-31T23:59:60Z", 662_688_000_000_000_000),
        ("1990-12-31T15:59:60-08:00", 662_688_000_000_000_000),
        ("1937-01-01T12:00:27.87+00:20", -1_041_337_172_130_000_000),
        ("1970-01-01t00:00:00.0000000019z", 1),
    ],
)
def test_the_examples_of_the_rfc_are_read(text: str, ns: int) -> None:
    assert nanoseconds(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30",
        "2026-11-30T12:00:00",
        "2026-11-30 12:00:00Z",
        "2026-11-30T12:00Z",
        "2026-02-29T12:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T12:00:61Z",
        "2026-11-30T12:00:00+24:00",
        "2026-11-30T12:00:00.Z",
        "2026-11-30T12:00:00Z\n",
        "２026-11-30T12:00:00Z",
        "",
    ],
)
def test_what_is_no_time_with_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        nanoseconds(text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_that_is_written_is_read_as_the_same(moment: datetime) -> None:
    ns = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    assert nanoseconds(timestamp(ns)) == ns

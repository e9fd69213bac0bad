"""Moments as RFC 3339 writes them, and as nanoseconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)


def nanoseconds(text: str) -> int:
    """Nanoseconds since the epoch; what is finer is cut off. A leap second is the one after it.

    Raises:
        ValueError: It is not a date and time of RFC 3339, section 5.6, which has a zone.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError("not YYYY-MM-DDTHH:MM:SS with a zone: Z or +HH:MM")
    year, month, day, hour, minute, second = (int(found[group]) for group in range(1, 7))
    zone = UTC
    if found[8] is None:
        hours, minutes = int(found[10]), int(found[11])
        if hours > 23 or minutes > 59:
            raise ValueError("there is no such zone")
        offset = timedelta(hours=hours, minutes=minutes)
        zone = timezone(-offset if found[9] == "-" else offset)
    leap = second == 60
    moment = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=zone)
    fraction = int((found[7] or "")[:9].ljust(9, "0"))
    whole = (moment - _EPOCH) // timedelta(seconds=1) + leap
    return whole * 1_000_000_000 + fraction


def timestamp(ns: int) -> str:
    """Nanoseconds since the epoch in UTC, cut to microseconds: `2026-11-30T12:00:00.123456Z`."""
    moment = _EPOCH + timedelta(microseconds=ns // 1000)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"

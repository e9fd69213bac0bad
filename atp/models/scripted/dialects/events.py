"""The JSON objects within the bytes of an answer: taken out, and put back changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


def event_data(chunk: bytes) -> dict[str, Any] | None:
    """The object that a chunk holds: an event of a stream, or a whole answer; None where it holds none."""
    for line in chunk.split(b"\n"):
        text = line.removeprefix(b"data:").strip()
        if text.startswith(b"{"):
            value: dict[str, Any] = orjson.loads(text)
            return value
    return None


def with_data(chunk: bytes, data: Mapping[str, Any]) -> bytes:
    """The same chunk with another object in it."""
    if not chunk.startswith((b"data:", b"event:")):
        return orjson.dumps(data)
    head = chunk[: chunk.index(b"data:")]
    return head + b"data: " + orjson.dumps(data) + b"\n\n"


def named_event(kind: str, data: Mapping[str, Any]) -> bytes:
    """An event of a stream whose events have names, which stand in their data too.

    Args:
        kind: Its name.
        data: What it says besides.
    """
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps({"type": kind, **data}) + b"\n\n"

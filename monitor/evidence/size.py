"""What is left of a document's events when there are too many: the beginning, the end, and a mark between.

Never in silence: the mark says how many events there were, how many of each type are gone, and the digest
of them all, and is there too where a value was cut or the monitor itself failed to record something.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from atp.protocol.evidence import MOST_BYTES, MOST_EVENTS

Canonical: TypeAlias = Callable[[Any], bytes]
"""The canonical form of a JSON value: RFC 8785."""

Event: TypeAlias = dict[str, Any]

MARK = "evidence.truncated"
HEAD = MOST_EVENTS // 2
"""Events that are kept of the beginning; of the end, one fewer, since the mark is an event as well."""

_AROUND = 256 * 1024
"""Bytes left for all that is not an event as it was: the document, the mark, notes on calls."""


def fitting(events: Sequence[Event], recorder_failures: int, canonical: Canonical) -> list[Event]:
    """The events that a document has room for, and a mark where something is not as it was.

    Args:
        events: All of them, in order, numbered.
        recorder_failures: How often the monitor failed to record something of the run.
        canonical: As which the events are digested and measured.

    Returns:
        Those of the beginning and of the end; a result never without its call. They keep their numbers; the
        mark has neither number nor time.
    """
    contents = [canonical(event) for event in events]
    sizes = [len(content) + 1 for content in contents]
    cut = sum(_is_cut(event) for event in events)
    most = MOST_EVENTS - 1 if cut or recorder_failures else MOST_EVENTS
    room = MOST_BYTES - _AROUND
    if len(events) <= most and sum(sizes) <= room:
        if most == MOST_EVENTS:
            return list(events)
        return [*events, _mark(events, events, cut, recorder_failures, None)]
    head = _reach(sizes, HEAD, room // 2)
    tail = min(_reach(sizes[::-1], MOST_EVENTS - HEAD - 1, room // 2), len(events) - head)
    kept = list(_in_pairs([*events[:head], *events[len(events) - tail :]], events))
    full = hashlib.sha256(b"[" + b",".join(contents) + b"]").hexdigest()
    mark = _mark(events, kept, cut, recorder_failures, full)
    return [*kept[:head], mark, *kept[head:]]  # a result of the beginning has its call there


def _reach(sizes: Sequence[int], most: int, room: int) -> int:
    """How many of the first have room."""
    used = 0
    for count, size in enumerate(sizes[:most]):
        used += size
        if used > room:
            return count
    return min(most, len(sizes))


def _in_pairs(kept: Sequence[Event], events: Sequence[Event]) -> Iterator[Event]:
    """Without results whose calls are gone; a call whose result is gone says so."""
    calls, results = _call_ids(kept, "tool.call"), _call_ids(kept, "tool.result")
    gone = _call_ids(events, "tool.result") - results
    for event in kept:
        data = event["data"]
        if event["type"] == "tool.call" and data["call_id"] in gone:
            yield {**event, "data": {**data, "attributes": {**data["attributes"], "result_dropped": True}}}
        elif event["type"] != "tool.result" or data["call_id"] in calls:
            yield event


def _call_ids(events: Sequence[Event], kind: str) -> set[str]:
    return {event["data"]["call_id"] for event in events if event["type"] == kind}


def _is_cut(event: Event) -> bool:
    return "truncated" in event["data"]["attributes"]


def _mark(
    events: Sequence[Event], kept: Sequence[Event], cut: int, recorder_failures: int, full: str | None
) -> Event:
    dropped = Counter(event["type"] for event in events)
    dropped.subtract(event["type"] for event in kept)
    attributes = {
        "total": len(events),
        "emitted": len(kept),
        "dropped": len(events) - len(kept),
        "dropped_by_type": {kind: count for kind, count in sorted(dropped.items()) if count},
        "events_with_cut_values": cut,
        "recorder_failures": recorder_failures,
    }
    if full is not None:
        attributes["full_sha256"] = full
    return {"type": "lifecycle", "data": {"name": MARK, "status": "degraded", "attributes": attributes}}

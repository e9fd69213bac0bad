"""The order of events: by cause first, then by time.

Clocks of a worker and of the engine may differ, and tools run side by side, so time alone may put a result
before its call. Causes make a graph; among what may come next, the earliest does (Kahn's algorithm). Only
the causes that hold by their nature are never given up: a model asks, a call is made, its result comes.
The others (what a model read, what an agent did within its scope) rest on ids that a provider may use
twice; where they contradict each other, the earliest event goes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Rank(IntEnum):
    """Who goes first of those that happened at the same moment."""

    USER = 0
    RESULT = 1
    ASSISTANT = 2
    CALL = 3


@dataclass(slots=True, eq=False)
class Happening:
    """Something that happened in a run: an event, or a step that only orders others."""

    time_ns: int
    """By the clock of whoever saw it."""
    rank: Rank
    span_start_ns: int
    span_id: str
    index: int = 0
    """Of several of one span."""
    type: str | None = None
    """Of the event; None where there is none to be seen."""
    data: dict[str, Any] = field(default_factory=dict)
    causes: list[Happening] = field(default_factory=list)
    """What came before it, beyond doubt."""
    likely_causes: list[Happening] = field(default_factory=list)
    """What came before it, if ids say what they seem to say."""

    @property
    def key(self) -> tuple[int, int, int, str, int]:
        """Its place by time; no two have the same."""
        return self.time_ns, self.rank, self.span_start_ns, self.span_id, self.index


def ordered(happenings: Sequence[Happening]) -> list[Happening]:
    """All of them, causes first; the same whatever order they come in."""
    effects: dict[Happening, list[tuple[Happening, bool]]] = {each: [] for each in happenings}
    certain = dict.fromkeys(happenings, 0)
    likely = dict.fromkeys(happenings, 0)
    for each in happenings:
        for causes, count, sure in ((each.causes, certain, True), (each.likely_causes, likely, False)):
            for cause in causes:
                if cause is not each:
                    effects[cause].append((each, sure))
                    count[each] += 1
    ready = [(each.key, each) for each in happenings if not certain[each] and not likely[each]]
    doubtful = [(each.key, each) for each in happenings if not certain[each] and likely[each]]
    heapq.heapify(ready)
    heapq.heapify(doubtful)
    done: dict[Happening, None] = {}
    while ready or doubtful:
        _, next_one = heapq.heappop(ready or doubtful)
        if next_one in done:  # it was doubtful, and then ready
            continue
        done[next_one] = None
        for effect, sure in effects[next_one]:
            (certain if sure else likely)[effect] -= 1
            if not certain[effect] and effect not in done:
                heapq.heappush(doubtful if likely[effect] else ready, (effect.key, effect))
    return list(done)

"""The deadline of an attempt: seconds of the agent's own time.

The clock stands still while a user is at work, and while the engine's own process stands still: it was
stopped (Ctrl-Z), and answered no tool call. Time that provider errors cost is not the agent's either:
from the start of a model call to the try that was answered, when tries before it failed; of a call that
failed, all of its time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from atp.protocol.spans import SpanEnd, SpanKind, SpanStatus
from monitor.vocabulary import FAILED_TRY, REPEATED_TRY

_CANCELLED = "CancelledError"
_NEARLY = 0.001
"""Seconds; lost time is measured by another process."""


_LOOK = 1.0
"""Seconds at most between two looks at the time."""
STOOD_STILL = 5.0
"""Seconds that a look may be late before the process counts as stopped meanwhile."""


class Deadline:
    """A clock that counts the agent's time. Used on one event loop.

    Args:
        seconds: How long the agent has; None is for ever.
        passed: Called once when they are over.
    """

    def __init__(self, seconds: float | None, passed: Callable[[], None]) -> None:
        self._seconds = seconds
        self._passed = passed
        self._timer: asyncio.TimerHandle | None = None
        self._started: float | None = None
        self._ended: tuple[float, int] | None = None
        self._fired: tuple[float, int] | None = None
        self._due = 0.0
        self._holders = 0
        self._held = 0.0
        self._spans: list[SpanEnd] = []

    def start(self) -> None:
        """The agent phase begins."""
        self._started = time.monotonic()
        self._arm()

    def end(self) -> None:
        """The agent phase is over: never run again."""
        self._ended = time.monotonic(), time.time_ns()
        self._disarm()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it, if it runs at all, it stands still."""
        since = time.monotonic()
        self._holders += 1
        self._disarm()
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self._held += time.monotonic() - since
                self._arm()

    def add(self, span: SpanEnd) -> None:
        """A span has ended: it may hold lost time."""
        if span.start.kind is SpanKind.MODEL:
            self._spans.append(span)

    @property
    def elapsed(self) -> float | None:
        """Seconds of the agent phase, all included; None when it has not begun."""
        if self._started is None:
            return None
        return (self._ended[0] if self._ended else time.monotonic()) - self._started

    @property
    def lost(self) -> float:
        """Seconds of it that failed tries of model calls cost."""
        return seconds_lost(self._spans, self._ended[1] if self._ended else time.time_ns())

    @property
    def eaten(self) -> bool:
        """Whether it passed before the agent had had its time: what was lost in the call that was open then
        became known only later."""
        return self._fired is not None and self._left(*self._fired) > _NEARLY

    def _left(self, monotonic: float, time_ns: int) -> float:
        assert self._seconds is not None and self._started is not None  # it runs
        had = monotonic - self._started - self._held - seconds_lost(self._spans, time_ns)
        return self._seconds - had

    def _arm(self) -> None:
        runs = self._started is not None and self._ended is None and self._fired is None
        if runs and self._seconds is not None and self._holders == 0:
            left = self._left(time.monotonic(), time.time_ns())
            wait = min(max(left, 0.0), _LOOK)
            self._due = time.monotonic() + wait
            self._timer = asyncio.get_running_loop().call_later(wait, self._check)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = time.monotonic(), time.time_ns()
        late = now[0] - self._due
        if late > STOOD_STILL:
            self._held += late
        if self._left(*now) > _NEARLY:
            self._arm()
        else:
            self._fired = now
            self._passed()


def seconds_lost(spans: Iterable[SpanEnd], until_ns: int) -> float:
    """Seconds that failed tries cost, up to a moment; what was lost at the same time counts once.

    Args:
        spans: Model spans that have ended.
        until_ns: Nanoseconds since the epoch.
    """
    lost, reached = 0, 0
    for start, end in sorted(filter(None, map(_lost, spans))):
        start, end = max(start, reached), min(end, until_ns)
        lost += max(end - start, 0)
        reached = max(reached, end)
    return lost / 1e9


def _lost(span: SpanEnd) -> tuple[int, int] | None:
    """From when to when a model call was lost on failed tries."""
    start = span.start.start_ns
    if span.status is SpanStatus.OK:
        last = max(_times(span, (REPEATED_TRY,)), default=None)
        return None if last is None else (start, last)
    cut_off = span.status is SpanStatus.ABORTED or (span.error_type or "").endswith(_CANCELLED)
    if cut_off and not _times(span, (REPEATED_TRY, FAILED_TRY)):
        return None
    return start, span.end_ns


def _times(span: SpanEnd, names: Sequence[str]) -> list[int]:
    return [event.time_ns for event in span.events if event.name in names]

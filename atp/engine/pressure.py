"""How many attempts an endpoint bears at once: fewer while it answers 429, more again while it answers.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain 1989; RFC 5681): a 429 halves the
number, and every as many answered calls as it allows add one, up to what was asked for. It is
the number of attempts that is bounded, since nothing stands between a harness and its model. Other errors
of a provider change nothing here: those are for retries.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from atp.protocol.spans import SpanEnd
from monitor import vocabulary as v

TOO_MANY_REQUESTS = 429
DECREASE = 0.5
"""By what a 429 multiplies the number of attempts."""


class Gate:
    """The attempts of one endpoint pass it.

    Args:
        asked: Attempts at once that were asked for; it starts there, and goes no higher.
    """

    def __init__(self, asked: int) -> None:
        self._asked = asked
        self._limit = float(asked)
        self._inside = 0
        self._lowered_ns = 0
        self._closed_until = 0.0
        self._shut = False
        self._changed = asyncio.Event()

    @property
    def limit(self) -> int:
        """Attempts that may be inside now; at least one."""
        return max(int(self._limit), 1)

    @property
    def is_open(self) -> bool:
        """Whether another attempt could pass at once."""
        return self._inside < self.limit and time.monotonic() >= self._closed_until

    def heard(self, call: SpanEnd) -> None:
        """A model call of the endpoint has ended."""
        limited = False
        for event in call.events:
            if event.name == v.FAILED_TRY and event.attributes.get("http.status_code") == TOO_MANY_REQUESTS:
                limited = True
                asked = event.attributes.get("retry_after")
                since = (time.time_ns() - event.time_ns) / 1e9
                wait = asked - since if isinstance(asked, int | float) else None
                self.refused(call.start.start_ns, wait)
        if not limited and v.RESPONSE_ID in call.attributes and self._limit < self._asked:
            self._limit = min(self._limit + 1 / self._limit, float(self._asked))
            self._changed.set()

    def refused(self, begun_ns: int, wait: float | None) -> None:
        """The endpoint has answered 429.

        Only one of those that belong together lowers the number: none of a call that had begun before
        it was lowered last.

        Args:
            begun_ns: When the model call began, in nanoseconds since 1970.
            wait: Seconds that the provider still asks for; whoever is to pass waits for them.
        """
        if wait is not None:
            self._closed_until = max(self._closed_until, time.monotonic() + wait)
        if begun_ns > self._lowered_ns:
            self._limit = max(self._limit * DECREASE, 1.0)
            self._lowered_ns = time.time_ns()

    async def enter(self) -> bool:
        """Wait until an attempt may begin; False once the gate is shut."""
        while not self._shut and not self.is_open:
            self._changed.clear()
            wait = self._closed_until - time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait if wait > 0 else None)
        if self._shut:
            return False
        self._inside += 1
        return True

    def leave(self) -> None:
        """An attempt that was let in has ended."""
        self._inside -= 1
        self._changed.set()

    def shut(self) -> None:
        """Let nobody in any more."""
        self._shut = True
        self._changed.set()

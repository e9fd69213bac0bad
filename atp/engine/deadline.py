"""The deadline of an attempt: seconds of the agent's own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Deadline:
    """A clock that stands still while somebody else is at work. Used on one event loop.

    Args:
        seconds: How long the agent has; None is for ever.
        passed: Called once when they are over.
    """

    def __init__(self, seconds: float | None, passed: Callable[[], None]) -> None:
        self._left = seconds
        self._passed = passed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Let it run on."""
        if self._left is not None:
            self._timer = self._loop.call_later(self._left, self._passed)

    def stop(self) -> None:
        """Hold it."""
        if self._timer is not None:
            self._timer.cancel()
            self._left = max(self._timer.when() - self._loop.time(), 0.0)
            self._timer = None

    def end(self) -> None:
        """Never run again."""
        self.stop()
        self._left = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it, if it runs at all, it stands still."""
        running = self._timer is not None
        self.stop()
        try:
            yield
        finally:
            if running:
                self.start()

"""Which call of the model an execution belongs to, where an SDK tells a tool its arguments only."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from typing import Any


class AnnouncedCalls:
    """The calls that an agent is about to make.

    Equal calls of one reply are interchangeable: they get its ids in order.
    """

    def __init__(self) -> None:
        self._ids: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
        self._lock = threading.Lock()

    def announce(self, name: str, arguments: Any, call_id: str) -> None:
        """The model asks for this call."""
        with self._lock:
            self._ids[name, _text(arguments)].append(call_id)

    def claim(self, name: str, arguments: Any) -> str | None:
        """The id of a call that is being made; None when the model announced none like it."""
        with self._lock:
            ids = self._ids.get((name, _text(arguments)))
            return ids.popleft() if ids else None

    def clear(self) -> None:
        """The step is over: what was not made of its calls will not be."""
        with self._lock:
            self._ids.clear()


def _text(arguments: Any) -> str:
    # As JSON text 1, 1.0 and true differ, which as Python values they do not.
    return json.dumps(arguments)

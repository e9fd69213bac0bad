"""The canonical forms of the messages that the requests of an attempt have in common."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

_LISTS = 8
"""How many lists of messages are remembered: one for each agent that takes turns in an attempt."""

_Form = dict[str, Any]


class RememberedForms:
    """Remembers what requests begin with.

    A conversation repeats its past in every request; what stood in an earlier one is given as the
    same objects, so that a message is converted and hashed once.
    """

    def __init__(self) -> None:
        self._lists: deque[list[tuple[Any, _Form]]] = deque(maxlen=_LISTS)

    def forms(self, raw: Sequence[Any], form: Callable[[Any], _Form]) -> list[_Form]:
        """The messages of a request.

        Args:
            raw: Each as it is on the wire.
            form: Makes its canonical form; asked of what has not stood at its place before.
        """
        known = max(self._lists, key=lambda entries: _same(entries, raw), default=[])
        shared = _same(known, raw)
        entries = known[:shared] + [(message, form(message)) for message in raw[shared:]]
        if known and shared == len(known):
            # It is the same conversation, further on.
            self._lists.remove(known)
        self._lists.append(entries)
        return [form for _, form in entries]


def _same(entries: Sequence[tuple[Any, Any]], raw: Sequence[Any]) -> int:
    """How many messages at the beginning are those of the entries."""
    count = 0
    for (known, _), message in zip(entries, raw, strict=False):
        if known != message:
            break
        count += 1
    return count

"""Message lists as chains of bodies, so that the bytes per turn stay constant.

Each message is a body, hashed once. A list is `{"prev": digest | null, "items": [digest, …]}`: the
longest earlier list of the same name that it begins with, plus what came since. A list that begins
with no earlier one (the harness dropped or rewrote its past) starts anew with `prev` null.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.bodies import body

Keep = Callable[[str, bytes], None]
"""Takes digest and content of a body."""


@dataclass(slots=True)
class _Link:
    items: list[str]
    digest: str


@dataclass(slots=True)
class MessageLists:
    """The lists of one attempt.

    Args:
        keep: Where bodies go, each before the first that names it.
        remembered: How many messages are known by identity. An object that was seen is taken
            to be unchanged, and is held so that its identity stays its own.
        links: How many lists of a name can be continued.
    """

    keep: Keep
    remembered: int = 4096
    links: int = 32
    _seen: OrderedDict[int, tuple[Any, str]] = field(default_factory=OrderedDict)
    _links: dict[str, OrderedDict[str, _Link]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def store(self, name: str, messages: Sequence[Any]) -> tuple[str, int]:
        """Store a list.

        Args:
            name: Lists of one name continue each other.
            messages: JSON values.

        Returns:
            The digest of the list's body, and how many values were given a stated form.
        """
        altered = 0
        items: list[str] = []
        with self._lock:
            for message in messages:
                known = self._seen.get(id(message))
                if known is not None:
                    items.append(known[1])
                    continue
                digest, count = self._message(message)
                altered += count
                items.append(digest)
            return self._list(name, items), altered

    def _message(self, message: Any) -> tuple[str, int]:
        digest, content, altered = body(message)
        self.keep(digest, content)
        self._seen[id(message)] = (message, digest)
        if len(self._seen) > self.remembered:
            self._seen.popitem(last=False)
        return digest, altered

    def _list(self, name: str, items: list[str]) -> str:
        links = self._links.setdefault(name, OrderedDict())
        longest: _Link | None = None
        for link in links.values():
            size = len(link.items)
            if (longest is None or size > len(longest.items)) and items[:size] == link.items:
                longest = link
        if longest is not None and len(longest.items) == len(items):
            links.move_to_end(longest.digest)
            return longest.digest
        since = items[len(longest.items) :] if longest else items
        digest, content, _ = body({"prev": longest.digest if longest else None, "items": since})
        self.keep(digest, content)
        if not items:
            return digest  # every list begins with it: nothing is gained by continuing it
        links[digest] = _Link(items, digest)
        links.move_to_end(digest)
        if len(links) > self.links:
            links.popitem(last=False)
        return digest

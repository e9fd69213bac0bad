"""One asynchronous HTTP client for all who work within an event loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class _Lease:
    client: Any
    holders: int = 0


class LoopClient:
    """Makes a client when the first asks for it, and closes it when the last lets go.

    Args:
        make: Makes one; it has `aclose`.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._leases: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Lease] = (
            weakref.WeakKeyDictionary()
        )

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Any]:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        lease = self._leases.get(loop)
        if lease is None:
            lease = self._leases[loop] = _Lease(self._make())
        lease.holders += 1
        try:
            yield lease.client
        finally:
            lease.holders -= 1
            if lease.holders == 0:
                del self._leases[loop]
                await lease.client.aclose()

"""Running a command's coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """As `asyncio.run`, which waits at its end for the threads of `asyncio.to_thread`, however long they
    take; `atp.cli.ending` decides about them."""

    async def within() -> _T:
        asyncio.get_running_loop().set_default_executor(_Unwaited())
        return await work

    return asyncio.run(within())


class _Unwaited(ThreadPoolExecutor):
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)

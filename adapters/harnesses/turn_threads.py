"""A synchronous agent beside an event loop: its turns run in threads, its calls come back.

A thread cannot be cancelled. It is made to end instead: what it waits for is taken away (calls into
the loop are cancelled, connections to the model are shut down), and what it tries next is refused
by `Stopped`, which no `except Exception` of an SDK holds up.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

_T = TypeVar("_T")

GRACE = 2.0
"""Seconds that `stop` waits for the thread; the attempt ends then, and the thread later or never."""


class Stopped(BaseException):
    """The attempt is over: the thread that gets this has nothing more to do."""


class TurnThreads:
    """Runs the turns of one conversation, one at a time. Made within the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._turn_ended: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._streams: list[Any] = []

    async def run(self, turn: Callable[[], _T]) -> _T:
        """Run a turn in a thread of its own, with the present context copied.

        The event loop's default executor has a handful of threads, which attempts that wait for
        their models would use up.

        Raises:
            BaseException: What the turn raised.
        """
        result: asyncio.Future[_T] = self._loop.create_future()
        ended = self._turn_ended = asyncio.Event()
        context = copy_context()

        def settle(value: _T | None, error: BaseException | None) -> None:
            ended.set()
            if result.done():
                return  # cancelled: nobody waits for it
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)  # type: ignore[arg-type]  # None only where _T has it

        def work() -> None:
            try:
                value = context.run(turn)
            except BaseException as error:  # noqa: BLE001  handed to whoever awaits the turn
                self._loop.call_soon_threadsafe(settle, None, error)
            else:
                self._loop.call_soon_threadsafe(settle, value, None)

        # A daemon: one that will not end must not keep a worker from ending.
        self._thread = threading.Thread(target=work, name="agent-turn", daemon=True)
        self._thread.start()
        return await result

    def call(self, function: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine in the event loop and wait for it; for the turn's threads.

        Raises:
            Stopped: The conversation has been stopped.
        """
        if self._stopped.is_set():
            raise Stopped
        future = asyncio.run_coroutine_threadsafe(function(), self._loop)
        self._waiting.add(future)
        if self._stopped.is_set():  # since the first look
            future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            raise Stopped from error
        finally:
            self._waiting.discard(future)

    def before_request(self, request: Any) -> None:
        """For the HTTP client's request hook: refuses requests once stopped, and learns of connections
        through the client's documented `trace` extension.

        Raises:
            Stopped: The conversation has been stopped.
        """
        if self._stopped.is_set():
            raise Stopped
        request.extensions["trace"] = self._connected

    async def stop(self) -> None:
        """Make the running turn end, and wait for it `GRACE` seconds at most."""
        self._stopped.set()
        for future in tuple(self._waiting):
            future.cancel()
        for stream in self._streams:
            with contextlib.suppress(OSError):  # closed already
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        if self._turn_ended is None or self._thread is None:
            return
        with contextlib.suppress(TimeoutError):  # then the card says what remains
            await asyncio.wait_for(self._turn_ended.wait(), GRACE)
            self._thread.join()  # it has only to return

    def _connected(self, event: str, details: dict[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._streams.append(details["return_value"])
            if self._stopped.is_set():
                raise Stopped

"""A command in a box, as the engine sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from atp.protocol.errors import InfrastructureError, LineTooLong, SandboxError
from atp.sandbox.box_frames import (
    CHUNK,
    CONSUMED,
    EXIT,
    FED,
    KILL,
    STDERR,
    STDIN,
    STDIN_END,
    STDOUT,
    WINDOW,
    unpack,
)
from atp.sandbox.interface import ExecResult, SandboxProcess

Send = Callable[[int, int, bytes], Awaitable[None]]
"""Sends a frame to the box: kind, number, payload."""

GONE = "the sandbox ended unexpectedly"


class BoxProcess(SandboxProcess):
    """One command: gets its frames from the box's reader, answers through `send`."""

    def __init__(self, number: int, send: Send, *, windowed: bool) -> None:
        self.number = number
        self._send = send
        self._windowed = windowed
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._unread_stdin = 0
        self._stdin_closed = False
        self._began = time.monotonic()
        self._timed_out = False
        self._changed = asyncio.Event()
        self._result: ExecResult | None = None
        self._lost: str | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # From the box.

    def start(self) -> None:
        """The command runs. Whoever waited for it may have given up: that cancels the future."""
        if not self.started.done():
            self.started.set_result(None)

    def receive(self, kind: int, payload: bytes) -> None:
        """Take a frame meant for this command."""
        if kind == STDOUT:
            self._stdout += payload
        elif kind == STDERR:
            self._stderr += payload
        elif kind == FED:
            self._unread_stdin -= int(payload)
        elif kind == EXIT:
            self._end(*unpack(payload))
        self._changed.set()

    def lose(self, reason: str) -> None:
        """The box is gone."""
        if self._result is None:
            self._lost = reason
        if not self.started.done():
            self.started.set_exception(InfrastructureError(reason))
        self._changed.set()

    def refuse(self, reason: str) -> None:
        """The command could not be started."""
        if self.started.done():
            self.lose(f"cannot run in the sandbox: {reason}")
        else:
            self.started.set_exception(SandboxError(f"cannot run in the sandbox: {reason}"))

    # For the caller.

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK):
            while self._unread_stdin >= WINDOW and self._result is None:
                await self._wait_for_change()
            chunk = data[at : at + CHUNK]
            self._unread_stdin += len(chunk)
            await self._send(STDIN, self.number, chunk)

    async def close_stdin(self) -> None:
        if not self._stdin_closed:
            self._stdin_closed = True
            await self._send(STDIN_END, self.number, b"")

    async def read(self, size: int = 65536) -> bytes:
        while not self._stdout and self._result is None:
            await self._wait_for_change()
        return await self._take(min(size, len(self._stdout)))

    async def read_line(self, limit: int = 65536) -> bytes:
        searched = 0
        while (end := self._stdout.find(b"\n", searched, limit)) < 0:
            if len(self._stdout) >= limit:
                raise LineTooLong(f"a process in the sandbox wrote a line of more than {limit} bytes")
            if self._result is not None:
                return await self._take(len(self._stdout))
            searched = len(self._stdout)
            # The window bounds what may be on its way; a longer line needs more of it.
            await self._grant(searched)
            await self._wait_for_change()
        return await self._take(end + 1)

    async def wait(self) -> ExecResult:
        while self._result is None:
            await self._wait_for_change()
        return self._result

    async def kill(self) -> None:
        if self._result is None:
            await self._send(KILL, self.number, b"")

    def mark_timed_out(self) -> None:
        """Its time is up; what ends it now is that."""
        self._timed_out = True

    _granted = 0
    """Bytes of `_stdout` that were acknowledged before they were taken."""

    async def _take(self, size: int) -> bytes:
        taken = bytes(self._stdout[:size])
        del self._stdout[:size]
        await self._grant(size)
        self._granted = max(0, self._granted - size)
        return taken

    async def _grant(self, size: int) -> None:
        """Let the process write on: `size` bytes from the front count as read."""
        if self._windowed and size > self._granted and self._result is None:
            await self._send(CONSUMED, self.number, b"%d" % (size - self._granted))
            self._granted = size

    async def _wait_for_change(self) -> None:
        if self._lost is not None:
            raise InfrastructureError(self._lost)
        self._changed.clear()
        await self._changed.wait()

    def _end(self, code: bytes, stdout_dropped: bytes, stderr_dropped: bytes, reason: bytes) -> None:
        value = int(code)
        why = reason.decode()
        self._result = ExecResult(
            exit_code=value if value >= 0 else None,
            signal=-value if value < 0 else None,
            stdout=b"" if self._windowed else bytes(self._stdout),
            stderr=bytes(self._stderr),
            stdout_dropped=int(stdout_dropped),
            stderr_dropped=int(stderr_dropped),
            timed_out=self._timed_out,
            limit=why if why in ("memory", "processes", "files") else None,  # type: ignore[arg-type]
            duration=time.monotonic() - self._began,
        )

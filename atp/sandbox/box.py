"""A running box, as the engine holds it: sends frames to its first process and reads what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence

from atp.protocol.errors import InfrastructureError, SandboxError
from atp.protocol.task import SandboxSpec
from atp.sandbox.box_frames import (
    CHUNK,
    DATA,
    DONE,
    EXIT,
    EXPORT,
    FAILED,
    FED,
    FILE,
    HEADER,
    HELLO,
    KILL_ALL,
    MAX_PAYLOAD,
    START,
    STARTED,
    STDERR,
    STDOUT,
    WRITE,
    frame,
    pack,
)
from atp.sandbox.interface import ExecResult, Sandbox, SandboxProcess
from atp.sandbox.process import GONE, BoxProcess

KILL_GRACE = 5.0
"""Seconds for the box to report what it killed, before it is ended itself."""


class _Request:
    """A write or export on its way."""

    def __init__(self, max_bytes: int = 0) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.files: dict[str, bytearray] = {}
        self._room = max_bytes
        self._current: bytearray | None = None

    def receive(self, kind: int, payload: bytes) -> None:
        if self.done.done():
            return
        if kind == FILE:
            self._current = self.files.setdefault(payload.decode("utf-8", "surrogateescape"), bytearray())
        elif kind == DATA and self._current is not None:
            self._room -= len(payload)
            if self._room < 0:
                self.fail(SandboxError("the box sent more than was asked for"))
            self._current += payload
        elif kind == DONE:
            self.done.set_result(None)
        elif kind == FAILED:
            self.fail(SandboxError(payload.decode("utf-8", "replace")))

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Box(Sandbox):
    """Where commands of one sandbox run, by whatever made the process that holds it."""

    def __init__(
        self,
        process: Process,
        spec: SandboxSpec,
        *,
        python: str,
        python_version: str,
        released: Callable[[], None] | None = None,
    ) -> None:
        """Args:
        process: Speaks the frames of `box_frames` and has said hello.
        spec: What holds inside.
        python: Path of a Python inside.
        python_version: Of that Python.
        released: Called when the box is gone.
        """
        self.python = python
        self.python_version = python_version
        self.spec = spec
        self._process = process
        self._released = released
        self._numbers = itertools.count(1)
        self._commands: dict[int, BoxProcess] = {}
        self._requests: dict[int, _Request] = {}
        self._closing = False
        self._reader = asyncio.create_task(self._read())
        self._complaint = b""

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> ExecResult:
        until = time.monotonic() + (self.spec.timeout if timeout is None else timeout)
        command = await self._begin(argv, env, cwd, keep_stdout=self.spec.output)
        feeding = asyncio.create_task(self._feed(command, stdin))
        try:
            async with asyncio.timeout(until - time.monotonic()):
                await command.started
                return await command.wait()
        except TimeoutError:
            command.mark_timed_out()
            return await self._kill_all(command)
        except asyncio.CancelledError:
            await self._kill_all(command)
            raise
        finally:
            feeding.cancel()
            # It fails only when the box is gone, which whoever waits for the command is told too.
            await asyncio.gather(feeding, return_exceptions=True)

    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> SandboxProcess:
        command = await self._begin(argv, env, cwd, keep_stdout=None)
        await command.started
        return command

    async def write(self, path: str, data: bytes) -> None:
        parts = path.removeprefix("/box/").split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise SandboxError(f"{path!r} is not a path below /box")
        name = "/".join(parts).encode("utf-8", "surrogateescape")
        for at in range(0, max(1, len(data)), CHUNK):
            payload = pack(name, data[at : at + CHUNK], b"append" if at else b"")
            await self._ask(_Request(), WRITE, payload)

    async def export(
        self, *patterns: str, max_files: int = 1000, max_bytes: int = 64 << 20
    ) -> dict[str, bytes]:
        wanted = [pattern.removeprefix("/box/").encode("utf-8", "surrogateescape") for pattern in patterns]
        request = _Request(max_bytes)
        await self._ask(request, EXPORT, pack(b"%d" % max_files, b"%d" % max_bytes, *wanted))
        return {path: bytes(content) for path, content in request.files.items()}

    async def close(self) -> None:
        self._closing = True
        await _end(self._process)
        await self._reader

    async def _begin(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: str | None,
        keep_stdout: int | None,
    ) -> BoxProcess:
        if not argv:
            raise SandboxError("no command was given")
        number = next(self._numbers)
        command = BoxProcess(number, self._send, windowed=keep_stdout is None)
        self._commands[number] = command
        variables = {
            "HOME": "/box",
            "LANG": "C.UTF-8",
            "PATH": f"{self.python.rpartition('/')[0]}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": "/tmp",
            **(env or {}),
        }
        fields = [cwd or "/box", "" if keep_stdout is None else str(keep_stdout), str(self.spec.output)]
        fields += [str(len(argv)), *argv, *(f"{name}={value}" for name, value in variables.items())]
        payload = pack(*(field.encode("utf-8", "surrogateescape") for field in fields))
        if len(payload) > MAX_PAYLOAD or any("\0" in field for field in fields):
            raise SandboxError("a command line for the sandbox is too long, or has a NUL character")
        await self._send(START, number, payload)
        return command

    async def _feed(self, command: BoxProcess, stdin: bytes) -> None:
        await command.write(stdin)
        await command.close_stdin()

    async def _kill_all(self, command: BoxProcess) -> ExecResult:
        await self._send(KILL_ALL, 0, b"time")
        try:
            async with asyncio.timeout(KILL_GRACE):
                return await command.wait()
        except TimeoutError:
            await self.close()
            raise InfrastructureError("the sandbox did not answer and was ended") from None

    async def _ask(self, request: _Request, kind: int, payload: bytes) -> None:
        number = next(self._numbers)
        self._requests[number] = request
        try:
            await self._send(kind, number, payload)
            await request.done
        finally:
            del self._requests[number]

    async def _send(self, kind: int, number: int, payload: bytes) -> None:
        assert self._process.stdin is not None
        if self._closing or self._reader.done():
            raise InfrastructureError(GONE)
        self._process.stdin.write(frame(kind, number, payload))
        try:
            await self._process.stdin.drain()
        except ConnectionError as error:
            raise InfrastructureError(GONE) from error

    async def _read(self) -> None:
        assert self._process.stdout is not None and self._process.stderr is not None
        complaints = asyncio.create_task(self._process.stderr.read(CHUNK))
        reason = GONE
        try:
            while True:
                self._deliver(*await _next_frame(self._process.stdout))
        except asyncio.IncompleteReadError:
            pass  # The box has ended.
        except ValueError as error:
            reason = f"{GONE}: {error}"
        await _end(self._process)
        said = (await complaints).decode("utf-8", "replace").strip()
        self._lose(f"{reason}: {said.splitlines()[-1]}" if said and not self._closing else reason)

    def _lose(self, reason: str) -> None:
        for command in self._commands.values():
            command.lose(reason)
        for request in self._requests.values():
            request.fail(InfrastructureError(reason))
        if self._released is not None:
            self._released()

    def _deliver(self, kind: int, number: int, payload: bytes) -> None:
        command = self._commands.get(number)
        if command is not None:
            if kind == STARTED:
                command.start()
            elif kind == FAILED:
                command.refuse(payload.decode("utf-8", "replace"))
                del self._commands[number]
            elif kind in (STDOUT, STDERR, FED, EXIT):
                command.receive(kind, payload)
                if kind == EXIT:
                    del self._commands[number]
        elif number in self._requests:
            self._requests[number].receive(kind, payload)


async def _end(process: Process) -> None:
    """End a box: its first process goes when its input ends, and everything in the box with it."""
    assert process.stdin is not None
    if not process.stdin.is_closing():
        process.stdin.transport.abort()
    try:
        async with asyncio.timeout(KILL_GRACE):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def first_frame(process: Process) -> str:
    """The version of the box's Python, which its first process says when it is ready.

    Raises:
        IncompleteReadError: It ended instead.
        ValueError: It said something else.
    """
    assert process.stdout is not None
    kind, _, payload = await _next_frame(process.stdout)
    if kind != HELLO:
        raise ValueError("the first frame of a box is not its hello")
    return payload.decode("ascii")


async def _next_frame(stream: asyncio.StreamReader) -> tuple[int, int, bytes]:
    size, kind, number = HEADER.unpack(await stream.readexactly(HEADER.size))
    if size > MAX_PAYLOAD:
        raise ValueError(f"a frame of {size} bytes")
    return kind, number, await stream.readexactly(size)

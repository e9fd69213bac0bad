"""What a sandbox offers, whatever runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

Limit = Literal["memory", "processes", "files"]
"""A sum over the whole box that a command made too large."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended and what it wrote."""

    exit_code: int | None
    """None when a signal ended it."""
    signal: int | None
    """The signal that ended it, else None."""
    stdout: bytes
    stderr: bytes
    stdout_dropped: int
    """Bytes written beyond what is kept."""
    stderr_dropped: int
    timed_out: bool
    """Its time was up; it was killed with everything else in the box."""
    limit: Limit | None
    """Which sum over the box was exceeded, if that is why it was killed."""
    duration: float
    """Wall-clock seconds."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What starting a sandbox here showed."""

    backend: str
    version: str
    """Of the program that makes the sandbox."""
    python: str
    """Version of the Python inside."""
    holds: tuple[str, ...]
    """The limits that hold here, in words."""


class SandboxProcess(ABC):
    """A command that stays: written to and read from while it runs."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Hand bytes to its standard input; waits while it does not read. After its end they are lost."""

    @abstractmethod
    async def close_stdin(self) -> None:
        """End its standard input."""

    @abstractmethod
    async def read(self, size: int = 65536) -> bytes:
        """Some bytes of its standard output, at most `size`; empty at the end.

        What is not read stays with the process, which waits: nothing piles up here.
        """

    @abstractmethod
    async def read_line(self, limit: int = 65536) -> bytes:
        """One line with its line end; without it when the output ended there; empty at the end.

        Raises:
            LineTooLong: `limit` bytes and no line end.
        """

    @abstractmethod
    async def wait(self) -> ExecResult:
        """Wait for its end. `stdout` is empty (it was for `read`); `stderr` is kept up to the limit."""

    @abstractmethod
    async def kill(self) -> None:
        """Kill its process group. What has left the group lives until the box is closed."""


class Sandbox(ABC):
    """A closed box with a writable `/box`, in which commands run.

    Files stay from one command to the next. Relative paths are below `/box`. Leaving the `async
    with` block ends every process in it.
    """

    python: str
    """Path of a Python interpreter inside; its minor version is the engine's."""

    @abstractmethod
    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> ExecResult:
        """Run a command to its end.

        Args:
            argv: Program and arguments; the program is searched on the box's PATH.
            stdin: Its whole standard input.
            env: Added to the box's few variables.
            cwd: Where it runs; `/box` when None.
            timeout: Seconds; the spec's when None. When it is up, every process in the box is
                killed: that is the one kill nothing inside can evade.

        Raises:
            SandboxError: It cannot be started.
            InfrastructureError: The box itself is gone.
        """

    @abstractmethod
    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> SandboxProcess:
        """Start a command that stays. It ends with the box at the latest.

        Raises:
            SandboxError: It cannot be started.
        """

    @abstractmethod
    async def write(self, path: str, data: bytes) -> None:
        """Write a file below `/box`, with the directories it needs; never through a link.

        Raises:
            SandboxError: The path leads outside or through a link, or there is no room.
        """

    @abstractmethod
    async def export(
        self, *patterns: str, max_files: int = 1000, max_bytes: int = 64 << 20
    ) -> dict[str, bytes]:
        """Regular files below `/box` whose relative path matches a pattern; `*` also crosses `/`.

        Links, devices, sockets and pipes are passed over; no directory is entered by a link. The
        bounds hold while the files are being read.

        Raises:
            SandboxError: More files or bytes than allowed.
        """

    @abstractmethod
    async def close(self) -> None:
        """Kill everything in the box and wait until it is gone. May be called twice."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

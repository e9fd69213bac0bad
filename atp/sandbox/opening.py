"""The door to the sandboxes: open one, or see whether one can be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal

from atp.protocol.errors import SandboxUnavailable, UnknownName
from atp.protocol.task import SandboxSpec
from atp.sandbox.bwrap import open_bwrap, process_limit
from atp.sandbox.interface import ProbeResult, Sandbox
from atp.sandbox.interpreter import prepared

Backend = Literal["auto", "bwrap"]


async def open_sandbox(
    spec: SandboxSpec, files: Mapping[str, bytes] | None = None, backend: Backend = "auto"
) -> Sandbox:
    """Open a sandbox; use it in an `async with` block.

    Args:
        spec: What holds inside.
        files: Path below `/box` -> content, written first.
        backend: `auto` takes the best one there is.

    Raises:
        SandboxUnavailable: None can be started here; says what to install or change. Code never
            runs outside of one instead.
        UnknownName: No such backend.
    """
    if backend not in ("auto", "bwrap"):
        raise UnknownName(f"no sandbox backend is named {backend!r}; there are: auto, bwrap")
    box = await open_bwrap(spec)
    try:
        for path, data in (files or {}).items():
            await box.write(path, data)
    except BaseException:
        await box.close()
        raise
    return box


async def probe(backend: Backend = "auto") -> ProbeResult:
    """Start a sandbox and run a command in it.

    Raises:
        SandboxUnavailable: That does not work here; says what to install or change.
    """
    async with await open_sandbox(SandboxSpec(), backend=backend) as box:
        said = await box.exec([box.python, "-I", "-S", "-c", "import sys; print(sys.version.split()[0])"])
        if said.exit_code != 0:
            raise SandboxUnavailable(f"Python does not run in the sandbox: {said.stderr.decode()!r}")
    binary = (await asyncio.to_thread(prepared, False))[0]
    asked = await asyncio.create_subprocess_exec(binary, "--version", stdout=asyncio.subprocess.PIPE)
    version, _ = await asked.communicate()
    nproc = "in the kernel" if process_limit(1) is not None else "by count, every 50 ms"
    return ProbeResult(
        backend="bwrap",
        version=version.decode().split()[-1],
        python=said.stdout.decode().strip(),
        holds=(
            "no network, no other processes, read-only system: namespaces",
            "memory, CPU, file size, open files of one process: rlimits",
            f"processes: {nproc}",
            "memory of all processes: twice the limit of one, by sum, every 50 ms",
            "files: tmpfs of a fixed size, number by count, every 50 ms",
        ),
    )

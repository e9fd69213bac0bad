"""The `bwrap` backend: one bubblewrap per box, with `box_init` as its process 1."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import platform
import random
from asyncio.subprocess import Process
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from atp.protocol.errors import SandboxUnavailable
from atp.protocol.task import SandboxSpec
from atp.sandbox.box import Box, first_frame
from atp.sandbox.interpreter import Interpreter, prepared

START_TIMEOUT = 30.0
"""Seconds for a box to come up on a loaded machine."""
SHARED_MEMORY = 16 << 20
"""Size of /dev/shm in bytes."""
_INSIDE_ID = "65534"
# Nobody's by convention of systemd (DynamicUser), and below 65536 so that it exists in the user
# namespace of a container too.
_UIDS = range(61184, 65520)
_uids_in_use: set[int] = set()


async def open_bwrap(spec: SandboxSpec) -> Box:
    """Start a box.

    Raises:
        SandboxUnavailable: It cannot be started here; says what to install or change.
    """
    if platform.system() != "Linux":
        raise SandboxUnavailable(f"the bwrap sandbox needs Linux, this is {platform.system()}")
    root = os.geteuid() == 0
    binary, python = await asyncio.to_thread(prepared, root)
    uid = _take_uid() if root else None
    box = None
    try:
        process = await _spawn(command_line(binary, python, spec), uid)
        version = await _hello(process)
        box = Box(process, spec, python=python.path, python_version=version, released=lambda: _release(uid))
        return box
    finally:
        if box is None:
            _release(uid)


def command_line(binary: Path, python: Interpreter, spec: SandboxSpec) -> list[str]:
    """The whole command; `docs/sandbox.md` says why each part is there."""
    line = [str(binary), "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
    line += ["--new-session", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "box", "--clearenv"]
    line += ["--uid", _INSIDE_ID, "--gid", _INSIDE_ID, "--ro-bind", "/usr", "/usr"]
    for place in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64")):
        if place.is_symlink():
            line += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            line += ["--ro-bind", str(place), str(place)]
    # Where libraries are, for Pythons whose own lies in /usr/local/lib.
    line += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for source, target in python.binds:
        line += ["--ro-bind", str(source), str(target)]
    for packages in python.hidden:
        line += ["--tmpfs", str(packages), "--remount-ro", str(packages)]
    line += ["--proc", "/proc", "--dev", "/dev"]
    line += ["--size", str(SHARED_MEMORY), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for writable in ("/box", "/tmp"):
        line += ["--size", str(spec.file_size), "--tmpfs", writable]
    line += ["--chdir", "/box", "--remount-ro", "/", "--", python.path, "-I", "-S", "-c", init_source()]
    limits = (
        spec.memory,
        math.ceil(spec.cpu),
        spec.processes,
        process_limit(spec.processes) or 0,
        spec.file_size,
        spec.open_files,
    )
    return line + [str(limit) for limit in limits]


@functools.cache
def init_source() -> str:
    """The program of process 1: the frames, the files, then the loop that uses them."""
    package = files("atp.sandbox")
    texts = [
        package.joinpath(f"{name}.py").read_text("utf-8") for name in ("box_frames", "box_files", "box_init")
    ]
    future = "from __future__ import annotations\n"
    return future + "".join(text.replace(future, "", 1) for text in texts)


def process_limit(processes: int) -> int | None:
    """RLIMIT_NPROC for so many processes of a box; None where the kernel cannot count them.

    Since Linux 5.14 it is counted by user namespace: the box's processes and its process 1. Before,
    by uid: as root a box has one of its own, which bwrap itself has too; otherwise the count would
    be that of everything the user runs.
    """
    major, minor = platform.release().split(".")[:2]
    if (int(major), int(minor.split("-")[0])) >= (5, 14):
        return processes + 1
    return processes + 2 if os.geteuid() == 0 else None


def explain(complaint: str) -> str:
    """What to change, given what bwrap said and what the kernel is set to."""
    found = [
        f"{name} is {value}: set it to {wanted} (`sysctl -w {name}={wanted}`)"
        for name, bad, wanted in (
            ("kernel.unprivileged_userns_clone", "0", "1"),
            ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
            ("user.max_user_namespaces", "0", "15000"),
        )
        if (value := _sysctl(name)) == bad
    ]
    if not found:
        found = [
            "user namespaces seem to be forbidden or restricted here; in a container, allow them"
            " (docker: `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`)"
        ]
    said = complaint.strip().splitlines()
    return f"bwrap cannot start a sandbox ({said[-1] if said else 'it said nothing'}). {'; '.join(found)}"


async def _spawn(command: Sequence[str], uid: int | None) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={},
            start_new_session=True,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else (),
        )
    except OSError as error:
        raise SandboxUnavailable(f"{command[0]} cannot be started: {error}") from error


async def _hello(process: Process) -> str:
    try:
        async with asyncio.timeout(START_TIMEOUT):
            return await first_frame(process)
    except (asyncio.IncompleteReadError, ValueError, TimeoutError) as error:
        raise SandboxUnavailable(explain(await _end(process))) from error
    except BaseException:
        await _end(process)
        raise


def _sysctl(name: str) -> str | None:
    path = Path("/proc/sys") / name.replace(".", "/")
    return path.read_text("ascii").strip() if path.exists() else None


def _take_uid() -> int:
    free: Sequence[int] = [uid for uid in _UIDS if uid not in _uids_in_use]
    if not free:
        raise SandboxUnavailable(f"{len(_UIDS)} sandboxes are open already")
    uid = random.SystemRandom().choice(free)
    _uids_in_use.add(uid)
    return uid


def _release(uid: int | None) -> None:
    if uid is not None:
        _uids_in_use.remove(uid)


async def _end(process: Process) -> str:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    _, complaint = await process.communicate()
    return complaint.decode("utf-8", "replace")

"""Who holds a lease: an engine's name, by which another on the same machine can tell that it is dead."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import psutil


def holder() -> str:
    """A name for this engine: where it runs, its process and when that started, and a random part."""
    process = psutil.Process()
    return f"{_machine()}/{process.pid}/{process.create_time():.2f}/{secrets.token_hex(4)}"


def is_gone(name: str) -> bool:
    """Whether an engine is known to be dead.

    Only an engine in the same boot and process namespace can be known; of all others it is false,
    and their lease has to run out.
    """
    machine, _, rest = name.partition("/")
    pid, _, rest = rest.partition("/")
    started = rest.partition("/")[0]
    if machine != _machine() or not pid.isdigit():
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" != started
    except psutil.NoSuchProcess:
        return True


def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    return f"{boot}.{namespace}"

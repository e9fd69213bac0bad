"""`ATP_HOME`: where fetched data and harness environments are kept, and how a folder there appears."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

LOCK_POLL = 0.05
"""Seconds between two looks at a lock that another process holds."""


def home() -> Path:
    """The folder `ATP_HOME` names, else the platform's user data folder; not created here."""
    named = os.environ.get("ATP_HOME")
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("atp")


@asynccontextmanager
async def building(folder: Path) -> AsyncIterator[Path | None]:
    """Make a folder that is either there and complete, or not there.

    One process builds at a time; a second one waits and finds the work done. What the block fills
    becomes `folder` when it ends without an error, and is removed otherwise.

    Args:
        folder: Where it is to be.

    Yields:
        An empty folder beside it to fill, or None when `folder` is already there.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder.parent / f".{folder.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _locked(descriptor):
            await asyncio.sleep(LOCK_POLL)
        if folder.exists():
            yield None
            return
        under_way = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            yield under_way
            under_way.chmod(0o755)
            under_way.rename(folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, under_way, ignore_errors=True)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Whether the lock is ours now. The kernel lets go of it with the process, however that ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

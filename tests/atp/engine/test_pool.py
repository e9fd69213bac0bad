"""A pool whose workers cannot be started says why, and can still be ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atp import registry
from atp.engine.pool import WorkerPool
from atp.protocol.redaction import Redactor


def never_asked(*record: object) -> asyncio.Future[None]:
    raise AssertionError(f"no worker ran, yet it recorded {record}")


async def test_an_interpreter_that_is_not_there_is_named_and_the_pool_still_ends(tmp_path: Path) -> None:
    pool = WorkerPool(
        registry.harness("thinloop"), tmp_path / "no-python", 1, tmp_path, never_asked, Redactor()
    )
    with pytest.raises(FileNotFoundError, match="no-python"):
        await pool.worker()
    await pool.stop()

"""An experiment belongs to one engine while it works on it; an engine that has lost it stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from atp.engine.holder import holder, is_gone
from atp.protocol.errors import StoreError
from atp.store.store import Store

LEASE = 30.0
"""Seconds an engine's claim on an experiment lasts without being renewed."""


@contextlib.asynccontextmanager
async def held(store: Store, experiment_id: str) -> AsyncIterator[None]:
    """While it lasts, the experiment is this engine's, and what an engine now gone left running is ended.

    Once another has taken it over, which can be when this process stood still for longer than `LEASE`,
    what runs within is cancelled.

    Args:
        store: Open for writing.
        experiment_id: Which.

    Raises:
        NotReady: `lease_held`: another engine runs it.
        StoreError: `lease_lost`: another engine has taken it over; or the lease could not be renewed.
    """
    name = holder()
    await store.acquire_lease(experiment_id, name, LEASE, is_gone)
    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(_renew(store, experiment_id, name))
            yield
            renewing.cancel()
    except BaseException as error:
        # Whatever it was says more than that the lease cannot be given back, which then runs out.
        with contextlib.suppress(StoreError):
            await store.release_lease(experiment_id, name)
        if isinstance(error, BaseExceptionGroup):
            raise error.exceptions[0] from error
        raise
    await store.release_lease(experiment_id, name)


async def _renew(store: Store, experiment_id: str, name: str) -> None:
    while True:
        await asyncio.sleep(LEASE / 3)
        await store.renew_lease(experiment_id, name, LEASE)

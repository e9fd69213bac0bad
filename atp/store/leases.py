"""Leases: which engine an experiment belongs to while it runs.

A lease lives as long as its holder renews it. Whoever takes an experiment over finds attempts that
nobody runs any more; they become `interrupted` in the transaction that takes the lease, and nowhere
else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from sqlalchemy import Connection, delete, insert, select, update

from atp.protocol.errors import NotReady, StoreError
from atp.store.attempts import interrupt_running
from atp.store.journal import note
from atp.store.rows import moment
from atp.store.schema import experiments, leases
from atp.store.statements import Prepared

_HOLDERS = Prepared(select(leases.c.experiment_id, leases.c.holder))


def acquire(
    connection: Connection, experiment_id: str, holder: str, ttl_s: float, is_gone: Callable[[str], bool]
) -> tuple[str, ...]:
    """Take the lease of an experiment, or renew it when it is the holder's own.

    The lease of a holder that is known to be dead counts as expired.

    Returns:
        The run ids of the attempts this made `interrupted`.

    Raises:
        StoreError: There is no such experiment.
        NotReady: `lease_held`: another holder is alive.
    """
    if connection.execute(select(experiments.c.id).where(experiments.c.id == experiment_id)).first() is None:
        raise StoreError(f"there is no experiment {experiment_id!r} to run")
    now = time.time_ns()
    found = connection.execute(select(leases).where(leases.c.experiment_id == experiment_id)).first()
    if found is not None and found.expires_ns > now and not is_gone(found.holder):
        if found.holder != holder:
            raise NotReady(
                f"experiment {experiment_id} is being run by {found.holder}: end that, "
                f"or wait until its lease expires at {moment(found.expires_ns).isoformat()}",
                code="lease_held",
            )
        renew(connection, experiment_id, holder, ttl_s)
        return ()
    connection.execute(delete(leases).where(leases.c.experiment_id == experiment_id))
    connection.execute(
        insert(leases),
        {
            "experiment_id": experiment_id,
            "holder": holder,
            "acquired_ns": now,
            "expires_ns": now + _ns(ttl_s),
        },
    )
    before = None if found is None else str(found.holder)
    note(connection, "lease_acquired", experiment_id, None, {"holder": holder, "before": before})
    gone = "nobody holds its lease" if before is None else f"{before} let its lease expire or is dead"
    return interrupt_running(connection, experiment_id, now, f"the engine that ran it is gone: {gone}")


def renew(connection: Connection, experiment_id: str, holder: str, ttl_s: float) -> None:
    """Keep a lease for another `ttl_s` seconds from now; also one that expired and nobody took.

    Raises:
        StoreError: `lease_lost`: it is no longer the holder's.
    """
    renewed = connection.execute(
        update(leases)
        .where(leases.c.experiment_id == experiment_id, leases.c.holder == holder)
        .values(expires_ns=time.time_ns() + _ns(ttl_s))
    )
    if renewed.rowcount != 1:
        raise _lost(experiment_id, holder)


def release(connection: Connection, experiment_id: str, holder: str) -> None:
    """Give a lease back.

    Raises:
        StoreError: `lease_lost`: it is no longer the holder's.
    """
    released = connection.execute(
        delete(leases).where(leases.c.experiment_id == experiment_id, leases.c.holder == holder)
    )
    if released.rowcount != 1:
        raise _lost(experiment_id, holder)
    note(connection, "lease_released", experiment_id, None, {"holder": holder})


def refuse_if_lost(connection: Connection, held: Mapping[str, str]) -> None:
    """Called within every transaction of an engine: one that stood still for longer than its lease
    lasted must not write beside who has taken over.

    Args:
        connection: In the writer's transaction.
        held: Experiment -> holder, as the engine knows it.

    Raises:
        StoreError: `lease_lost`: one of them has another holder by now, or none.
    """
    if not held:
        return
    holders: dict[str, str] = dict(_HOLDERS.run(connection, {}).fetchall())
    for experiment_id, holder in held.items():
        if holders.get(experiment_id) != holder:
            raise _lost(experiment_id, holder, holders.get(experiment_id))


def _lost(experiment_id: str, holder: str, by: str | None = None) -> StoreError:
    taken = f" but by {by}" if by is not None else ""
    return StoreError(
        f"experiment {experiment_id} is no longer run by {holder}{taken}: "
        "this engine stood still until its lease had expired, and writes nothing more",
        code="lease_lost",
    )


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)

"""The journal: every change of state, appended within the transaction that makes it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert

from atp.protocol.json_text import encode
from atp.store.schema import journal
from atp.store.statements import Prepared

_APPEND = Prepared(insert(journal), ["time_ns", "kind", "experiment_id", "run_id", "data"])


def note(
    connection: Connection, kind: str, experiment_id: str, run_id: str | None, data: Mapping[str, Any]
) -> None:
    """Append an entry; its sequence number is the next one of the whole database."""
    _APPEND.run(
        connection,
        {
            "time_ns": time.time_ns(),
            "kind": kind,
            "experiment_id": experiment_id,
            "run_id": run_id,
            "data": encode(dict(data)).decode(),
        },
    )

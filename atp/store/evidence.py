"""The evidence document of a run: made once, its bytes kept."""

from __future__ import annotations

import time

from sqlalchemy import Connection, insert, select

from atp.protocol.errors import StoreError
from atp.store.bodies import digest_of
from atp.store.journal import note
from atp.store.operations import Operation
from atp.store.redacting import StoreRedaction
from atp.store.schema import RUNNING, attempts, cells, evidence


def keeping(run_id: str, content: bytes, redaction: StoreRedaction) -> Operation:
    """The operation that keeps a document, if the run has none yet; gives the digest of the run's.

    Args:
        run_id: A run that has ended.
        content: The document.
        redaction: Has the document pass before it is stored.
    """
    digest = digest_of(content)

    def transaction(connection: Connection) -> str:
        kept = connection.execute(select(evidence.c.digest).where(evidence.c.run_id == run_id)).scalar()
        if kept is not None:
            return str(kept)
        about = select(attempts.c.status, cells.c.experiment_id).join(cells, cells.c.id == attempts.c.cell_id)
        found = connection.execute(about.where(attempts.c.run_id == run_id)).first()
        if found is None or found.status == RUNNING:
            state = "is not here" if found is None else "has not ended"
            raise StoreError(f"run {run_id} {state}: there is no evidence to keep", code="evidence_not_final")
        stored = redaction.digest(digest)
        connection.execute(insert(evidence).values(run_id=run_id, digest=stored, made_ns=time.time_ns()))
        note(connection, "evidence_made", found.experiment_id, run_id, {"sha256": stored})
        return stored

    return Operation(bodies=[(digest, content)], transaction=transaction)

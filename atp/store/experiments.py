"""Writing an experiment: its frozen definition, its cells, and its slots with their tasks."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, update

from atp.protocol.json_text import encode
from atp.protocol.redaction import Redactor
from atp.protocol.task import TaskInput
from atp.store.bodies import digest_of
from atp.store.journal import note
from atp.store.operations import Body, Operation
from atp.store.redacting import StoreRedaction
from atp.store.rows import CellRow, ExperimentRow, NewSlot, nanoseconds
from atp.store.schema import cells, experiments, slots


def creation(
    experiment: ExperimentRow,
    new_cells: Sequence[CellRow],
    new_slots: Sequence[NewSlot],
    redaction: StoreRedaction,
) -> Operation:
    """The operation that stores an experiment as a whole."""
    digests, bodies = _tasks(new_slots)
    bodies = redaction.bodies(bodies)
    digests = [redaction.digest(digest) for digest in digests]
    # The keys of a definition are data, task ids among them.
    definition = redaction.redactor.value(dict(experiment.definition), by_name=False)

    def transaction(connection: Connection) -> None:
        connection.execute(
            insert(experiments),
            {
                "id": experiment.id,
                "name": redaction.text(experiment.name),
                "created_ns": nanoseconds(experiment.created_at),
                "digest": experiment.digest,
                "definition": encode(definition).decode(),
            },
        )
        if new_cells:
            connection.execute(insert(cells), [_cell(cell, redaction.redactor) for cell in new_cells])
        if new_slots:
            connection.execute(
                insert(slots), [_slot(slot, digest) for slot, digest in zip(new_slots, digests, strict=True)]
            )
        note(
            connection,
            "experiment_created",
            experiment.id,
            None,
            {"digest": experiment.digest, "cells": len(new_cells), "slots": len(new_slots)},
        )

    return Operation(bodies=bodies, transaction=transaction, redacted=True)


def mixing(
    experiment_id: str, cell_ids: Sequence[str], differences: Sequence[str], redaction: StoreRedaction
) -> Operation:
    """The operation that marks cells as made of unlike attempts, and says in the journal why."""

    def transaction(connection: Connection) -> None:
        connection.execute(
            update(cells)
            .where(cells.c.experiment_id == experiment_id, cells.c.id.in_(cell_ids))
            .values(mixed=True)
        )
        note(
            connection,
            "drift_allowed",
            experiment_id,
            None,
            {
                "cells": list(cell_ids),
                "differences": [redaction.redactor.text(difference) for difference in differences],
            },
        )

    return Operation(transaction=transaction)


def _tasks(new_slots: Sequence[NewSlot]) -> tuple[list[str], list[Body]]:
    known: dict[int, str] = {}  # a task is one object in all cells and repeats
    bodies: dict[str, bytes] = {}
    digests: list[str] = []
    for slot in new_slots:
        digest = known.get(id(slot.task))
        if digest is None:
            content = _task_json(slot.task)
            digest = known[id(slot.task)] = digest_of(content)
            bodies[digest] = content
        digests.append(digest)
    return digests, list(bodies.items())


def _task_json(task: TaskInput) -> bytes:
    return encode(task)


def _cell(cell: CellRow, redactor: Redactor) -> dict[str, object]:
    return {
        "id": cell.id,
        "experiment_id": cell.experiment_id,
        "position": cell.index,
        "benchmark": cell.benchmark,
        "harness": cell.harness,
        "model": redactor.text(cell.model),
        "simulated": cell.simulated,
        "mixed": cell.mixed,
        "definition": encode(redactor.value(dict(cell.definition), by_name=False)).decode(),
    }


def _slot(slot: NewSlot, digest: str) -> dict[str, object]:
    return {
        "id": slot.id,
        "cell_id": slot.cell_id,
        "position": slot.index,
        "task_id": slot.task.task_id,
        "repeat": slot.repeat,
        "seed": slot.seed,
        "task_digest": digest,
    }

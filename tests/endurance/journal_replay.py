"""The journal against the tables: what it tells, played from its first entry, is what they hold."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, select

from atp.protocol.json_text import decode
from atp.protocol.status import Status
from atp.store import schema


@dataclass
class _Played:
    """The state that a journal leads to."""

    holders: dict[str, str] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    slot: dict[str, tuple[str, int]] = field(default_factory=dict)
    grades: defaultdict[str, list[float | None]] = field(default_factory=lambda: defaultdict(list))
    slots: dict[str, int] = field(default_factory=dict)

    def play(self, kind: str, experiment: str, run: str, data: dict[str, Any]) -> None:
        """One entry. Raises `AssertionError` where it cannot follow what came before it."""
        match kind:
            case "experiment_created":
                assert experiment not in self.slots
                self.slots[experiment] = data["slots"]
            case "lease_acquired":
                assert self.holders.get(experiment) == data["before"]
                self.holders[experiment] = data["holder"]
            case "lease_released":
                assert self.holders.pop(experiment) == data["holder"]
            case "attempt_started":
                assert experiment in self.holders and run not in self.status
                assert (data["slot"], data["try"]) not in self.slot.values()
                self.slot[run], self.status[run] = (data["slot"], data["try"]), schema.RUNNING
            case "attempt_ended":
                assert experiment in self.holders
                self._end(run, data["status"])
            case "attempt_interrupted":
                self._end(run, Status.INTERRUPTED)
            case "graded":
                assert Status(self.status[run]).gradable
                self.grades[run].append(data["score"])
            case "budget_set" | "budget_spent" | "drift_allowed" | "evidence_made":
                assert experiment in self.slots
            case _:
                raise AssertionError(f"the journal has an entry of unknown kind {kind!r}")

    def _end(self, run: str, status: str) -> None:
        assert self.status[run] == schema.RUNNING, f"{run} ended twice"
        self.status[run] = str(status)


def check_journal(database: Path) -> int:
    """Hold the journal of a database against its tables, and its references against what they name.

    Returns:
        How many entries there are.
    """
    engine = create_engine(f"sqlite:///file:{database}?mode=ro&uri=true")
    try:
        with engine.connect() as connection:
            return _check(connection)
    finally:
        engine.dispose()


def _check(connection: Connection) -> int:
    assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
    entries = connection.execute(select(schema.journal).order_by(schema.journal.c.sequence)).all()
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))  # no gap
    played = _Played()
    for entry in entries:
        played.play(entry.kind, entry.experiment_id, entry.run_id, decode(entry.data))
    attempts = connection.execute(select(schema.attempts)).all()
    assert {row.run_id: row.status for row in attempts} == played.status
    assert {row.run_id: (row.slot_id, row.try_number) for row in attempts} == played.slot
    leases = connection.execute(select(schema.leases)).all()
    assert {row.experiment_id: row.holder for row in leases} == played.holders
    made: defaultdict[str, int] = defaultdict(int)
    of_cell = {row.id: row.experiment_id for row in connection.execute(select(schema.cells))}
    for row in connection.execute(select(schema.slots.c.cell_id)):
        made[of_cell[row.cell_id]] += 1
    assert {experiment: made[experiment] for experiment in played.slots} == played.slots
    stored: defaultdict[str, list[float | None]] = defaultdict(list)
    last: dict[str, int] = {}
    for row in connection.execute(select(schema.grades).order_by(schema.grades.c.sequence)):
        stored[row.run_id].append(row.score)
        last[row.run_id] = row.sequence
    assert stored == played.grades
    assert {row.run_id: row.grade_sequence for row in attempts if row.grade_sequence is not None} == last
    return len(entries)

"""Reading. Every question is one short transaction on a connection that cannot write, so a reader
beside a live run disturbs nothing; answers hold what was durable at that moment.

The methods block for as long as SQLite takes, well under a millisecond for one trace; on an event
loop the larger ones belong into a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select

from atp.protocol.errors import InvalidInput, StoreError, UnknownName
from atp.protocol.json_text import decode
from atp.protocol.names import nearest
from atp.protocol.spans import ParentSource, Span, SpanEvent, SpanKind, SpanStatus
from atp.protocol.status import Status
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from atp.store.bodies import body_content, check_digest, load_closure, resolve
from atp.store.database import Database
from atp.store.rows import AttemptRow, CellRow, ExperimentRow, JournalEntry, SlotRow, moment
from atp.store.schema import (
    RUNNING,
    attempts,
    bodies,
    calls,
    cells,
    evidence,
    experiments,
    grades,
    journal,
    slots,
    spans,
)

_GRADABLE = [str(status) for status in Status if status.gradable]
_CHUNK = 500  # keys asked for in one query; databases bound the parameters of a statement

_attempts_graded = (
    attempts.join(slots, slots.c.id == attempts.c.slot_id)
    .join(cells, cells.c.id == attempts.c.cell_id)
    .join(grades, grades.c.sequence == attempts.c.grade_sequence, isouter=True)
)
"""Every attempt with its slot, its cell, and the grade in force if it has one."""


class StoreReader:
    """All questions to a database; implements `atp.protocol.spans.TraceReader`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def path(self) -> Path:
        """The database file."""
        return self._database.path

    def experiments(self) -> list[ExperimentRow]:
        """All experiments, the oldest first."""
        with self._database.read() as connection:
            query = select(experiments).order_by(experiments.c.created_ns, experiments.c.id)
            return [_experiment(row) for row in connection.execute(query)]

    def experiment(self, ref: str | None = None) -> ExperimentRow:
        """An experiment by its id, its name or the beginning of its id; None is the newest.

        Raises:
            UnknownName: There is none such; names the nearest.
            InvalidInput: There are several.
        """
        found = self.experiments()
        if not found:
            raise UnknownName(f"{self.path} holds no experiment yet: `atp run` makes one")
        if ref is None:
            return found[-1]
        named = (
            [one for one in found if one.id == ref]
            or [one for one in found if one.name == ref]
            or [one for one in found if ref and one.id.startswith(ref)]
        )
        if not named:
            raise _unknown(
                "experiment", ref, [n for one in found for n in (one.id, one.name) if n], self.path
            )
        if len(named) > 1:
            raise _ambiguous("experiment", ref, [one.id for one in named])
        return named[0]

    def cells(self, experiment_id: str) -> list[CellRow]:
        """The cells of an experiment, in its order."""
        query = select(cells).where(cells.c.experiment_id == experiment_id).order_by(cells.c.position)
        with self._database.read() as connection:
            return [_cell(row) for row in connection.execute(query)]

    def cell(self, cell_id: str) -> CellRow:
        """A cell by its id.

        Raises:
            UnknownName: There is none such.
        """
        with self._database.read() as connection:
            row = connection.execute(select(cells).where(cells.c.id == cell_id)).first()
        if row is None:
            raise UnknownName(f"{self.path} holds no cell {cell_id!r}")
        return _cell(row)

    def slots(self, experiment_id: str) -> list[SlotRow]:
        """The slots of an experiment, cell by cell, in their order."""
        query = (
            select(slots)
            .join(cells, cells.c.id == slots.c.cell_id)
            .where(cells.c.experiment_id == experiment_id)
            .order_by(cells.c.position, slots.c.position)
        )
        with self._database.read() as connection:
            return [_slot(row) for row in connection.execute(query)]

    def task(self, slot: SlotRow) -> TaskInput:
        """A slot's task, gold included.

        Raises:
            StoreError: `body_missing`.
        """
        return TaskInput.model_validate(decode(self.body_bytes(slot.task_digest)))

    def attempts(self, experiment_id: str) -> list[AttemptRow]:
        """All attempts of an experiment, failed tries included: by cell, slot and try."""
        return self._attempt_rows(cells.c.experiment_id == experiment_id)

    def ungraded(self, experiment_id: str) -> list[AttemptRow]:
        """Attempts that can be graded and have no score: never graded, or graded without one."""
        return self._attempt_rows(
            cells.c.experiment_id == experiment_id,
            attempts.c.status.in_(_GRADABLE),
            grades.c.score.is_(None),
        )

    def attempt(self, ref: str) -> AttemptRow:
        """An attempt by its run id or the beginning of it, `run-` or not.

        Raises:
            UnknownName: There is none such; names the nearest.
            InvalidInput: There are several.
        """
        with self._database.read() as connection:
            starts = [attempts.c.run_id.startswith(head, autoescape=True) for head in (ref, f"run-{ref}")]
            query = select(attempts.c.run_id).where(starts[0] | starts[1]).order_by(attempts.c.run_id)
            found = [str(run_id) for run_id in connection.execute(query).scalars()] if ref else []
            if ref in found:
                found = [ref]
            if not found:
                known = connection.execute(select(attempts.c.run_id)).scalars().all()
                raise _unknown("run", ref, known, self.path)
            if len(found) > 1:
                raise _ambiguous("run", ref, found)
        return self._attempt_rows(attempts.c.run_id == found[0])[0]

    def evidence(self, run_id: str) -> bytes | None:
        """The evidence document of a run, byte for byte; None where none was made.

        Raises:
            StoreError: `body_missing` or `body_damaged`.
        """
        with self._database.read() as connection:
            query = select(evidence.c.digest).where(evidence.c.run_id == run_id)
            digest = connection.execute(query).scalar()
        return None if digest is None else self.body_bytes(str(digest))

    def grades(self, run_id: str) -> list[Grade]:
        """All grades of a run, the first one first; the last is in force."""
        query = select(grades).where(grades.c.run_id == run_id).order_by(grades.c.sequence)
        with self._database.read() as connection:
            return [_grade(row) for row in connection.execute(query)]

    def journal(self, after: int = 0, limit: int = 1000) -> list[JournalEntry]:
        """Changes of state in their order.

        Args:
            after: The last sequence number already seen.
            limit: At most so many.
        """
        query = select(journal).where(journal.c.sequence > after).order_by(journal.c.sequence).limit(limit)
        with self._database.read() as connection:
            return [_entry(row) for row in connection.execute(query)]

    def last_entry(self, experiment_id: str, kinds: Sequence[str]) -> JournalEntry | None:
        """The newest entry of an experiment that is of one of these kinds."""
        query = (
            select(journal)
            .where(journal.c.experiment_id == experiment_id, journal.c.kind.in_(kinds))
            .order_by(journal.c.sequence.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else _entry(row)

    def spans(self, run_id: str) -> list[Span]:
        """All spans of a run, by start time."""
        query = select(spans).where(spans.c.run_id == run_id).order_by(spans.c.start_ns, spans.c.span_id)
        with self._database.read() as connection:
            return [_span(row) for row in connection.execute(query)]

    def body(self, digest: str) -> Any:
        """A body as JSON; a list body comes as the list of its items.

        Raises:
            StoreError: `body_missing`, `body_damaged` or `body_not_json`.
        """
        with self._database.read() as connection:
            return resolve(load_closure([digest], lambda some: self._contents(connection, some), decode))[
                digest
            ]

    def bodies(self, run_id: str) -> dict[str, Any]:
        """All bodies that the spans of a run name: digest -> value as `body` gives it.

        Raises:
            StoreError: See `body`.
        """
        named = {digest for span in self.spans(run_id) for digest in span.bodies.values()}
        with self._database.read() as connection:
            return resolve(load_closure(named, lambda some: self._contents(connection, some), decode))

    def body_bytes(self, digest: str) -> bytes:
        """A body's bytes, exactly as they were handed over.

        Raises:
            StoreError: `body_missing` or `body_damaged`.
        """
        check_digest(digest)
        with self._database.read() as connection:
            found = self._contents(connection, {digest})
        if digest not in found:
            raise StoreError(f"body {digest} is not in the store", code="body_missing")
        return found[digest]

    def _contents(self, connection: Connection, digests: set[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        wanted = sorted(digests)
        for start in range(0, len(wanted), _CHUNK):
            query = select(bodies).where(bodies.c.digest.in_(wanted[start : start + _CHUNK]))
            for digest, size, encoding, content in connection.execute(query):
                found[digest] = body_content((digest, size, encoding, content), self._database.bodies)
        return found

    def _attempt_rows(self, *wanted: ColumnElement[bool]) -> list[AttemptRow]:
        columns: list[ColumnElement[Any]] = [
            *attempts.columns,
            slots.c.position,
            slots.c.task_id,
            slots.c.repeat,
            slots.c.seed,
            slots.c.task_digest,
            *(grades.c[name].label(f"grade_{name}") for name in Grade.model_fields),
        ]
        ordered = (cells.c.position, slots.c.position, attempts.c.try_number)
        query = select(*columns).select_from(_attempts_graded).where(*wanted).order_by(*ordered)
        run_ids = select(attempts.c.run_id).select_from(_attempts_graded).where(*wanted)
        of_calls = select(calls).where(calls.c.run_id.in_(run_ids)).order_by(calls.c.run_id, calls.c.position)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
            called = connection.execute(of_calls).all()
            contents = self._contents(
                connection,
                {row.trace_digest for row in rows if row.trace_digest}
                | {digest for call in called for digest in (call.arguments, call.result)},
            )
        made: dict[str, list[Row[Any]]] = {}
        for call in called:
            made.setdefault(call.run_id, []).append(call)
        return [_attempt(row, made.get(row.run_id, []), contents) for row in rows]


def _experiment(row: Row[Any]) -> ExperimentRow:
    return ExperimentRow(row.id, row.name, moment(row.created_ns), decode(row.definition), row.digest)


def _entry(row: Row[Any]) -> JournalEntry:
    return JournalEntry(row.sequence, row.time_ns, row.kind, row.experiment_id, row.run_id, decode(row.data))


def _cell(row: Row[Any]) -> CellRow:
    return CellRow(
        row.id,
        row.experiment_id,
        row.position,
        row.benchmark,
        row.harness,
        row.model,
        row.simulated,
        row.mixed,
        decode(row.definition),
    )


def _slot(row: Row[Any]) -> SlotRow:
    return SlotRow(row.id, row.cell_id, row.position, row.task_id, row.repeat, row.seed, row.task_digest)


def _attempt(row: Row[Any], made: Sequence[Row[Any]], contents: Mapping[str, bytes]) -> AttemptRow:
    slot = SlotRow(row.slot_id, row.cell_id, row.position, row.task_id, row.repeat, row.seed, row.task_digest)
    running = row.status == RUNNING
    return AttemptRow(
        run_id=row.run_id,
        slot=slot,
        try_number=row.try_number,
        trace_id=row.trace_id,
        started_at=moment(row.started_ns),
        ended_at=None if running else moment(row.ended_ns),
        status=None if running else Status(row.status),
        trace=None if running else _trace(row, made, contents),
        grade=None if row.grade_sequence is None else _grade(row, "grade_"),
    )


def _trace(row: Row[Any], made: Sequence[Row[Any]], contents: Mapping[str, bytes]) -> TaskTrace:
    if row.trace_digest not in contents:
        raise StoreError(f"the trace of run {row.run_id} is not in the store", code="body_missing")
    trace = TaskTrace.model_validate(decode(contents[row.trace_digest]))
    if not made:
        return trace
    tool_calls = [
        {
            "id": call.id,
            "id_source": call.id_source,
            "name": call.name,
            "arguments": decode(contents[call.arguments]),
            "result": decode(contents[call.result]),
            "error": call.error,
            "start": moment(call.start_ns),
            "end": moment(call.end_ns),
            "span_id": call.span_id,
        }
        for call in made
    ]
    return trace.model_copy(
        update={"tool_calls": TaskTrace.model_validate({"tool_calls": tool_calls}).tool_calls}
    )


def _grade(row: Row[Any], prefix: str = "") -> Grade:
    values = {name: getattr(row, prefix + name) for name in Grade.model_fields}
    return Grade.model_validate({**values, "details": decode(values["details"])})


def _span(row: Row[Any]) -> Span:
    return Span(
        run_id=row.run_id,
        trace_id=row.trace_id,
        span_id=row.span_id,
        parent_id=row.parent_id,
        parent_source=ParentSource(row.parent_source),
        kind=SpanKind(row.kind),
        name=row.name,
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        status=SpanStatus(row.status),
        attributes=decode(row.attributes),
        bodies=decode(row.bodies),
        error_type=row.error_type,
        error_message=row.error_message,
        events=tuple(SpanEvent(**event) for event in decode(row.events)),
    )


def _unknown(what: str, ref: str, known: Sequence[str], path: Path) -> UnknownName:
    return UnknownName(f"{path} holds no {what} {ref!r}{nearest(ref, known)}")


def _ambiguous(what: str, ref: str, ids: Sequence[str]) -> InvalidInput:
    shown = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
    return InvalidInput(f"{ref!r} names {len(ids)} {what}s: {shown}; give more of the id")

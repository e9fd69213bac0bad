"""Writing attempts and grades.

An attempt begins `running` and ends once; its end holds the whole `TaskTrace`. Columns beside it are
there to be queried. The tool calls are rows of their own, written as they happen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, case, insert, literal_column, select, update

from atp.protocol.errors import AtpError, StoreError
from atp.protocol.json_text import encode
from atp.protocol.spans import SpanStatus
from atp.protocol.status import ErrorInfo, Status, StopReason
from atp.protocol.trace import Grade, TaskTrace, Usage
from atp.protocol.unicode_text import well_formed
from atp.store.bodies import digest_of
from atp.store.journal import note
from atp.store.operations import Body, CallRow, Operation, call_row
from atp.store.redacting import StoreRedaction
from atp.store.rows import AttemptStart, moment, nanoseconds
from atp.store.schema import RUNNING, attempts, bodies, calls, cells, grades, leases, slots, spans
from atp.store.statements import Prepared, insert_for, insert_for_attempt

_TOKENS = tuple(Usage.model_fields)
_CALL_COLUMNS = tuple(column.name for column in calls.columns)
_GRADABLE = tuple(str(status) for status in Status if status.gradable)
_EXPERIMENT = (
    select(cells.c.experiment_id)
    .where(cells.c.id == attempts.c.cell_id)
    .correlate(attempts)
    .scalar_subquery()
    .label("experiment_id")
)

_SLOT = Prepared(
    select(slots.c.cell_id, cells.c.experiment_id, leases.c.holder)
    .select_from(slots)
    .join(cells, cells.c.id == slots.c.cell_id)
    .join(leases, leases.c.experiment_id == cells.c.experiment_id, isouter=True)
    .where(slots.c.id == bindparam("slot"))
)
_BEGIN = Prepared(
    insert(attempts), ["run_id", "slot_id", "cell_id", "try_number", "trace_id", "started_ns", "status"]
)
_STATUS = Prepared(select(attempts.c.status).where(attempts.c.run_id == bindparam("run")))
_CALLS = Prepared(select(calls).where(calls.c.run_id == bindparam("run")))
_CALL = Prepared(insert(calls), _CALL_COLUMNS)
_END = Prepared(
    update(attempts)
    .where(attempts.c.run_id == bindparam("run"), attempts.c.status == RUNNING)
    .returning(_EXPERIMENT),
    [
        "ended_ns",
        "status",
        "stop_reason",
        "turns",
        "cost",
        "elapsed",
        "error_code",
        "error_fault",
        "trace_digest",
        *_TOKENS,
    ],
)
_GRADE = Prepared(
    insert_for_attempt(
        grades,
        [column.name for column in grades.columns if column.name not in ("sequence", "run_id")],
        attempts.c.status.in_([literal_column(f"'{status}'") for status in _GRADABLE]),
    ).returning(grades.c.sequence)
)
_IN_FORCE = Prepared(
    update(attempts).where(attempts.c.run_id == bindparam("run")).returning(_EXPERIMENT), ["grade_sequence"]
)


def begin(connection: Connection, start: AttemptStart, holders: Mapping[str, str]) -> None:
    """Begin an attempt.

    Args:
        connection: In the writer's transaction.
        start: The attempt.
        holders: Experiment -> holder, the leases of this store.

    Raises:
        StoreError: There is no such slot; or its experiment's lease is not this store's (`lease_lost`).
    """
    found = _SLOT.run(connection, {"slot": start.slot_id}).fetchone()
    if found is None:
        raise StoreError(f"there is no slot {start.slot_id!r} to begin an attempt at")
    cell_id, experiment_id, holder = found
    if holder is None or holder != holders.get(experiment_id):
        raise StoreError(
            f"run {start.run_id} cannot begin: the lease of experiment {experiment_id} is held by "
            f"{holder or 'nobody'}, not by this engine",
            code="lease_lost",
        )
    _BEGIN.run(
        connection,
        {
            "run_id": start.run_id,
            "slot_id": start.slot_id,
            "cell_id": cell_id,
            "try_number": start.try_number,
            "trace_id": start.trace_id,
            "started_ns": nanoseconds(start.started_at),
            "status": RUNNING,
        },
    )
    note(
        connection,
        "attempt_started",
        experiment_id,
        start.run_id,
        {"slot": start.slot_id, "try": start.try_number},
    )


def ending(
    run_id: str, trace: TaskTrace, incomplete: Mapping[str, AtpError], redaction: StoreRedaction
) -> Operation:
    """The operation that ends an attempt.

    Calls of the trace that are not stored yet are stored with it; one that differs from what was
    stored when it happened refuses the end. So does a record of the run that was refused before, unless
    the status is one that nobody grades.

    Args:
        run_id: The attempt.
        trace: All that is known of it.
        incomplete: Run -> what befell a record of it, as it is when the transaction runs.
        redaction: As the calls passed it when they happened.

    Raises:
        StoreError: The trace has no status, or is another run's.
    """
    if trace.status is None:
        raise StoreError(f"the trace of run {run_id} does not say how the run ended")
    if trace.run_id != run_id:
        raise StoreError(f"the trace of run {trace.run_id} was given as the end of run {run_id}")
    status = trace.status
    made: list[CallRow] = []
    raw: dict[str, bytes] = {}
    for position, call in enumerate(trace.tool_calls):
        row, pair = call_row(run_id, position, call)
        made.append(row)
        raw.update(pair)
    contents = redaction.bodies(raw.items())
    listed = redaction.calls(made)
    document = _body(redaction.document(trace, calls_changed=listed != made))
    contents.append(document)

    def transaction(connection: Connection) -> None:
        if status.gradable and (refusal := incomplete.get(run_id)) is not None:
            raise StoreError(
                f"run {run_id} cannot end as {status}: a record of it could not be stored: {refusal}",
                code="records_refused",
            ) from refusal
        experiment_id = _end(connection, run_id, trace, document[0], time.time_ns())
        if experiment_id is None:
            raise StoreError(
                f"run {run_id} has ended ({_status(connection, run_id)}) and cannot end again as {status}",
                code="attempt_ended",
            )
        _store_calls(connection, run_id, listed)
        note(
            connection,
            "attempt_ended",
            experiment_id,
            run_id,
            {"status": status, "stop_reason": trace.stop_reason},
        )

    return Operation(bodies=contents, transaction=transaction, redacted=True)


def interrupt_running(connection: Connection, experiment_id: str, at_ns: int, why: str) -> tuple[str, ...]:
    """End what an engine left running, with its open spans aborted. Returns the run ids."""
    running = connection.execute(
        select(attempts, slots.c.task_id, cells.c.harness, cells.c.model)
        .join(slots, slots.c.id == attempts.c.slot_id)
        .join(cells, cells.c.id == slots.c.cell_id)
        .where(cells.c.experiment_id == experiment_id, attempts.c.status == RUNNING)
        .order_by(attempts.c.run_id)
    ).all()
    for row in running:
        error = ErrorInfo(code="interrupted", message=why)
        trace = TaskTrace(
            run_id=row.run_id,
            trace_id=row.trace_id,
            task_id=row.task_id,
            harness=row.harness,
            model_asked=row.model,
            status=Status.INTERRUPTED,
            stop_reason=StopReason.INTERRUPTED,
            started_at=moment(row.started_ns),
            error=error,
        )
        digest, content = _body(encode(trace, exclude={"tool_calls"}))
        # A document of a few hundred bytes: it goes in as it is.
        connection.execute(
            insert_for(connection.dialect, bodies).on_conflict_do_nothing(index_elements=["digest"]),
            {"digest": digest, "size": len(content), "encoding": "raw", "content": content},
        )
        _end(connection, row.run_id, trace, digest, at_ns)
        abort_open_spans(connection, row.run_id, at_ns)
        note(connection, "attempt_interrupted", experiment_id, row.run_id, {"reason": why})
    return tuple(row.run_id for row in running)


def abort_open_spans(connection: Connection, run_id: str, at_ns: int) -> int:
    """Mark the spans of a run that have not ended; an end that still comes replaces the mark."""
    return connection.execute(
        update(spans)
        .where(spans.c.run_id == run_id, spans.c.end_ns.is_(None))
        .values(
            status=str(SpanStatus.ABORTED),
            end_ns=case((spans.c.start_ns > at_ns, spans.c.start_ns), else_=at_ns),
            error_type="aborted",
        )
    ).rowcount


def grade(connection: Connection, run_id: str, verdict: Grade) -> None:
    """Append a grade; the latest is the one in force.

    Raises:
        StoreError: The run has not ended in a way that can be graded, or the score is not a number.
    """
    if verdict.score is not None and not math.isfinite(verdict.score):
        raise StoreError(f"the score of run {run_id} is {verdict.score}, which is not a number to keep")
    appended = _GRADE.run(
        connection,
        {
            "run": run_id,
            "time_ns": time.time_ns(),
            "score": verdict.score,
            "passed": verdict.passed,
            "reason": well_formed(verdict.reason),
            "fault": verdict.fault and str(verdict.fault),
            "grader": verdict.grader,
            "grader_version": verdict.grader_version,
            "details": encode(dict(verdict.details)).decode(),
        },
    )
    sequence = appended.fetchall()  # one, or none where there is nothing to grade
    if not sequence:
        raise StoreError(
            f"run {run_id} is {_status(connection, run_id)}, which is not graded", code="not_gradable"
        )
    [experiment] = _IN_FORCE.run(connection, {"run": run_id, "grade_sequence": sequence[0][0]}).fetchall()
    note(
        connection,
        "graded",
        experiment[0],
        run_id,
        {"score": verdict.score, "reason": verdict.reason, "grader_version": verdict.grader_version},
    )


def _body(document: bytes) -> Body:
    """The document of a trace, by its digest."""
    return digest_of(document), document


def _status(connection: Connection, run_id: str) -> str:
    found = _STATUS.run(connection, {"run": run_id}).fetchone()
    if found is None:
        raise StoreError(f"there is no run {run_id!r}")
    return str(found[0])


def _store_calls(connection: Connection, run_id: str, listed: list[CallRow]) -> None:
    if not listed:
        return
    stored: dict[int, CallRow] = {row[1]: row for row in _CALLS.run(connection, {"run": run_id}).fetchall()}
    new: list[CallRow] = []
    for row in listed:
        before = stored.get(row[1])
        if before is None:
            new.append(row)
        elif before != row:
            raise StoreError(
                f"call {row[1]} of run {run_id} is not what was stored when it happened: "
                f"{row[2:]} against {before[2:]}",
                code="call_altered",
            )
    for row in new:
        _CALL.run(connection, dict(zip(_CALL_COLUMNS, row, strict=True)))


def _end(connection: Connection, run_id: str, trace: TaskTrace, digest: str, at_ns: int) -> str | None:
    """The experiment of the attempt that ended now; None where no such attempt is running."""
    ended = _END.run(
        connection,
        {
            "run": run_id,
            "ended_ns": at_ns,
            "status": trace.status and str(trace.status),
            "stop_reason": trace.stop_reason and str(trace.stop_reason),
            "turns": trace.turns,
            "cost": trace.cost,
            "elapsed": trace.elapsed,
            "error_code": trace.error and trace.error.code,
            "error_fault": trace.error and str(trace.error.fault),
            "trace_digest": digest,
            **{name: getattr(trace.usage, name) for name in _TOKENS},
        },
    ).fetchall()
    return str(ended[0][0]) if ended else None

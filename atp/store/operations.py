"""What the writer is asked to write, and how it becomes rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, select

from atp.protocol.errors import StoreError
from atp.protocol.json_text import encode
from atp.protocol.spans import AttributeValue, SpanEnd, SpanStart, SpanStatus
from atp.protocol.trace import ToolCall
from atp.protocol.unicode_text import well_formed
from atp.store.bodies import digest_of
from atp.store.rows import nanoseconds
from atp.store.schema import RUNNING, attempts, calls
from atp.store.statements import HotStatements, Prepared, insert_for_attempt

_CALL_COLUMNS = ("run", *(column.name for column in calls.columns if column.name != "run_id"))
_CALL = Prepared(insert_for_attempt(calls, _CALL_COLUMNS[1:], attempts.c.status == RUNNING))
_STATUS = Prepared(select(attempts.c.status).where(attempts.c.run_id == bindparam("run")))

CallRow = tuple[str, int, str, str, str, str, str, str | None, int, int, str]
"""A row of the table `calls`, in the order of its columns."""

Body = tuple[str, bytes]
"""(digest, content)"""


@dataclass(slots=True)  # not frozen: freezing doubles the cost of making one, which is paid per span
class Operation:
    """One unit of writing: all of it is stored, or none. Bodies go first, the transaction last."""

    bodies: Sequence[Body] = ()
    starts: Sequence[SpanStart] = ()
    ends: Sequence[SpanEnd] = ()
    calls: Sequence[CallRow] = ()
    runs: Sequence[str] = ()
    """Whose records these are, besides the runs that spans and calls name themselves."""
    claims: bool = False
    """Whether it takes a lease, so that it may be written by who has lost one."""
    redacted: bool = False
    """Whether it has passed `atp.store.redacting`."""
    transaction: Callable[[Connection], Any] | None = None
    """Runs within the database transaction; what it returns is what the operation gives."""

    def recorded_runs(self) -> set[str]:
        """The runs that miss something when this is refused."""
        return {
            *self.runs,
            *(start.run_id for start in self.starts),
            *(end.start.run_id for end in self.ends),
            *(call[0] for call in self.calls),
        }


def call_row(run_id: str, position: int, call: ToolCall) -> tuple[CallRow, tuple[Body, Body]]:
    """A tool call as a row, and the bodies of its arguments and its result."""
    arguments, result = encode(call.arguments), encode(call.result)
    row = (
        run_id,
        position,
        well_formed(call.id),
        str(call.id_source),
        well_formed(call.name),
        digest_of(arguments),
        digest_of(result),
        None if call.error is None else well_formed(call.error),
        nanoseconds(call.start),
        nanoseconds(call.end),
        call.span_id,
    )
    return row, ((row[5], arguments), (row[6], result))


def write_records(connection: Connection, statements: HotStatements, operations: Sequence[Operation]) -> None:
    """Write the spans and calls of several operations, the spans with one statement for each kind of row.

    Raises:
        StoreError: See `_write_call`.
    """
    ends: dict[tuple[str, str], SpanEnd] = {}
    starts: dict[tuple[str, str], SpanStart] = {}
    for operation in operations:
        for end in operation.ends:
            ends.setdefault((end.start.run_id, end.start.span_id), end)
        for start in operation.starts:
            starts.setdefault((start.run_id, start.span_id), start)
    # A span that started and ended within one commit is written once: its end holds its start.
    statements.span_start.run(
        connection, [_start_row(start) for key, start in starts.items() if key not in ends]
    )
    statements.span_end.run(connection, [_end_row(end) for end in ends.values()])
    for operation in operations:
        for call in operation.calls:
            _write_call(connection, call)


def _write_call(connection: Connection, row: CallRow) -> None:
    """Write a call of an attempt that is running.

    Raises:
        StoreError: There is no such attempt, or it has ended (`attempt_ended`).
    """
    if _CALL.run(connection, dict(zip(_CALL_COLUMNS, row, strict=True))).rowcount == 1:
        return
    found = _STATUS.run(connection, {"run": row[0]}).fetchone()
    if found is None:
        raise StoreError(f"a call came for run {row[0]!r}, which there is not")
    raise StoreError(
        f"a call of run {row[0]} came after the run had ended ({found[0]})", code="attempt_ended"
    )


def _start_row(start: SpanStart) -> tuple[Any, ...]:
    return (
        *_identity(start),
        None,
        "open",
        _object(start.attributes),
        _object(start.bodies),
        None,
        None,
        "[]",
    )


def _end_row(end: SpanEnd) -> tuple[Any, ...]:
    if end.status is SpanStatus.OPEN:
        raise StoreError(f"the end of span {end.start.span_id} says that the span is open")
    events = [
        {"name": event.name, "time_ns": event.time_ns, "attributes": dict(event.attributes)}
        for event in end.events
    ]
    return (
        *_identity(end.start),
        end.end_ns,
        str(end.status),
        _object(end.attributes),
        _object(end.bodies),
        None if end.error_type is None else well_formed(end.error_type),
        None if end.error_message is None else well_formed(end.error_message),
        encode(events).decode() if events else "[]",
    )


def _identity(start: SpanStart) -> tuple[Any, ...]:
    return (
        start.run_id,
        start.span_id,
        start.trace_id,
        start.parent_id,
        str(start.parent_source),
        str(start.kind),
        well_formed(start.name),
        start.start_ns,
    )


def _object(values: Mapping[str, AttributeValue] | Mapping[str, str]) -> str:
    return encode(dict(values)).decode() if values else "{}"

"""Statements of the hot path, compiled once per dialect and run by the driver's own cursor.

SQLAlchemy's execution costs a tenth of a millisecond a statement, and still half of that for text it
hands on as it is; SQLite takes a few microseconds. Statements and transactions mix freely with those
of SQLAlchemy: it is the same connection. Errors are the driver's. This is also the one place that
chooses a dialect's upsert, and that knows how a driver takes its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Connection,
    Dialect,
    Insert,
    Table,
    bindparam,
    cast,
    insert,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql.compiler import SQLCompiler

from atp.protocol.spans import SpanStatus
from atp.store.schema import attempts, bodies, spans

_Compiled: TypeAlias = tuple[str, Sequence[str] | None, Mapping[str, Any]]
"""(SQL, names of the parameters by position or None where the driver takes them by name, constants)"""

_LATER = ("end_ns", "status", "attributes", "bodies", "error_type", "error_message", "events")
"""What the end of a span brings to the row its start made."""


@dataclass(frozen=True)
class InsertMany:
    """An insert with positional parameters, in the order of the table's columns."""

    sql: str

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert the rows; no rows, no statement."""
        if rows:
            connection.connection.cursor().executemany(self.sql, rows)


@dataclass(frozen=True)
class HotStatements:
    """The inserts of a dialect."""

    body: InsertMany
    """Leaves alone what is already stored."""
    span_start: InsertMany
    """Leaves alone a span that is already there: a late start never overwrites an end."""
    span_end: InsertMany
    """Completes an open or aborted span; a span that has ended keeps its first end."""


class Prepared:
    """One statement with named parameters.

    Args:
        statement: A query; or an insert or update without values.
        columns: Of an insert or update: the columns it sets, each a parameter of that name.
    """

    def __init__(self, statement: ClauseElement, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> DBAPICursor:
        """Execute; values go to the driver as they are, and come back so, as tuples."""
        name = connection.dialect.name
        if name not in self._compiled:
            self._compiled[name] = self._compile(connection.dialect)
        sql, names, fixed = self._compiled[name]
        given = {**fixed, **parameters} if fixed else parameters
        cursor = connection.connection.cursor()
        cursor.execute(sql, given if names is None else [given[parameter] for parameter in names])
        return cursor

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled = self._statement.compile(dialect=dialect, column_keys=self._columns)
        if not isinstance(compiled, SQLCompiler):
            raise TypeError(f"{self._statement!r} is no query, insert or update")
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        return str(compiled), compiled.positiontup, fixed


def compile_statements(dialect: Dialect) -> HotStatements:
    """Compile for a dialect."""
    start = insert_for(dialect, spans).on_conflict_do_nothing(index_elements=["run_id", "span_id"])
    end = insert_for(dialect, spans)
    unfinished = or_(spans.c.end_ns.is_(None), spans.c.status == literal_column(f"'{SpanStatus.ABORTED}'"))
    end = end.on_conflict_do_update(
        index_elements=["run_id", "span_id"],
        set_={name: end.excluded[name] for name in _LATER},
        where=unfinished,
    )
    return HotStatements(
        body=_compiled(
            insert_for(dialect, bodies).on_conflict_do_nothing(index_elements=["digest"]), dialect
        ),
        span_start=_compiled(start, dialect),
        span_end=_compiled(end, dialect),
    )


def insert_for_attempt(table: Table, names: Sequence[str], condition: ColumnElement[bool]) -> Insert:
    """An insert of one row of an attempt; it inserts nothing where there is no such attempt.

    Args:
        table: Has a column `run_id`.
        names: Its other columns that get a value, each a parameter of that name; `run` is the attempt.
        condition: What holds of the row of `attempts`.
    """
    # Databases that type a statement before they see its values take a bare parameter here for text.
    values = [cast(bindparam(name), table.c[name].type) for name in names]
    attempt = select(attempts.c.run_id, *values).where(attempts.c.run_id == bindparam("run"), condition)
    return insert(table).from_select(["run_id", *names], attempt)


def insert_for(dialect: Dialect, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
    return postgresql.insert(table) if dialect.name == "postgresql" else sqlite.insert(table)


def _compiled(statement: sqlite.Insert | postgresql.Insert, dialect: Dialect) -> InsertMany:
    columns = [column.name for column in statement.table.columns]
    compiled = statement.compile(dialect=dialect, column_keys=columns)
    if compiled.positiontup != columns:
        raise RuntimeError(f"{dialect.driver} does not take the columns by position: {compiled.positiontup}")
    return InsertMany(str(compiled))

"""The tables. One schema for every database: nothing here is peculiar to one of them.

Times are whole nanoseconds since the epoch, UTC, in columns named `*_ns`. JSON is text. What is
large is a body, named by its digest. `docs/store.md` says why each table is as it is; a change here
needs a migration and a new `REVISION`.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from atp.protocol.errors import Fault
from atp.protocol.spans import ParentSource, SpanKind, SpanStatus
from atp.protocol.status import Status
from atp.protocol.trace import CallIdSource

REVISION = "0002"
"""The newest migration, and the only revision this version reads and writes."""

RUNNING = "running"
"""The status of an attempt that has not ended."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

_Sequence = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows of this type only
_Digest = String(64)


def _one_of(column: str, values: type[StrEnum], *more: str) -> CheckConstraint:
    # Not IN (...): SQLite builds a list of that anew for every row, half of the cost of a span.
    listed = " OR ".join(f"{column} = '{value}'" for value in (*more, *values))
    return CheckConstraint(listed, name=column)


experiments = Table(
    "experiments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, index=True),
    Column("created_ns", BigInteger, nullable=False),
    Column("digest", _Digest, nullable=False),
    Column("definition", Text, nullable=False),
)

cells = Table(
    "cells",
    metadata,
    Column("id", Text, primary_key=True),
    Column("experiment_id", Text, ForeignKey("experiments.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("benchmark", Text, nullable=False),
    Column("harness", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("mixed", Boolean, nullable=False),
    Column("definition", Text, nullable=False),
    UniqueConstraint("experiment_id", "position"),
)

bodies = Table(
    "bodies",
    metadata,
    Column("digest", _Digest, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("encoding", String(8), nullable=False),
    Column("content", LargeBinary),
    CheckConstraint("encoding = 'raw' OR encoding = 'zlib' OR encoding = 'file'", name="encoding"),
    CheckConstraint("(content IS NULL) = (encoding = 'file')", name="content"),
)

slots = Table(
    "slots",
    metadata,
    Column("id", Text, primary_key=True),
    Column("cell_id", Text, ForeignKey("cells.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("seed", BigInteger),
    Column("task_digest", _Digest, ForeignKey("bodies.digest"), nullable=False),
    UniqueConstraint("cell_id", "position"),
    UniqueConstraint("cell_id", "task_id", "repeat"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("slot_id", Text, ForeignKey("slots.id"), nullable=False),
    Column("cell_id", Text, ForeignKey("cells.id"), nullable=False),
    Column("try_number", Integer, nullable=False),
    Column("trace_id", String(32), nullable=False),
    Column("started_ns", BigInteger, nullable=False),
    Column("ended_ns", BigInteger),
    Column("status", Text, nullable=False),
    Column("stop_reason", Text),
    Column("turns", Integer),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cache_read_tokens", BigInteger),
    Column("cache_write_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("cost", Double),
    Column("elapsed", Double),
    Column("error_code", Text),
    Column("error_fault", Text),
    Column("trace_digest", _Digest, ForeignKey("bodies.digest")),
    Column("grade_sequence", BigInteger),  # no foreign key: it would make a circle of the tables
    UniqueConstraint("slot_id", "try_number"),
    Index(None, "cell_id", "status", "grade_sequence"),
    _one_of("status", Status, RUNNING),
    _one_of("error_fault", Fault),
    CheckConstraint(f"(status = '{RUNNING}') = (ended_ns IS NULL)", name="ended"),
    CheckConstraint(f"(status = '{RUNNING}') = (trace_digest IS NULL)", name="trace"),
)

spans = Table(
    "spans",
    metadata,
    Column("run_id", Text, ForeignKey("attempts.run_id"), primary_key=True),
    Column("span_id", String(16), primary_key=True),
    Column("trace_id", String(32), nullable=False),
    Column("parent_id", String(16)),
    Column("parent_source", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger),
    Column("status", Text, nullable=False),
    Column("attributes", Text, nullable=False),
    Column("bodies", Text, nullable=False),
    Column("error_type", Text),
    Column("error_message", Text),
    Column("events", Text, nullable=False),
    _one_of("parent_source", ParentSource),
    _one_of("kind", SpanKind),
    _one_of("status", SpanStatus),
    CheckConstraint(f"(status = '{SpanStatus.OPEN}') = (end_ns IS NULL)", name="ended"),
)

calls = Table(
    "calls",
    metadata,
    Column("run_id", Text, ForeignKey("attempts.run_id"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("id_source", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("arguments", _Digest, ForeignKey("bodies.digest"), nullable=False),
    Column("result", _Digest, ForeignKey("bodies.digest"), nullable=False),
    Column("error", Text),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("span_id", Text, nullable=False),
    _one_of("id_source", CallIdSource),
)

grades = Table(
    "grades",
    metadata,
    Column("sequence", _Sequence, primary_key=True),
    Column("run_id", Text, ForeignKey("attempts.run_id"), nullable=False, index=True),
    Column("time_ns", BigInteger, nullable=False),
    Column("score", Double),
    Column("passed", Boolean),
    Column("reason", Text, nullable=False),
    Column("fault", Text),
    Column("grader", Text, nullable=False),
    Column("grader_version", Text, nullable=False),
    Column("details", Text, nullable=False),
    _one_of("fault", Fault),
)

evidence = Table(
    "evidence",
    metadata,
    Column("run_id", Text, ForeignKey("attempts.run_id"), primary_key=True),
    Column("digest", _Digest, ForeignKey("bodies.digest"), nullable=False),
    Column("made_ns", BigInteger, nullable=False),
)

journal = Table(
    "journal",
    metadata,
    Column("sequence", _Sequence, primary_key=True),
    Column("time_ns", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("experiment_id", Text, ForeignKey("experiments.id"), nullable=False),
    Column("run_id", Text, ForeignKey("attempts.run_id")),
    Column("data", Text, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("experiment_id", Text, ForeignKey("experiments.id"), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("acquired_ns", BigInteger, nullable=False),
    Column("expires_ns", BigInteger, nullable=False),
)

Index("ix_experiments_created_ns", experiments.c.created_ns)

"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """From an empty database."""
    op.create_table(
        "bodies",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("encoding", sa.String(length=8), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint("(content IS NULL) = (encoding = 'file')", name=op.f("ck_bodies_content")),
        sa.CheckConstraint(
            "encoding = 'raw' OR encoding = 'zlib' OR encoding = 'file'", name=op.f("ck_bodies_encoding")
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_bodies")),
    )
    op.create_table(
        "experiments",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_experiments")),
    )
    op.create_index("ix_experiments_created_ns", "experiments", ["created_ns"], unique=False)
    op.create_index(op.f("ix_experiments_name"), "experiments", ["name"], unique=False)
    op.create_table(
        "cells",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("benchmark", sa.Text(), nullable=False),
        sa.Column("harness", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("mixed", sa.Boolean(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"], name=op.f("fk_cells_experiment_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cells")),
        sa.UniqueConstraint("experiment_id", "position", name=op.f("uq_cells_experiment_id_position")),
    )
    op.create_table(
        "leases",
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("acquired_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"], name=op.f("fk_leases_experiment_id")),
        sa.PrimaryKeyConstraint("experiment_id", name=op.f("pk_leases")),
    )
    op.create_table(
        "slots",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("cell_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("task_digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_slots_cell_id")),
        sa.ForeignKeyConstraint(["task_digest"], ["bodies.digest"], name=op.f("fk_slots_task_digest")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slots")),
        sa.UniqueConstraint("cell_id", "position", name=op.f("uq_slots_cell_id_position")),
        sa.UniqueConstraint("cell_id", "task_id", "repeat", name=op.f("uq_slots_cell_id_task_id_repeat")),
    )
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("slot_id", sa.Text(), nullable=False),
        sa.Column("cell_id", sa.Text(), nullable=False),
        sa.Column("try_number", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("started_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("turns", sa.Integer(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_read_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=True),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("elapsed", sa.Double(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_fault", sa.Text(), nullable=True),
        sa.Column("trace_digest", sa.String(length=64), nullable=True),
        sa.Column("grade_sequence", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("(status = 'running') = (ended_ns IS NULL)", name=op.f("ck_attempts_ended")),
        sa.CheckConstraint("(status = 'running') = (trace_digest IS NULL)", name=op.f("ck_attempts_trace")),
        sa.CheckConstraint(
            "error_fault = 'user' OR error_fault = 'agent' OR error_fault = 'infrastructure' "
            "OR error_fault = 'benchmark'",
            name=op.f("ck_attempts_error_fault"),
        ),
        sa.CheckConstraint(
            "status = 'running' OR status = 'completed' OR status = 'limit' "
            "OR status = 'agent_error' OR status = 'infra_error' OR status = 'benchmark_error' "
            "OR status = 'cancelled' OR status = 'interrupted'",
            name=op.f("ck_attempts_status"),
        ),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_attempts_cell_id")),
        sa.ForeignKeyConstraint(["slot_id"], ["slots.id"], name=op.f("fk_attempts_slot_id")),
        sa.ForeignKeyConstraint(["trace_digest"], ["bodies.digest"], name=op.f("fk_attempts_trace_digest")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("slot_id", "try_number", name=op.f("uq_attempts_slot_id_try_number")),
    )
    op.create_index(
        op.f("ix_attempts_cell_id_status_grade_sequence"),
        "attempts",
        ["cell_id", "status", "grade_sequence"],
        unique=False,
    )
    op.create_table(
        "calls",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("id_source", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("arguments", sa.String(length=64), nullable=False),
        sa.Column("result", sa.String(length=64), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=False),
        sa.Column("span_id", sa.Text(), nullable=False),
        sa.CheckConstraint("id_source = 'model' OR id_source = 'binding'", name=op.f("ck_calls_id_source")),
        sa.ForeignKeyConstraint(["arguments"], ["bodies.digest"], name=op.f("fk_calls_arguments")),
        sa.ForeignKeyConstraint(["result"], ["bodies.digest"], name=op.f("fk_calls_result")),
        sa.ForeignKeyConstraint(["run_id"], ["attempts.run_id"], name=op.f("fk_calls_run_id")),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_calls")),
    )
    op.create_table(
        "grades",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("passed", sa.Boolean(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("fault", sa.Text(), nullable=True),
        sa.Column("grader", sa.Text(), nullable=False),
        sa.Column("grader_version", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "fault = 'user' OR fault = 'agent' OR fault = 'infrastructure' OR fault = 'benchmark'",
            name=op.f("ck_grades_fault"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["attempts.run_id"], name=op.f("fk_grades_run_id")),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_grades")),
    )
    op.create_index(op.f("ix_grades_run_id"), "grades", ["run_id"], unique=False)
    op.create_table(
        "journal",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("experiment_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"], name=op.f("fk_journal_experiment_id")),
        sa.ForeignKeyConstraint(["run_id"], ["attempts.run_id"], name=op.f("fk_journal_run_id")),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_journal")),
    )
    op.create_table(
        "spans",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("span_id", sa.String(length=16), nullable=False),
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("parent_id", sa.String(length=16), nullable=True),
        sa.Column("parent_source", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attributes", sa.Text(), nullable=False),
        sa.Column("bodies", sa.Text(), nullable=False),
        sa.Column("error_type", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("events", sa.Text(), nullable=False),
        sa.CheckConstraint("(status = 'open') = (end_ns IS NULL)", name=op.f("ck_spans_ended")),
        sa.CheckConstraint(
            "kind = 'agent' OR kind = 'chain' OR kind = 'model' OR kind = 'tool' OR kind = 'skill'",
            name=op.f("ck_spans_kind"),
        ),
        sa.CheckConstraint(
            "parent_source = 'root' OR parent_source = 'handle' OR parent_source = 'call_id' "
            "OR parent_source = 'context' OR parent_source = 'fallback'",
            name=op.f("ck_spans_parent_source"),
        ),
        sa.CheckConstraint(
            "status = 'open' OR status = 'ok' OR status = 'error' OR status = 'aborted'",
            name=op.f("ck_spans_status"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["attempts.run_id"], name=op.f("fk_spans_run_id")),
        sa.PrimaryKeyConstraint("run_id", "span_id", name=op.f("pk_spans")),
    )

"""Evidence documents: which body is a run's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the table; what is there stays as it is."""
    op.create_table(
        "evidence",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("made_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["digest"], ["bodies.digest"], name=op.f("fk_evidence_digest")),
        sa.ForeignKeyConstraint(["run_id"], ["attempts.run_id"], name=op.f("fk_evidence_run_id")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_evidence")),
    )

"""Sums that the database makes: cells in numbers without reading their traces."""

from __future__ import annotations

from sqlalchemy import Connection, and_, case, func, or_, select

from atp.protocol.status import Status
from atp.store.rows import CellTotals, TokenTotals
from atp.store.schema import RUNNING, attempts, cells, grades

_TOKENS = (
    attempts.c.input_tokens,
    attempts.c.output_tokens,
    attempts.c.cache_read_tokens,
    attempts.c.cache_write_tokens,
    attempts.c.reasoning_tokens,
)


def cell_totals(connection: Connection, experiment_id: str) -> list[CellTotals]:
    """Ended attempts and scores in force, cell by cell, in the experiment's order."""
    rows = connection.execute(
        select(
            cells.c.id,
            attempts.c.status,
            func.count(attempts.c.cell_id).label("attempts"),
            func.count(grades.c.score).label("graded"),
            func.sum(grades.c.score).label("score_sum"),
        )
        .join(attempts, and_(attempts.c.cell_id == cells.c.id, attempts.c.status != RUNNING), isouter=True)
        .join(grades, grades.c.sequence == attempts.c.grade_sequence, isouter=True)
        .where(cells.c.experiment_id == experiment_id)
        .group_by(cells.c.position, cells.c.id, attempts.c.status)
        .order_by(cells.c.position, attempts.c.status)
    ).all()
    totals: dict[str, CellTotals] = {}
    for row in rows:
        before = totals.get(row.id, CellTotals(row.id, 0, 0, None, {}))
        statuses = {**before.statuses, **({Status(row.status): row.attempts} if row.status else {})}
        sums = [part for part in (before.score_sum, row.score_sum) if part is not None]
        totals[row.id] = CellTotals(
            row.id,
            before.attempts + row.attempts,
            before.graded + row.graded,
            sum(sums) if sums else None,
            statuses,
        )
    return list(totals.values())


def token_totals(connection: Connection, experiment_id: str) -> list[TokenTotals]:
    """Tokens of ended attempts, cell by cell, in the experiment's order."""
    unknown = or_(attempts.c.input_tokens.is_(None), attempts.c.output_tokens.is_(None))
    rows = connection.execute(
        select(
            cells.c.id,
            *(func.sum(column) for column in _TOKENS),
            func.sum(case((unknown, 1), else_=0)),
        )
        .join(attempts, attempts.c.cell_id == cells.c.id)
        .where(cells.c.experiment_id == experiment_id, attempts.c.status != RUNNING)
        .group_by(cells.c.position, cells.c.id)
        .order_by(cells.c.position)
    )
    return [TokenTotals(*tuple(row)) for row in rows]

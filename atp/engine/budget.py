"""What an experiment may spend, and has spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from atp.engine.spending import Spending
from atp.models.prices import Price
from atp.protocol.spans import Span
from atp.store.reader import StoreReader

BUDGET_SET, BUDGET_SPENT, ENGINE_STARTED = "budget_set", "budget_spent", "lease_acquired"
"""Entries of the journal: what the budget is, that it is spent, and that an engine has begun to work."""


class Budget:
    """Decides whether another attempt may begin. What is in flight ends as its own limits say.

    Args:
        most: USD; None for no budget.
        spent: USD of the attempts that have ended.
    """

    def __init__(self, most: float | None, spent: Decimal) -> None:
        self.most = most
        self.spent = spent

    def settle(self, cost: Decimal) -> None:
        """An attempt has ended."""
        self.spent += cost

    def allows_more(self, running: Iterable[Decimal]) -> bool:
        """Whether something is left.

        Args:
            running: USD that each running attempt has spent so far.
        """
        return self.most is None or self.spent + sum(running, Decimal(0)) < Decimal(repr(self.most))


def spent_before(
    store: StoreReader, experiment_id: str, prices: Mapping[str, Mapping[str, Price | None]]
) -> Decimal:
    """USD that the stored attempts of an experiment are known to have cost, those cut off included.

    Args:
        store: Open.
        experiment_id: Which.
        prices: Cell id -> prices by name of the model.
    """
    total = Decimal(0)
    for attempt in store.attempts(experiment_id):
        spans: list[Span] = store.spans(attempt.run_id)
        spending = Spending(prices[attempt.slot.cell_id])
        for span in spans:
            spending.add(span)
        total += spending.known
    return total


def budget_of(store: StoreReader, experiment_id: str) -> float | None:
    """The budget that was set last, USD."""
    entry = store.last_entry(experiment_id, (BUDGET_SET,))
    return None if entry is None else float(entry.data["usd"])


def stopped_by_budget(store: StoreReader, experiment_id: str) -> bool:
    """Whether the last engine that worked on an experiment stopped since its budget was spent."""
    entry = store.last_entry(experiment_id, (BUDGET_SPENT, ENGINE_STARTED))
    return entry is not None and entry.kind == BUDGET_SPENT

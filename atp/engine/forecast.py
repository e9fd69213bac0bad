"""What a plan would do and at most cost, before anything is started."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from atp.engine.plan import Plan, PlannedCell
from atp.models.prices import MILLION, Price
from atp.protocol.model import Limits


def forecast(plan: Plan) -> dict[str, Any]:
    """Slots, and upper bounds where a limit gives one; an unbounded figure is None. A limit holds but for the
    call that breaks it.

    `--dry-run --json` prints it.
    """
    limits = plan.options.limits
    tries = plan.options.retries + 1
    attempts = len(plan.slots) * tries
    return {
        "experiment": None,
        "cells": [
            {
                "benchmark": cell.row.benchmark,
                "harness": cell.row.harness,
                "model": cell.row.model,
                "simulated": cell.row.simulated,
                "scheduled": len(cell.tasks) * plan.options.repeats,
                "price": cell.row.definition["price"],
            }
            for cell in plan.cells
        ],
        "attempts": [],
        "slots": len(plan.slots),
        "most_attempts": attempts,
        "most_model_calls": None if limits.max_turns is None else attempts * limits.max_turns,
        "most_user_calls": _most_user_calls(plan, tries),
        "most_tokens": None if limits.max_total_tokens is None else attempts * limits.max_total_tokens,
        "most_cost": _most_cost(plan, tries),
        "tasks": {cell.row.benchmark: [task.task_id for task in cell.tasks] for cell in plan.cells},
    }


def _most_user_calls(plan: Plan, tries: int) -> int | None:
    """The model that plays the user opens, and answers whatever the agent says: 0 where there is none."""
    played = {cell.row.id for cell in plan.cells if cell.pairing.user_model is not None}
    attempts = sum(slot.cell_id in played for slot in plan.slots) * tries
    turns = plan.options.limits.max_turns
    if attempts and turns is None:
        return None
    return attempts * ((turns or 0) + 1)


def _most_cost(plan: Plan, tries: int) -> float | None:
    """USD, by the limits of attempts or by the budget, whichever is less."""
    each = [_most_cost_of_an_attempt(cell, plan.options.limits) for cell in plan.cells]
    bounds = [] if plan.options.budget is None else [Decimal(repr(plan.options.budget))]
    if None not in each:
        attempts = [len(cell.tasks) * plan.options.repeats * tries for cell in plan.cells]
        bounds.append(
            sum((n * cost for n, cost in zip(attempts, each, strict=True) if cost is not None), Decimal(0))
        )
    return float(min(bounds)) if bounds else None


def _most_cost_of_an_attempt(cell: PlannedCell, limits: Limits) -> Decimal | None:
    bounds = [] if limits.max_cost is None else [Decimal(repr(limits.max_cost))]
    price = cell.row.definition["price"]
    if price is not None and limits.max_total_tokens is not None:
        bounds.append(limits.max_total_tokens * Price.model_validate(price).most / MILLION)
    return min(bounds, default=None)

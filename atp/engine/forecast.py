"""What a plan would do and at most cost, before anything is started."""

from __future__ import annotations

from typing import Any

from atp.engine.plan import Plan


def forecast(plan: Plan) -> dict[str, Any]:
    """Slots, and upper bounds where a limit gives one; an unbounded figure is None.

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
            }
            for cell in plan.cells
        ],
        "attempts": [],
        "slots": len(plan.slots),
        "most_attempts": attempts,
        "most_model_calls": None if limits.max_turns is None else attempts * limits.max_turns,
        "most_user_calls": _most_user_calls(plan, tries),
        "most_tokens": None if limits.max_total_tokens is None else attempts * limits.max_total_tokens,
        "most_cost": None,
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

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
        "most_tokens": None if limits.max_total_tokens is None else attempts * limits.max_total_tokens,
        "most_cost": None,
        "tasks": {cell.row.benchmark: [task.task_id for task in cell.tasks] for cell in plan.cells},
    }

"""Each thing done wrong, in real attempts of every harness, is named by the comparison of records."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger.tasks import tasks

from atp.conformance.mutations import NAMED_AS, Mutation, mutated
from atp.engine.experiment import start
from atp.engine.options import RunOptions
from atp.engine.plan import plan
from atp.engine.results import results
from atp.engine.run import Run
from atp.store.store import Store
from tests.atp.conformance.ledger_scripts import steps, write_script
from tests.atp.engine.experiments import Watched

HARNESSES = ("thinloop", "langgraph", "openai-agents", "smolagents", "crewai")
CLEAN = 2
"""Attempts beside the mutated ones, as they are."""


async def attempts(folder: Path, harness: str) -> dict[str, dict[str, Any]]:
    """One attempt for each mutation, by its name, and some clean ones, in one worker."""
    chosen = [item.task for item in tasks(len(Mutation) + CLEAN, 7)]
    planned_wrong = dict(zip((task.task_id for task in chosen), Mutation, strict=False))
    lost = [task_id for task_id, mutation in planned_wrong.items() if mutation is Mutation.LOST_RETRY]
    script = {task.task_id: steps(task, [500] if task.task_id in lost else []) for task in chosen}
    asked = RunOptions(
        benchmarks=("ledger",),
        harnesses=(harness,),
        models=(write_script(folder / "script.yaml", script),),
        benchmark_options={"tasks": str(len(chosen))},
        harness_options={"retries": "1"} if harness == "thinloop" else {},
        count=None,
        retries=0,
    )
    planned = plan(asked, os.environ)
    [cell] = planned.cells
    card = mutated(cell.pairing.harness, planned_wrong)
    planned = replace(planned, cells=[replace(cell, pairing=replace(cell.pairing, harness=card))])
    with Store.open(f"sqlite:///{folder / 'atp.db'}") as store:
        await start(store, planned, Watched(), _ignore)
        outcome = results(store, planned.experiment.id)
    named = {task_id: str(mutation) for task_id, mutation in planned_wrong.items()}
    return {named.get(each["task_id"], each["task_id"]): each for each in outcome["attempts"]}


def _ignore(run: Run) -> None:
    """Nobody interrupts."""


@pytest.mark.parametrize("harness", HARNESSES)
async def test_what_is_done_wrong_is_named_and_nothing_else_is(tmp_path: Path, harness: str) -> None:
    by_name = await attempts(tmp_path, harness)
    assert len(by_name) == len(Mutation) + CLEAN
    for name, attempt in by_name.items():
        checks = attempt["checks"]
        assert checks["records"] == ["endpoint", "spans", "binding", "harness"], (name, attempt["error"])
        if name not in list(Mutation):
            assert (checks["agree"], checks["native_behaviour"]) == (True, []), checks
            continue
        code = NAMED_AS[Mutation(name)]
        told = checks["native_behaviour" if name == Mutation.ALTERED_ARGUMENT else "differences"]
        assert any(each.startswith(f"{code}: ") for each in told), (name, checks)
        assert checks["agree"] is (name == Mutation.ALTERED_ARGUMENT), (name, checks)

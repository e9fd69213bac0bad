"""A harness that names tools its own way, or has them called by code, is understood by its card's idiom."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atp.engine.experiment import start
from atp.engine.options import RunOptions
from atp.engine.plan import plan
from atp.engine.results import results
from atp.engine.run import Run
from atp.protocol.cards import WireNames
from atp.store.store import Store
from tests.atp.engine.experiments import Watched

PREFIX = "mcp__ledger__"
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "prefixed": (
        {"idiom": f"prefixed:{PREFIX}", "tool_names_on_wire": WireNames(prefix=PREFIX)},
        {"tool_prefix": PREFIX},
    ),
    "code": ({"idiom": "code_block", "calls_from_text": True}, {"calls": "code"}),
}
"""What the card of a thin loop says, and the options that make it so."""


def _ignore(run: Run) -> None:
    """Nobody interrupts."""


async def attempts(
    folder: Path, variant: str, model: str, changes: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Attempts at four tasks of the ledger by a variant of the thin loop."""
    card, options = VARIANTS[variant]
    asked = RunOptions(
        benchmarks=("ledger",),
        harnesses=("thinloop",),
        models=(model,),
        count=4,
        retries=0,
        harness_options=options,
    )
    planned = plan(asked, os.environ)
    [cell] = planned.cells
    changed = cell.pairing.harness.model_copy(update={**card, **(changes or {})})
    planned = replace(planned, cells=[replace(cell, pairing=replace(cell.pairing, harness=changed))])
    with Store.open(f"sqlite:///{folder / 'atp.db'}") as store:
        await start(store, planned, Watched(), _ignore)
        found: list[dict[str, Any]] = results(store, planned.experiment.id)["attempts"]
    return found


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_oracle_does_every_task_and_the_records_agree(tmp_path: Path, variant: str) -> None:
    ended = await attempts(tmp_path, variant, "scripted/oracle")
    assert [attempt["score"] for attempt in ended] == [1.0] * 4
    assert [attempt["checks"]["differences"] for attempt in ended] == [[]] * 4
    assert all(
        attempt["checks"]["records"] == ["endpoint", "spans", "binding", "harness"] for attempt in ended
    )
    assert all(attempt["tool_calls"] for attempt in ended)


async def test_calls_that_are_read_out_of_code_are_the_harness_nature(tmp_path: Path) -> None:
    for attempt in await attempts(tmp_path, "code", "scripted/oracle"):
        native = [told.split(":")[0] for told in attempt["checks"]["native_behaviour"]]
        assert native == ["call_from_text"] * len(attempt["tool_calls"])


async def test_in_the_plain_idiom_a_prefixed_tool_is_not_offered_to_the_oracle(tmp_path: Path) -> None:
    ended = await attempts(tmp_path, "prefixed", "scripted/oracle", {"idiom": "plain"})
    assert all("tool_not_offered" in str(attempt["error"]) for attempt in ended)

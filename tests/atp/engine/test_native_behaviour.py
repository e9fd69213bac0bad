"""What a harness does by its nature is told apart from what is wrong, through the engine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger.tasks import tasks

from atp.engine.experiment import start
from atp.engine.options import RunOptions
from atp.engine.plan import plan
from atp.engine.results import results
from atp.engine.run import Run
from atp.protocol.cards import HarnessCard, WireNames
from atp.protocol.spans import SpanKind
from atp.store.store import Store
from monitor.vocabulary import ARGUMENTS_ALTERED
from tests.atp.conformance.ledger_scripts import steps, write_script
from tests.atp.engine.experiments import Lab, Watched

ANSWER: dict[str, Any] = {"tool_calls": [{"name": "final_answer", "arguments": {"answer": "done"}}]}
[TASK] = [item.task for item in tasks(1, 7)]


def _ignore(run: Run) -> None:
    """Nobody interrupts."""


async def attempt(
    folder: Path,
    harness: str,
    said: list[dict[str, Any]],
    card: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """One attempt at the first task of the ledger, of a harness whose card says other things."""
    asked = RunOptions(
        benchmarks=("ledger",),
        harnesses=(harness,),
        models=(write_script(folder / "script.yaml", {TASK.task_id: said}),),
        tasks=(TASK.task_id,),
        retries=0,
        **options,
    )
    planned = plan(asked, os.environ)
    [cell] = planned.cells
    changed: HarnessCard = cell.pairing.harness.model_copy(update=card or {})
    planned = replace(planned, cells=[replace(cell, pairing=replace(cell.pairing, harness=changed))])
    with Store.open(f"sqlite:///{folder / 'atp.db'}") as store:
        await start(store, planned, Watched(), _ignore)
        [found] = results(store, planned.experiment.id)["attempts"]
    assert isinstance(found, dict)
    return found


def prefixed(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**step, "tool_calls": [{**call, "name": f"mcp__{call['name']}"} for call in step["tool_calls"]]}
        if "tool_calls" in step
        else step
        for step in said
    ]


@pytest.mark.parametrize("call_ids", ["all", "none"])
async def test_tools_that_the_harness_renames_are_matched_through_its_card(
    tmp_path: Path, call_ids: str
) -> None:
    ended = await attempt(
        tmp_path,
        "thinloop",
        prefixed(steps(TASK)),
        {"tool_names_on_wire": WireNames(prefix="mcp__")},
        harness_options={"tool_prefix": "mcp__", "call_ids": call_ids},
    )
    assert ended["score"] == 1.0
    assert ended["checks"]["differences"] == []
    assert [call["name"] for call in ended["tool_calls"]] == [
        "open_account",
        "deposit",
        "transfer",
        "balance",
    ]


async def test_tools_that_the_harness_renames_in_silence_are_a_difference(tmp_path: Path) -> None:
    ended = await attempt(
        tmp_path, "thinloop", prefixed(steps(TASK)), harness_options={"tool_prefix": "mcp__"}
    )
    assert {text.split(":")[0] for text in ended["checks"]["differences"]} == {
        "call_not_announced",
        "call_not_executed",
    }


async def test_a_call_that_smolagents_reads_out_of_a_text_is_its_nature(tmp_path: Path) -> None:
    written = 'Let me look. {"name": "balance", "arguments": {"account": "acc-1"}}'
    ended = await attempt(tmp_path, "smolagents", [{"text": written}, ANSWER], {"idiom": "plain"})
    [call] = ended["tool_calls"]
    assert (call["name"], call["error"]) == ("balance", None)
    assert (ended["checks"]["agree"], ended["checks"]["differences"]) == (True, [])
    [native] = ended["checks"]["native_behaviour"]
    assert native.startswith(f"call_from_text: call {call['id']} (balance): ")


async def test_without_a_monitor_a_call_in_a_text_is_known_by_the_card(tmp_path: Path) -> None:
    written = '{"name": "balance", "arguments": {"account": "acc-1"}}'
    ended = await attempt(
        tmp_path,
        "smolagents",
        [{"text": written}, ANSWER],
        {"idiom": "plain"},
        monitored=False,
    )
    assert ended["checks"]["records"] == ["endpoint", "binding", "harness"]
    assert ended["checks"]["differences"] == []


async def test_arguments_that_a_harness_completes_are_on_the_calls_span_with_the_models_text(
    tmp_path: Path,
) -> None:
    # LangChain completes what a stream leaves open, and hands it on as a valid call.
    broken = '{"account": "acc-1'
    said: list[dict[str, Any]] = [
        {"tool_calls": [{"name": "balance", "arguments_text": broken}]},
        {"text": "done"},
    ]
    ended = await attempt(tmp_path, "langgraph", said, harness_options={"stream": "true"})
    [call] = ended["tool_calls"]
    assert call["arguments"] == {"account": "acc-1"}
    assert ended["checks"]["agree"] is True
    assert ended["checks"]["native_behaviour"] == [
        f"arguments_altered_by_harness: call {call['id']} (balance): the model wrote {broken}, "
        'the binding got {"account": "acc-1"}'
    ]
    lab = Lab(tmp_path)
    [span] = [span for span in lab.spans(ended["run_id"]) if span.kind is SpanKind.TOOL]
    assert lab.bodies(ended["run_id"])[span.bodies[ARGUMENTS_ALTERED]] == broken

"""Stateful tools and dialogues through smolagents, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from atp.protocol.model import Limits
from atp.protocol.spans import ParentSource, SpanKind, SpanStatus
from tests.atp.engine.experiments import Lab

PYTHON = Path(sys.executable)


async def ran(lab: Lab, **options: Any) -> dict[str, Any]:
    return await lab.run(harness="smolagents", **{"python": PYTHON, **options})


async def test_sixteen_at_once_score_one_and_their_four_records_agree(lab: Lab) -> None:
    outcome = await ran(lab, count=24, concurrency=16)
    [cell] = outcome["cells"]
    assert (cell["mean"], cell["graded"]) == (1.0, 24)
    for attempt in outcome["attempts"]:
        assert attempt["checks"]["records"] == ["endpoint", "spans", "binding", "harness"]
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
        assert len(attempt["tool_calls"]) == 4
        spans = {span.span_id: span for span in lab.spans(attempt["run_id"])}
        assert {span.trace_id for span in spans.values()} == {attempt["trace_id"]}
        assert {span.status for span in spans.values()} == {SpanStatus.OK}
        tools = [span for span in spans.values() if span.kind is SpanKind.TOOL]
        assert all(spans[str(span.parent_id)].kind is SpanKind.MODEL for span in tools)
        assert {span.parent_source for span in tools} == {ParentSource.CALL_ID}
    # Every second task is a dialogue of two turns: its first line is answered, too, by the oracle.
    assert {attempt["stop_reason"] for attempt in outcome["attempts"]} == {"answered", "user_stop"}


async def test_silence_scores_zero(lab: Lab) -> None:
    outcome = await ran(lab, models=["scripted/noop"], workers=0)
    assert outcome["cells"][0]["mean"] == 0.0
    assert {attempt["turns"] for attempt in outcome["attempts"]} <= {1, 2}
    assert all(attempt["checks"]["agree"] for attempt in outcome["attempts"])


async def test_the_turn_limit_allows_the_forced_call_and_its_records_agree(lab: Lab) -> None:
    outcome = await ran(lab, count=2, limits=Limits(max_turns=3), workers=0)
    for attempt in outcome["attempts"]:
        assert (attempt["stop_reason"], attempt["turns"]) == ("max_turns", 4)
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]


SCRIPT = """
steps:
  - tool_calls:
      - {name: balance, arguments: {account: acc-1}}
      - {name: balance, arguments: {account: acc-2}}
      - {name: fail, arguments: {message: out of order}}
  - tool_calls:
      - {name: balance, arguments: {account: 7}}
  - tool_calls:
      - {name: balance, arguments_text: '{"account": "acc'}
  - tool_calls:
      - {name: vanish, arguments: {}}
  - text: Enough.
  - text: Enough.
"""


@pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])
async def test_the_records_agree_on_whatever_smolagents_does_with_awkward_calls(
    lab: Lab, tmp_path: Path, workers: int
) -> None:
    script = tmp_path / "awkward.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    outcome = await ran(lab, count=4, models=[f"scripted/file:{script}"], workers=workers)
    for attempt in outcome["attempts"]:
        assert attempt["status"] == "completed", attempt["error"]
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
        # The second and the fourth are answered by smolagents itself, the third by the binding.
        assert [(call["name"], call["error"] is None) for call in attempt["tool_calls"][-1:]] == [
            ("balance", False)
        ]
        assert sorted(call["name"] for call in attempt["tool_calls"]) == ["balance"] * 3 + ["fail"]
        assert attempt["native"]["errors"][:2] == ["AgentToolCallError", "AgentToolExecutionError"]

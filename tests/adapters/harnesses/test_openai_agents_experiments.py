"""The OpenAI Agents SDK through the whole engine: workers, the scripted endpoint, the four records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from atp.protocol.errors import InvalidInput
from atp.protocol.model import Limits
from atp.protocol.spans import SpanKind
from tests.atp.engine.experiments import Lab

DIALECTS = pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])


@pytest.fixture
def agents_lab(tmp_path: Path) -> Lab:
    """Experiments of their own."""
    return Lab(tmp_path)


async def run(lab: Lab, dialect: str, *, stream: bool = False, **options: Any) -> dict[str, Any]:
    return await lab.run(
        harness="openai-agents",
        python=Path(sys.executable),
        harness_options={"dialect": dialect, "stream": str(stream).lower()},
        **options,
    )


@pytest.mark.parametrize(("stream", "count"), [(False, 16), (True, 2)], ids=["whole", "stream"])
@DIALECTS
async def test_the_oracle_solves_tasks_and_dialogues_at_once_and_four_records_agree(
    agents_lab: Lab, dialect: str, stream: bool, count: int
) -> None:
    shown = await run(agents_lab, dialect, stream=stream, count=count, concurrency=16)
    [cell] = shown["cells"]
    assert (cell["graded"], cell["mean"]) == (count, 1.0)
    for attempt in shown["attempts"]:
        checks = attempt["checks"]
        assert checks["records"] == ["endpoint", "spans", "binding", "harness"]
        assert checks["differences"] == []
        assert checks["agree"] is True
    prefix = "chatcmpl-" if dialect == "openai-chat" else "resp_"
    spans = agents_lab.spans(shown["attempts"][0]["run_id"])
    ids = [str(span.attributes["model.response_id"]) for span in spans if span.kind is SpanKind.MODEL]
    assert ids and all(name.startswith(prefix) for name in ids)


SCRIPT = """
tasks:
  - match: ledger-000
    steps:
      - tool_calls: [{name: balance, arguments_text: '{"account": "acc'}]
      - tool_calls:
          - {name: balance, arguments: {account: acc-1}}
          - {name: balance, arguments: {account: acc-2}}
        reasoning: Both at once.
      - text: Done.
steps:
  - tool_calls: [{name: balance, arguments: {account: acc-1}}]
"""


@DIALECTS
async def test_malformed_arguments_are_answered_and_told_apart_from_calls_in_parallel(
    agents_lab: Lab, dialect: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    shown = await run(agents_lab, dialect, models=(f"scripted/file:{script}",), tasks=("ledger-000",))
    [attempt] = shown["attempts"]
    assert attempt["status"] == "completed"
    broken, first, second = attempt["tool_calls"]
    assert broken["arguments"] == '{"account": "acc'
    assert "not a JSON object" in broken["error"]
    assert (first["arguments"], second["arguments"]) == ({"account": "acc-1"}, {"account": "acc-2"})
    assert attempt["checks"]["agree"] is True


@DIALECTS
async def test_the_turn_limit_is_the_runs_and_the_endpoint_counts_as_many(
    agents_lab: Lab, dialect: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(
        "steps:\n" + "  - tool_calls: [{name: balance, arguments: {account: acc-1}}]\n" * 6, encoding="utf-8"
    )
    shown = await run(
        agents_lab,
        dialect,
        models=(f"scripted/file:{script}",),
        tasks=("ledger-000",),
        limits=Limits(max_turns=3),
    )
    [attempt] = shown["attempts"]
    assert (attempt["status"], attempt["stop_reason"], attempt["turns"]) == ("limit", "max_turns", 3)
    assert attempt["checks"]["differences"] == []


async def test_a_dialect_that_the_harness_does_not_speak_is_refused(agents_lab: Lab) -> None:
    with pytest.raises(
        InvalidInput, match=r"harness.dialect=gemini: .* speaks openai-chat, openai-responses"
    ):
        await run(agents_lab, "gemini")

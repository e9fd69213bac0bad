"""Faults that a script asks for, in whole runs: each SDK's own client asks again, and the records say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atp.protocol.spans import SpanKind
from monitor import vocabulary as v
from tests.atp.engine.experiments import Lab

SCRIPT = """\
steps:
  - tool_calls: [{{name: balance, arguments: {{account: acc-1}}}}]
  - text: Done.
    faults: [{fault}]
"""
HARNESSES = pytest.mark.parametrize("harness", ["langgraph", "openai-agents", "smolagents"])


async def attempt(lab: Lab, harness: str, folder: Path, fault: str) -> dict[str, Any]:
    """The one attempt at a task whose second model call has the fault."""
    script = folder / "script.yaml"
    script.write_text(SCRIPT.format(fault=fault), encoding="utf-8")
    outcome = await lab.run(
        harness=harness, models=(f"scripted/file:{script}",), tasks=("ledger-000",), workers=0
    )
    [only] = outcome["attempts"]
    return dict(only)


@HARNESSES
@pytest.mark.parametrize("fault", ["{status: 503, times: 2}", "{cut: half}"], ids=["503", "cut"])
async def test_what_passes_is_asked_again_by_the_sdks_own_client(
    lab: Lab, harness: str, tmp_path: Path, fault: str
) -> None:
    ended = await attempt(lab, harness, tmp_path, fault)
    assert (ended["status"], ended["final_answer"], ended["turns"]) == ("completed", "Done.", 2)
    assert len(ended["tool_calls"]) == 1
    assert ended["checks"]["agree"] is True, ended["checks"]["differences"]
    retries = [
        span.attributes.get(v.RETRIES) for span in lab.spans(ended["run_id"]) if span.kind is SpanKind.MODEL
    ]
    assert retries == [0, 2 if "503" in fault else 1]


@HARNESSES
async def test_what_does_not_pass_has_its_status_and_code(lab: Lab, harness: str, tmp_path: Path) -> None:
    fault = "{status: 400, code: context_length_exceeded, times: always}"
    ended = await attempt(lab, harness, tmp_path, fault)
    assert (ended["status"], ended["stop_reason"]) == ("limit", "context_length")

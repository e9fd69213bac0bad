"""What the span of an attempt says by itself: what was asked, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atp.protocol.spans import Span
from monitor import vocabulary as v
from tests.atp.engine.experiments import Lab

WAYS = pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


async def ran(lab: Lab, task: str, **options: Any) -> tuple[dict[str, Any], Span, dict[str, Any]]:
    [attempt] = (await lab.run(tasks=(task,), **options))["attempts"]
    [root] = [span for span in lab.spans(attempt["run_id"]) if span.parent_id is None]
    return attempt, root, lab.bodies(attempt["run_id"])


@WAYS
async def test_the_root_span_holds_the_instruction_and_the_final_answer(lab: Lab, workers: int) -> None:
    attempt, root, bodies = await ran(lab, "ledger-000", workers=workers)
    [request] = bodies[root.bodies[v.INPUT]]
    assert request["role"] == "user"
    [text] = request["parts"]
    first = [span for span in lab.spans(attempt["run_id"]) if v.INPUT_MESSAGES in span.bodies][0]
    assert request in bodies[first.bodies[v.INPUT_MESSAGES]]  # what the model was given, word for word
    assert text["content"]
    assert bodies[root.bodies[v.OUTPUT]] == [
        {"role": "assistant", "parts": [{"type": "text", "content": attempt["final_answer"]}]}
    ]


async def test_in_a_dialogue_nothing_was_asked_before_its_user_spoke(lab: Lab) -> None:
    _, root, bodies = await ran(lab, "ledger-001", workers=0)
    assert v.INPUT not in root.bodies
    assert bodies[root.bodies[v.OUTPUT]][0]["role"] == "assistant"


async def test_an_attempt_that_failed_has_an_instruction_and_no_answer(lab: Lab) -> None:
    attempt, root, bodies = await ran(lab, "ledger-000", harness_options={"sys_exit": "0"}, workers=0)
    assert attempt["final_answer"] is None
    assert bodies[root.bodies[v.INPUT]][0]["role"] == "user"
    assert v.OUTPUT not in root.bodies

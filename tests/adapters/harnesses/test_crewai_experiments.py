"""CrewAI through the whole engine, in its own environment; few runs, since it takes seconds to start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ledger.benchmark import LedgerBenchmark

from adapters.harnesses.crewai import CARD
from atp.engine import environments
from atp.protocol.model import Limits
from atp.protocol.spans import SpanKind, SpanStatus
from monitor import vocabulary as v
from tests.atp.conformance.ledger_scripts import write_script
from tests.atp.engine.experiments import Lab
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, completion, replying

OWN = Path(__file__).parents[2] / "atp" / "engine" / "own"
LOOK = {"name": "balance", "arguments": {"account": "acc-1"}}
DONE = {"text": "Done."}


@pytest.fixture(autouse=True)
async def environment() -> None:
    await environments.create(CARD)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


async def by_task(
    lab: Lab, folder: Path, scripts: dict[str, list[dict[str, Any]]], **options: Any
) -> dict[str, dict[str, Any]]:
    """One attempt at each of these tasks, all in one worker."""
    count = {"benchmark_options": {"tasks": "20"}, "count": None}
    model = write_script(folder / "script.yaml", scripts)
    outcome = await lab.run(harness="crewai", models=(model,), tasks=tuple(scripts), **{**count, **options})
    return {attempt["task_id"]: attempt for attempt in outcome["attempts"]}


async def test_what_crewai_does_with_awkward_replies(lab: Lab, tmp_path: Path) -> None:
    owner = {"owner": {"name": "Ada", "emails": None}, "currency": "EUR", "deposit": None}
    asks = {"tool_calls": [LOOK]}
    ended = await by_task(
        lab,
        tmp_path,
        {
            "ledger-000": [{"tool_calls": [{"name": "open_account", "arguments": owner}]}, DONE],
            "ledger-002": [asks, {**DONE, "faults": [{"status": 503, "times": 2}]}],
            "ledger-004": [asks, {**DONE, "faults": [{"cut": "half"}]}],
            "ledger-006": [
                asks,
                {**DONE, "faults": [{"status": 400, "code": "context_length_exceeded", "times": "always"}]},
            ],
            "ledger-008": [asks, asks, asks, asks, asks, DONE],
            "ledger-010": [asks, {"text": ""}],
            "ledger-012": [{"tool_calls": [{"name": "balance", "arguments_text": '{"account": '}]}, DONE],
            "ledger-014": [
                asks,
                {**DONE, "reasoning": "I see.", "usage": {"input_tokens": 9, "output_tokens": 4}},
            ],
        },
    )
    # A null for what may be left out is delivered as left out, one that the schema allows as it is.
    [opened] = ended["ledger-000"]["tool_calls"]
    assert opened["arguments"] == {"owner": {"name": "Ada"}, "currency": "EUR", "deposit": None}
    [altered] = ended["ledger-000"]["checks"]["native_behaviour"]
    assert altered.startswith("arguments_altered_by_harness: ")

    for task, retries in {"ledger-002": [0, 2], "ledger-004": [0, 1]}.items():
        assert (ended[task]["status"], ended[task]["final_answer"]) == ("completed", "Done."), task
        models = [span for span in lab.spans(ended[task]["run_id"]) if span.kind is SpanKind.MODEL]
        assert [span.attributes.get(v.RETRIES) for span in models] == retries, task
    endings = {task: (attempt["status"], attempt["stop_reason"]) for task, attempt in ended.items()}
    assert endings["ledger-006"] == ("limit", "context_length"), ended["ledger-006"]["error"]
    assert endings["ledger-008"] == ("agent_error", "harness_error"), ended["ledger-008"]["error"]
    assert len(ended["ledger-008"]["tool_calls"]) == 5
    assert endings["ledger-010"] == ("agent_error", "harness_error"), ended["ledger-010"]["error"]
    # Arguments that are no JSON are answered by CrewAI, and no call is made.
    assert (endings["ledger-012"], ended["ledger-012"]["tool_calls"]) == (("completed", "answered"), [])
    for task, attempt in ended.items():
        assert attempt["checks"]["agree"] is True, (task, attempt["checks"]["differences"])

    spans = [span for span in lab.spans(ended["ledger-014"]["run_id"]) if span.kind is SpanKind.MODEL]
    said = lab.bodies(ended["ledger-014"]["run_id"])[spans[-1].bodies[v.OUTPUT_MESSAGES]]
    assert {"type": "reasoning", "content": "I see."} in said[0]["parts"]


async def test_a_model_that_does_not_answer_is_left_at_the_deadline_and_asked_no_more(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

    def respond(request: Any, number: int) -> ForeignReply:
        if number == 0:
            call = ("call_1", "balance", json.dumps(LOOK["arguments"]))
            return replying(completion("r1", tool_calls=[call], usage=usage))
        return ForeignReply(hang=True)

    foreign_endpoint.respond = respond
    outcome = await lab.run(
        harness="crewai",
        models=["openai/x"],
        base_url=foreign_endpoint.base_url,
        tasks=("ledger-000",),
        limits=Limits(deadline=5),
    )
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["stop_reason"]) == ("limit", "deadline"), attempt["error"]
    assert attempt["error"] is None  # it ended when it was told to, and no worker was killed
    assert len(foreign_endpoint.requests) == 2
    assert [span.status for span in lab.spans(attempt["run_id"]) if span.kind is SpanKind.MODEL] == [
        SpanStatus.OK,
        SpanStatus.ABORTED,
    ]


async def test_a_crew_that_delegates_has_a_span_for_each_agent_and_takes_no_dialogue(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(OWN)
    task = LedgerBenchmark().load(None)[0]
    assert task.expected is not None
    work = {"task": "Do it.", "context": "All that is known.", "coworker": "clerk"}
    # Both agents get each step, in requests of their own; CrewAI refuses what one of them does not have.
    steps: list[dict[str, Any]] = [
        {"tool_calls": [{"name": "delegate_work_to_coworker", "arguments": work}]},
        *(
            {"tool_calls": [action.model_dump(mode="json", include={"name", "arguments"})]}
            for action in task.expected.actions
        ),
        {"text": "\n".join(task.expected.outputs)},
    ]
    model = write_script(tmp_path / "script.yaml", {task.task_id: steps, "ledger-001": [DONE]})
    outcome = await lab.run(harness="ledger_crews:crew", models=(model,), tasks=(task.task_id, "ledger-001"))
    attempt, refused = sorted(outcome["attempts"], key=lambda each: each["task_id"])
    assert (refused["status"], refused["stop_reason"]) == ("infra_error", "setup_error")
    assert "a Crew of CrewAI has no dialogue" in refused["error"]["message"]
    assert (attempt["status"], attempt["score"]) == ("completed", 1.0), attempt["error"]
    assert attempt["checks"]["records"] == ["endpoint", "spans", "binding", "harness"]
    assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
    spans = {span.span_id: span for span in lab.spans(attempt["run_id"])}
    assert {span.status for span in spans.values()} == {SpanStatus.OK}

    def above(span: Any) -> list[str]:
        parent = spans.get(span.parent_id)
        return [] if parent is None else [*above(parent), *([parent.name] * (parent.kind is SpanKind.AGENT))]

    agents = [span for span in spans.values() if span.kind is SpanKind.AGENT]
    root = "ledger_crews:crew"
    assert [(span.name, above(span)) for span in agents] == [
        (root, []),
        ("manager", [root]),
        ("clerk", [root, "manager"]),
    ]
    models = [above(span)[-1] for span in spans.values() if span.kind is SpanKind.MODEL]
    assert models == ["manager", *["clerk"] * len(steps), *["manager"] * (len(steps) - 1)]
    tools = [above(span)[-1] for span in spans.values() if span.kind is SpanKind.TOOL]
    assert tools == ["clerk"] * len(task.expected.actions)


async def test_an_agent_of_ones_own_keeps_a_dialogue(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OWN)
    outcome = await lab.run(harness="ledger_crews:clerk", tasks=("ledger-001",))
    [spoken] = outcome["attempts"]
    assert (spoken["status"], spoken["score"]) == ("completed", 1.0), spoken["error"]
    assert spoken["checks"]["agree"] is True, spoken["checks"]["differences"]

"""Agents of somebody's own through the whole engine: nested spans, and records that agree."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ledger.benchmark import LedgerBenchmark

from atp.engine.run import Run
from atp.protocol.model import Limits
from atp.protocol.spans import ParentSource, Span, SpanKind, SpanStatus
from atp.protocol.task import TaskInput
from tests.atp.engine.experiments import Lab, until
from tests.foreign_endpoint import ForeignEndpoint, completion, replying

OWN = Path(__file__).parent / "own"
WORKERS = pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])


@pytest.fixture(autouse=True)
def in_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OWN)


async def ran(lab: Lab, harness: str, **options: Any) -> list[dict[str, Any]]:
    outcome = await lab.run(harness=harness, **{"python": Path(sys.executable), **options})
    attempts: list[dict[str, Any]] = outcome["attempts"]
    for attempt in attempts:
        assert attempt["harness"] == harness
        assert attempt["status"] == "completed", attempt["error"]
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
    return attempts


def tree(spans: Sequence[Span]) -> dict[str, str]:
    """Span id -> the names of the agents above it, outermost first, the root left out."""
    known = {span.span_id: span for span in spans}

    def above(span: Span) -> list[str]:
        if span.parent_id is None:
            return []
        parent = known[span.parent_id]
        own = [parent.name] if parent.kind is SpanKind.AGENT and parent.parent_id is not None else []
        return above(parent) + own

    return {span.span_id: "/".join(above(span)) for span in spans}


def of_kind(spans: Sequence[Span], kind: SpanKind) -> list[Span]:
    return [span for span in spans if span.kind is kind]


def gold_script(folder: Path, first: dict[str, Any], count: int = 2) -> str:
    """A script that makes one call of the agent's own, then does what the task expects."""
    tasks = [
        {"match": task.task_id, "steps": [{"tool_calls": [first]}, *expected_steps(task)]}
        for task in LedgerBenchmark().load(None)[:count]
    ]
    path = folder / "script.yaml"
    path.write_text(yaml.safe_dump({"steps": [{"text": "unused"}], "tasks": tasks}), encoding="utf-8")
    return f"scripted/file:{path}"


def expected_steps(task: TaskInput) -> list[dict[str, Any]]:
    assert task.expected is not None
    calls = [
        {"tool_calls": [{"name": action.name, "arguments": json.loads(json.dumps(action.arguments))}]}
        for action in task.expected.actions
    ]
    answer = {"text": "\n".join(task.expected.outputs)}
    return [*calls, answer, answer, answer]


@WORKERS
async def test_agents_within_a_graph_have_spans_of_their_own(lab: Lab, workers: int) -> None:
    attempts = await ran(lab, "ledger_graphs:clerk_and_teller", workers=workers)
    assert [attempt["score"] for attempt in attempts] == [1.0] * 4
    # Every second task is a dialogue of two lines, each of which passes through both agents.
    for attempt in attempts:
        lines = 2 if attempt["stop_reason"] == "user_stop" else 1
        assert attempt["checks"]["records"] == ["endpoint", "spans", "binding"]
        spans = lab.spans(attempt["run_id"])
        above = tree(spans)
        agents = [span for span in of_kind(spans, SpanKind.AGENT) if span.parent_id is not None]
        assert [span.name for span in agents] == ["clerk", "teller"] * lines
        assert {above[span.span_id] for span in agents} == {""}
        assert {above[span.span_id] for span in of_kind(spans, SpanKind.MODEL)} == {"clerk", "teller"}
        tools = of_kind(spans, SpanKind.TOOL)
        assert {above[span.span_id] for span in tools} == {"clerk"}
        assert {span.parent_source for span in tools} == {ParentSource.CALL_ID}
        assert {span.status for span in spans} == {SpanStatus.OK}


async def test_a_factory_that_declares_nothing_is_run_by_the_sdk_that_is_named(lab: Lab) -> None:
    options = {"sdk": "langgraph"}
    [attempt] = await ran(
        lab, "ledger_graphs:anything", tasks=("ledger-000",), workers=0, harness_options=options
    )
    assert attempt["score"] == 1.0


async def test_a_graph_without_messages_is_a_fault_in_the_set_up(lab: Lab) -> None:
    outcome = await lab.run(harness="ledger_graphs:silent", tasks=("ledger-000",), workers=0)
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["stop_reason"]) == ("infra_error", "setup_error"), attempt["error"]
    assert "its graph's state has no `messages`, but answer" in attempt["error"]["message"]


@pytest.mark.parametrize("factory", ["by_hand", "by_hand_in_coroutines"])
async def test_synchronous_calls_are_recorded_like_others(lab: Lab, factory: str) -> None:
    attempts = await ran(lab, f"ledger_graphs:{factory}", tasks=("ledger-000", "ledger-002"), workers=0)
    assert [attempt["score"] for attempt in attempts] == [1.0] * 2
    for attempt in attempts:
        spans = lab.spans(attempt["run_id"])
        tools = of_kind(spans, SpanKind.TOOL)
        assert len(tools) == 4
        assert {span.parent_source for span in tools} == {ParentSource.CALL_ID}


async def test_calls_that_an_agents_code_makes_by_itself_are_no_difference(lab: Lab) -> None:
    [attempt] = await ran(lab, "ledger_graphs:looks_first", tasks=("ledger-000",), workers=0)
    assert attempt["score"] == 1.0
    assert [call["name"] for call in attempt["tool_calls"]][0] == "balance"
    assert len(attempt["tool_calls"]) == 5


@pytest.mark.parametrize(("workers", "dialect"), [(1, "openai-chat"), (0, "openai-responses")])
async def test_an_agent_that_is_handed_over_to_has_a_span_and_goes_on_with_the_dialogue(
    lab: Lab, tmp_path: Path, workers: int, dialect: str
) -> None:
    attempts = await ran(
        lab,
        "ledger_handoffs:reception",
        models=[gold_script(tmp_path, {"name": "transfer_to_clerk", "arguments": {}})],
        tasks=("ledger-000", "ledger-001"),
        harness_options={"dialect": dialect},
        workers=workers,
    )
    assert attempts[0]["score"] == 1.0
    for attempt in attempts:
        assert attempt["checks"]["records"] == ["endpoint", "spans", "binding", "harness"]
        assert attempt["native"]["last_agent"] == "clerk"
        spans = lab.spans(attempt["run_id"])
        above = tree(spans)
        models = sorted(of_kind(spans, SpanKind.MODEL), key=lambda span: span.start_ns)
        assert [above[span.span_id] for span in models] == ["", *["clerk"] * (len(models) - 1)]
        assert {above[span.span_id] for span in of_kind(spans, SpanKind.TOOL)} == {"clerk"}


async def test_an_agent_that_is_a_tool_has_a_span_and_its_usage_is_counted(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    question = [("call-1", "ask_expert", '{"input": "How much is it?"}')]
    foreign_endpoint.replies = [
        replying(completion("c-0", usage=usage, tool_calls=question)),
        replying(completion("c-1", usage=usage, text="It is much.")),
        replying(completion("c-2", usage=usage, text="Much.")),
    ]
    [attempt] = await ran(
        lab,
        "ledger_handoffs:with_an_expert",
        models=["openai/x"],
        base_url=foreign_endpoint.base_url,
        environ={"OPENAI_API_KEY": "k"},
        tasks=("ledger-000",),
        workers=0,
    )
    assert attempt["final_answer"] == "Much."
    # By the SDK's own account, too, which the spans are compared with.
    assert attempt["checks"]["records"] == ["spans", "binding", "harness"]
    assert (attempt["turns"], attempt["usage"]["input_tokens"]) == (3, 30)
    spans = lab.spans(attempt["run_id"])
    above = tree(spans)
    models = sorted(of_kind(spans, SpanKind.MODEL), key=lambda span: span.start_ns)
    assert [above[span.span_id] for span in models] == ["", "expert", ""]


async def test_tools_of_an_mcp_server_are_the_agents_own_and_no_difference(lab: Lab, tmp_path: Path) -> None:
    [attempt] = await ran(
        lab,
        "ledger_handoffs:with_a_server",
        models=[gold_script(tmp_path, {"name": "hour", "arguments": {}}, count=1)],
        tasks=("ledger-000",),
        workers=0,
    )
    assert attempt["score"] == 1.0
    assert "hour" not in {call["name"] for call in attempt["tool_calls"]}
    bodies = lab.bodies(attempt["run_id"])
    assert any("12" in str(body) and "tool_call_response" in str(body) for body in bodies.values())


@WORKERS
async def test_a_managed_agent_has_a_span_and_its_calls_are_below_it(
    lab: Lab, tmp_path: Path, workers: int
) -> None:
    # Both agents get each step of the script, in requests of their own: what one of them cannot call,
    # smolagents refuses itself.
    first = {"name": "clerk", "arguments": {"task": "Do it."}}
    [attempt] = await ran(
        lab,
        "ledger_managed:manager",
        models=[gold_script(tmp_path, first, count=1)],
        tasks=("ledger-000",),
        workers=workers,
    )
    assert attempt["score"] == 1.0
    assert attempt["checks"]["records"] == ["endpoint", "spans", "binding"]
    spans = lab.spans(attempt["run_id"])
    above = tree(spans)
    [clerk] = [span for span in of_kind(spans, SpanKind.AGENT) if span.parent_id is not None]
    assert (clerk.name, above[clerk.span_id], clerk.status) == ("clerk", "", SpanStatus.OK)
    models = [above[span.span_id] for span in of_kind(spans, SpanKind.MODEL)]
    assert (models.count("clerk"), models.count("")) == (6, 6)
    tools = of_kind(spans, SpanKind.TOOL)
    assert [(span.name, above[span.span_id]) for span in tools] == [
        (name, "clerk") for name in ("open_account", "deposit", "transfer", "balance")
    ]


async def test_an_agent_that_writes_code_calls_tools_from_it(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "code.yaml"
    code = '<code>\nheld = balance(account="acc-1")\nfinal_answer("It holds " + held)\n</code>'
    script.write_text(yaml.safe_dump({"steps": [{"text": code}]}), encoding="utf-8")
    [attempt] = await ran(
        lab, "ledger_managed:coder", models=[f"scripted/file:{script}"], tasks=("ledger-000",), workers=0
    )
    [call] = attempt["tool_calls"]
    assert (call["name"], call["arguments"]) == ("balance", {"account": "acc-1"})
    assert attempt["final_answer"] == f"It holds {call['result']}"


async def test_the_turn_limit_holds_for_all_agents_of_a_graph_together(lab: Lab) -> None:
    outcome = await lab.run(
        harness="ledger_graphs:clerk_and_teller",
        python=Path(sys.executable),
        tasks=("ledger-000",),
        workers=0,
        limits=Limits(max_turns=3),
    )
    [attempt] = outcome["attempts"]
    # The fourth call is cut off, if it has not been answered by then.
    assert (attempt["status"], attempt["stop_reason"]) == ("limit", "max_turns")
    assert attempt["turns"] in {3, 4}


@pytest.mark.parametrize(
    "harness", ["ledger_graphs:by_hand", "ledger_managed:manager"], ids=["synchronous node", "managed agent"]
)
async def test_an_attempt_that_is_cut_off_within_a_tool_ends_and_so_do_its_threads(
    lab: Lab, tmp_path: Path, harness: str
) -> None:
    handing_on = {"tool_calls": [{"name": "clerk", "arguments": {"task": "Wait."}}]}
    steps: list[dict[str, Any]] = [handing_on] if harness == "ledger_managed:manager" else []
    steps.append({"tool_calls": [{"name": "wait", "arguments": {"seconds": 3600}}]})
    script = tmp_path / "wait.yaml"
    script.write_text(yaml.safe_dump({"steps": steps}), encoding="utf-8")
    before = set(threading.enumerate())
    started: list[Run] = []
    running = asyncio.create_task(
        lab.run(
            harness=harness,
            models=[f"scripted/file:{script}"],
            tasks=("ledger-000",),
            workers=0,
            on_start=started.append,
        )
    )
    await until(lambda: started and has_begun(lab))
    started[0].interrupt()
    started[0].interrupt()
    outcome = await running
    [attempt] = outcome["attempts"]
    assert attempt["status"] == "cancelled"
    await until(
        lambda: not any(thread.name == "agent-turn" for thread in set(threading.enumerate()) - before)
    )
    await asyncio.get_running_loop().shutdown_default_executor()  # waits for the threads of nodes


def has_begun(lab: Lab) -> bool:
    return any(span.name == "wait" for span in lab.open_spans(SpanKind.TOOL))

"""Google ADK through the whole engine, in workers of its own environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from atp import registry
from atp.engine import environments
from atp.protocol.model import Limits, Sampling
from atp.protocol.spans import ParentSource, Span, SpanKind, SpanStatus
from monitor import vocabulary as v
from tests.atp.engine.experiments import Lab
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

OWN = Path(__file__).parents[2] / "atp" / "engine" / "own"
ALL_RECORDS = ["endpoint", "spans", "binding", "harness"]


@pytest_asyncio.fixture
async def lab(tmp_path: Path) -> Lab:
    """Experiments of their own, with the environment there."""
    await environments.create(registry.harness("google-adk"))
    return Lab(tmp_path)


async def scripted(lab: Lab, folder: Path, steps: str, **options: Any) -> list[dict[str, Any]]:
    """Attempts that follow a script; one, unless tasks are named."""
    script = folder / "script.yaml"
    script.write_text(steps, encoding="utf-8")
    chosen = {"tasks": ("ledger-000",), **options}
    outcome = await lab.run(harness="google-adk", models=(f"scripted/file:{script}",), **chosen)
    attempts: list[dict[str, Any]] = outcome["attempts"]
    return attempts


def of_kind(spans: Sequence[Span], kind: SpanKind) -> list[Span]:
    return [span for span in spans if span.kind is kind]


def above(span: Span, spans: Sequence[Span]) -> str:
    """The names of the agents above a span, outermost first, the root left out."""
    known = {each.span_id: each for each in spans}
    names: list[str] = []
    while span.parent_id is not None:
        span = known[span.parent_id]
        if span.kind is SpanKind.AGENT and span.parent_id is not None:
            names.insert(0, span.name)
    return "/".join(names)


async def test_sixteen_at_once_in_two_workers_get_full_scores_and_four_records_agree(lab: Lab) -> None:
    outcome = await lab.run(harness="google-adk", count=16, concurrency=16, workers=2)
    [cell] = outcome["cells"]
    assert (cell["graded"], cell["mean"]) == (16, 1.0)
    for attempt in outcome["attempts"]:
        assert attempt["checks"]["records"] == ALL_RECORDS
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]


async def test_calls_to_which_the_model_gives_no_id_hang_from_the_reply_that_asked_for_them(
    lab: Lab, tmp_path: Path
) -> None:
    steps = """steps:
  - tool_calls:
      - {name: balance, arguments: {account: acc-1}}
      - {name: balance, arguments: {account: acc-2}}
    faults: [{reply: empty_ids}]
  - text: Done.
"""
    [attempt] = await scripted(lab, tmp_path, steps)
    assert (attempt["checks"]["agree"], attempt["final_answer"]) == (True, "Done.")
    spans = lab.spans(attempt["run_id"])
    asking = of_kind(spans, SpanKind.MODEL)[0].span_id
    made = of_kind(spans, SpanKind.TOOL)
    assert [(span.parent_id, span.parent_source) for span in made] == [(asking, ParentSource.HANDLE)] * 2
    assert {span.attributes[v.TOOL_CALL_ID_SOURCE] for span in made} == {"binding"}


async def test_retries_are_googles_clients_where_they_are_asked_for(lab: Lab, tmp_path: Path) -> None:
    steps = """steps:
  - tool_calls: [{name: balance, arguments: {account: acc-1}}]
    faults: [{status: 503}]
  - text: Done.
"""
    [attempt] = await scripted(lab, tmp_path, steps, harness_options={"retries": "1"})
    assert (attempt["status"], attempt["turns"]) == ("completed", 2)
    assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
    asked = of_kind(lab.spans(attempt["run_id"]), SpanKind.MODEL)
    assert [span.attributes[v.RETRIES] for span in asked] == [1, 0]


FAILURES = {
    "ledger-000": ("{status: 503, times: always}", "infra_error", "provider_error", True),
    "ledger-002": (
        "{status: 400, code: context_length_exceeded, times: always}",
        "limit",
        "context_length",
        True,
    ),
    "ledger-004": (
        "{status: 400, code: API_KEY_INVALID, times: always}",
        "infra_error",
        "provider_error",
        True,
    ),
    "ledger-006": ("{cut: half, times: always}", "infra_error", "provider_error", True),
    "ledger-008": ("{hang: half, times: always}", "infra_error", "provider_error", True),
    "ledger-010": ("{reply: empty_message, times: always}", "completed", "answered", True),
    "ledger-012": ("{reply: error_event, times: always}", "infra_error", "provider_error", True),
}
"""Task -> the fault of its second model call, how the attempt ends, and whether its records agree."""


async def test_failures_of_a_streaming_provider_are_told_as_what_they_are(lab: Lab, tmp_path: Path) -> None:
    first = "{tool_calls: [{name: balance, arguments: {account: acc-1}}]}"
    steps = "tasks:\n" + "".join(
        f"  - match: {task}\n    steps: [{first}, {{text: Done., faults: [{fault}]}}]\n"
        for task, (fault, *_) in FAILURES.items()
    )
    attempts = await scripted(
        lab,
        tmp_path,
        steps,
        tasks=tuple(FAILURES),
        harness_options={"stream": "true"},
        benchmark_options={"tasks": "13"},
        limits=Limits(model_timeout=3.0),
    )
    ends = {
        each["task_id"]: (each["status"], each["stop_reason"], each["checks"]["agree"]) for each in attempts
    }
    assert ends == {task: tuple(ending) for task, (_, *ending) in FAILURES.items()}


async def test_a_blocked_reply_ends_by_the_filter_and_a_cut_one_is_the_answer(
    lab: Lab, tmp_path: Path
) -> None:
    steps = """tasks:
  - match: ledger-000
    steps: [{text: I must, finish_reason: content_filter}]
  - match: ledger-002
    steps: [{text: The answer is, finish_reason: length}]
"""
    blocked, cut = await scripted(lab, tmp_path, steps, tasks=("ledger-000", "ledger-002"))
    assert (blocked["status"], blocked["stop_reason"]) == ("agent_error", "content_filter")
    assert (cut["status"], cut["final_answer"]) == ("completed", "The answer is")


class Told:
    """A model elsewhere that replies in a given order."""

    def __init__(self, *replies: dict[str, Any]) -> None:
        self._replies = replies

    def __call__(self, request: ForeignRequest, number: int) -> ForeignReply:
        counts = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        return replying(completion(f"c-{number}", usage=counts, **self._replies[number]))


def call(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return {"tool_calls": [(call_id, name, arguments)]}


async def own(
    lab: Lab, endpoint: ForeignEndpoint, monkeypatch: pytest.MonkeyPatch, agent: str, *replies: dict[str, Any]
) -> list[Span]:
    """The spans of one attempt of an agent of somebody's own, all of them ended well."""
    monkeypatch.chdir(OWN)
    endpoint.respond = Told(*replies)
    outcome = await lab.run(
        harness=f"ledger_adk:{agent}",
        models=["openai/m"],
        base_url=endpoint.base_url,
        tasks=("ledger-000",),
        harness_options={"dialect": "openai-chat"},
        sampling=Sampling(temperature=0.25, max_output_tokens=77),
    )
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["final_answer"]) == ("completed", "Done."), attempt["error"]
    assert attempt["checks"]["records"] == ["spans", "binding"]
    assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
    assert attempt["turns"] == len(replies)
    bodies = [request.body for request in endpoint.requests]
    asked = [(body["temperature"], body["max_tokens"]) for body in bodies]
    assert asked == [(0.25, 77)] * len(replies)
    spans = lab.spans(attempt["run_id"])
    assert {span.status for span in spans} == {SpanStatus.OK}
    return spans


LOOK = call("balance", '{"account": "acc-1"}', "call_look")
DONE = {"text": "Done."}


async def test_an_agent_that_hands_over_has_the_other_below_it(
    lab: Lab, foreign_endpoint: ForeignEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = call("transfer_to_agent", '{"agent_name": "clerk"}', "call_over")
    spans = await own(lab, foreign_endpoint, monkeypatch, "handover", over, LOOK, DONE)
    assert [above(span, spans) for span in of_kind(spans, SpanKind.MODEL)] == ["", "clerk", "clerk"]
    assert [above(span, spans) for span in of_kind(spans, SpanKind.TOOL)] == ["clerk"]


async def test_an_agent_that_is_called_as_a_tool_is_below_the_one_that_calls_it(
    lab: Lab, foreign_endpoint: ForeignEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = call("clerk", '{"request": "Look."}', "call_clerk")
    spans = await own(lab, foreign_endpoint, monkeypatch, "managed", ask, LOOK, {"text": "It is 1."}, DONE)
    assert [above(span, spans) for span in of_kind(spans, SpanKind.MODEL)] == ["", "clerk", "clerk", ""]
    assert [above(span, spans) for span in of_kind(spans, SpanKind.TOOL)] == ["clerk"]


async def test_agents_that_run_at_once_have_their_own_spans(
    lab: Lab, foreign_endpoint: ForeignEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = await own(lab, foreign_endpoint, monkeypatch, "side_by_side", DONE, DONE, DONE)
    placed = Counter(above(span, spans) for span in of_kind(spans, SpanKind.MODEL))
    assert placed == {"both/left": 1, "both/right": 1, "teller": 1}

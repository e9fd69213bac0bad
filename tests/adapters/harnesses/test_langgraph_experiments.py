"""LangGraph in whole experiments: its own environment, a worker process, a foreign endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ledger.tasks import tasks
from ledger.tools import TOOLS

from atp import registry
from atp.engine import environments
from atp.protocol.errors import Fault
from atp.protocol.model import Limits
from atp.protocol.spans import Span, SpanKind, SpanStatus
from atp.protocol.status import Status, StopReason, classify
from atp.protocol.task import TextPart
from atp.protocol.trace import TaskTrace, Usage
from monitor import vocabulary as v
from monitor.records import model_calls
from tests.atp.engine.experiments import Lab
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 40,
    "total_tokens": 160,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
SAID = Usage(input_tokens=120, output_tokens=40, cache_read_tokens=30, reasoning_tokens=5)
ARGUMENTS = '{"account":  "acc-1"}'
"""With a blank that no encoder would write."""
ANSWER = "  Zwölf €\u2028 \U0001f600\n"
REASONING = "The account first."
ASKS = replying(
    completion("resp-1", reasoning=REASONING, tool_calls=[("call_1", "balance", ARGUMENTS)], usage=USAGE)
)
ANSWERS = replying(completion("resp-2", text=ANSWER, usage=USAGE))


@pytest.fixture(scope="session")
def environment() -> None:
    """The environment of the harness, made once."""
    asyncio.run(environments.create(registry.harness("langgraph")))


@pytest.fixture
def lab(tmp_path: Path, environment: None) -> Lab:
    return Lab(tmp_path)


async def experiment(lab: Lab, base_url: str, **options: Any) -> dict[str, Any]:
    environ = {"OPENAI_API_KEY": "sk-test"}
    return await lab.run(
        harness="langgraph", models=("openai/x",), base_url=base_url, environ=environ, workers=1, **options
    )


def spans(lab: Lab, run_id: str, kind: SpanKind) -> list[Span]:
    return [span for span in lab.spans(run_id) if span.kind is kind]


@pytest.mark.parametrize("stream", ["false", "true"])
async def test_what_the_endpoint_said_is_in_results_trace_and_spans(
    lab: Lab, foreign_endpoint: ForeignEndpoint, stream: str
) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    outcome = await experiment(
        lab, foreign_endpoint.base_url, tasks=("ledger-000",), harness_options={"stream": stream}
    )
    [attempt], [trace], [cell] = outcome["attempts"], lab.watched.ended, outcome["cells"]
    total = SAID + SAID
    assert (attempt["status"], attempt["stop_reason"], attempt["turns"]) == ("completed", "answered", 2)
    assert attempt["usage"] == total.model_dump()
    assert trace.usage == total
    assert trace.harness_usage == total
    assert cell["usage"] == total.model_dump()
    assert trace.model_answered == "foreign-model"

    models = spans(lab, attempt["run_id"], SpanKind.MODEL)
    assert [call.usage for call in model_calls(models)] == [SAID, SAID]
    assert [call.response_id for call in model_calls(models)] == ["resp-1", "resp-2"]
    # The records but the endpoint's own, which a foreign one does not show, and they agree.
    assert attempt["checks"]["records"] == ["spans", "binding", "harness"]
    assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]

    bodies = lab.bodies(attempt["run_id"])
    [written] = bodies[models[0].bodies[v.OUTPUT_MESSAGES]]
    assert written["parts"][0] == {"type": "reasoning", "content": REASONING}
    assert bodies[models[0].bodies[v.TOOL_CALL_TEXTS]] == {"call_1": ARGUMENTS}
    [call] = attempt["tool_calls"]
    assert (call["id"], call["name"], call["arguments"]) == ("call_1", "balance", {"account": "acc-1"})
    assert attempt["final_answer"] == ANSWER
    [root] = [span for span in lab.spans(attempt["run_id"]) if span.parent_id is None]
    assert bodies[root.bodies[v.OUTPUT]][0]["parts"] == [{"type": "text", "content": ANSWER}]

    on_the_wire = foreign_endpoint.requests[0].body["tools"]
    assert on_the_wire == [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.model_dump(mode="json")["parameters"],
            },
        }
        for tool in TOOLS
    ]
    assert bodies[models[0].bodies[v.TOOL_DEFINITIONS]] == on_the_wire


def asks_forever(request: ForeignRequest, number: int) -> ForeignReply:
    return replying(completion(f"resp-{number}", tool_calls=[(f"call_{number}", "balance", ARGUMENTS)]))


@pytest.mark.parametrize("turns", [1, 3])
async def test_exactly_max_turns_requests_reach_the_endpoint(
    lab: Lab, foreign_endpoint: ForeignEndpoint, turns: int
) -> None:
    foreign_endpoint.respond = asks_forever
    outcome = await experiment(
        lab, foreign_endpoint.base_url, tasks=("ledger-000",), limits=Limits(max_turns=turns)
    )
    [attempt] = outcome["attempts"]
    assert len(foreign_endpoint.requests) == turns
    assert (attempt["status"], attempt["stop_reason"]) == ("limit", "max_turns")
    assert attempt["turns"] == len(attempt["tool_calls"]) == turns
    assert attempt["score"] == 0.0  # graded with what it left


@dataclass(frozen=True)
class Case:
    """What the endpoint does, and what is to be made of it."""

    name: str
    reply: ForeignReply
    status: Status
    stop_reason: StopReason
    fault: Fault | None = None
    """None where there is no error."""
    retry: bool = False
    final_answer: str | None = None


def refusal(status: int, code: str | None) -> ForeignReply:
    """An error as OpenAI's API reference shows it; the SDK's own two retries come at once."""
    return ForeignReply(
        status=status,
        body={"error": {"message": f"refused with {status}", "type": "error", "param": None, "code": code}},
        headers={"retry-after-ms": "1"},
    )


_S, _R, _F = Status, StopReason, Fault
CASES = (
    Case("key", refusal(401, "invalid_api_key"), _S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.USER),
    Case("model", refusal(404, "model_not_found"), _S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.USER),
    Case(
        "rate limit",
        refusal(429, "rate_limit_exceeded"),
        _S.INFRA_ERROR,
        _R.PROVIDER_ERROR,
        _F.INFRASTRUCTURE,
        retry=True,
    ),
    Case("quota", refusal(429, "insufficient_quota"), _S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.USER),
    Case("broken", refusal(500, None), _S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, retry=True),
    Case(
        "timeout",
        ForeignReply(hang=True),
        _S.INFRA_ERROR,
        _R.PROVIDER_ERROR,
        _F.INFRASTRUCTURE,
        retry=True,
    ),
    Case(
        "cut",
        ForeignReply(drop_after=0),
        _S.INFRA_ERROR,
        _R.PROVIDER_ERROR,
        _F.INFRASTRUCTURE,
        retry=True,
    ),
    Case("context", refusal(400, "context_length_exceeded"), _S.LIMIT, _R.CONTEXT_LENGTH, _F.AGENT),
    Case("filtered", refusal(400, "content_filter"), _S.AGENT_ERROR, _R.CONTENT_FILTER, _F.AGENT),
    Case("bad request", refusal(400, "invalid_value"), _S.AGENT_ERROR, _R.PROVIDER_ERROR, _F.AGENT),
    Case(
        "filtered answer",
        replying(completion("resp-f", text="I can", finish_reason="content_filter")),
        _S.AGENT_ERROR,
        _R.CONTENT_FILTER,
        final_answer="I can",
    ),
    Case(
        "malformed arguments",
        replying(completion("resp-m", tool_calls=[("call_1", "balance", '{"account": "ac')])),
        _S.COMPLETED,
        _R.ANSWERED,
        final_answer="",
    ),
    Case("loop", ASKS, _S.LIMIT, _R.MAX_TURNS, _F.AGENT),
)


def seen(trace: TaskTrace) -> tuple[object, ...]:
    error = trace.error
    return (
        trace.status,
        trace.stop_reason,
        error.fault if error else None,
        classify(error).retry if error else False,
        trace.final_answer,
    )


def expected(case: Case) -> tuple[object, ...]:
    return case.status, case.stop_reason, case.fault, case.retry, case.final_answer


async def test_what_the_endpoint_does_ends_in_the_status_that_is_true_of_it(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    # One experiment, a task for each case, told apart by their instructions.
    plain = [item.task for item in tasks(2 * len(CASES), 7)[::2]]
    texts = [part.text for task in plain for part in task.instruction if isinstance(part, TextPart)]
    by_text = dict(zip(texts, CASES, strict=True))

    def respond(request: ForeignRequest, number: int) -> ForeignReply:
        [asked] = [message["content"] for message in request.body["messages"] if message["role"] == "user"]
        return by_text[asked].reply

    foreign_endpoint.respond = respond
    await experiment(
        lab,
        foreign_endpoint.base_url,
        tasks=tuple(task.task_id for task in plain),
        benchmark_options={"tasks": str(2 * len(CASES))},
        limits=Limits(max_turns=2, model_timeout=1.0),
        concurrency=len(CASES),
    )
    by_task = dict(zip((task.task_id for task in plain), CASES, strict=True))
    traces: Sequence[tuple[Case, TaskTrace]] = [
        (by_task[str(trace.task_id)], trace) for trace in lab.watched.ended
    ]
    assert {case.name: seen(trace) for case, trace in traces} == {case.name: expected(case) for case in CASES}
    assert not [trace for _, trace in traces if trace.error and trace.error.unclassified]
    for case, trace in traces:
        [last] = spans(lab, str(trace.run_id), SpanKind.MODEL)[-1:]
        failed = case.fault is not None and case.name != "loop"
        assert last.status is (SpanStatus.ERROR if failed else SpanStatus.OK), case.name


async def test_an_endpoint_that_refuses_connections_is_an_infrastructure_error(lab: Lab) -> None:
    # Port 9 (discard, RFC 863) of the loopback interface: nobody listens.
    await experiment(lab, "http://127.0.0.1:9/v1", tasks=("ledger-000",))
    [trace] = lab.watched.ended
    assert seen(trace) == (_S.INFRA_ERROR, _R.PROVIDER_ERROR, _F.INFRASTRUCTURE, True, None)
    assert trace.error is not None
    assert "openai.APIConnectionError" in trace.error.classes

"""What the LangGraph instrument records of runs against a foreign endpoint."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any
from uuid import uuid4

import pytest

from atp.protocol.environment import ToolSpec
from atp.protocol.model import Limits
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import ParentSource, SpanEnd, SpanKind, SpanStatus
from atp.protocol.trace import Usage
from monitor import vocabulary as v
from monitor.instruments.openai_http import http_clients
from monitor.records import model_calls, rejected_calls
from tests.adapters.harnesses.langgraph_attempt import WEATHER, Attempt, attempt
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 40,
    "total_tokens": 160,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
ASKS = replying(
    completion(
        "resp-1",
        reasoning="Paris, then.",
        tool_calls=[("call_1", "weather", '{"city":  "Paris"}')],
        usage=USAGE,
    )
)
ANSWERS = replying(completion("resp-2", text="Sunny.", usage=USAGE))
BOTH = pytest.mark.parametrize("stream", [False, True])


async def observed(endpoint: ForeignEndpoint, replies: list[ForeignReply], **options: Any) -> Attempt:
    endpoint.replies = replies
    run = attempt(endpoint.base_url, **options)
    await run.run()
    return run


def body(run: Attempt, end: SpanEnd, name: str) -> Any:
    return run.sink.json(end.bodies[name])


def messages(run: Attempt, end: SpanEnd, name: str) -> list[Any]:
    return run.sink.messages(end.bodies[name])


@BOTH
async def test_the_model_spans_equal_what_the_endpoint_said(
    foreign_endpoint: ForeignEndpoint, stream: bool
) -> None:
    run = await observed(foreign_endpoint, [ASKS, ANSWERS], options={"stream": stream})
    said = Usage(input_tokens=120, output_tokens=40, cache_read_tokens=30, reasoning_tokens=5)
    assert model_calls(run.sink.ends) == [
        ModelCallRecord("resp-1", "foreign-model", said, "tool_calls", (("call_1", "weather"),), retries=0),
        ModelCallRecord("resp-2", "foreign-model", said, "stop", retries=0),
    ]


@BOTH
async def test_model_spans_tell_what_was_asked_and_answered(
    foreign_endpoint: ForeignEndpoint, stream: bool
) -> None:
    run = await observed(
        foreign_endpoint, [ASKS, ANSWERS], options={"stream": stream}, system_prompt="Be brief."
    )
    first, second = run.sink.of_kind(SpanKind.MODEL)
    assert first.attributes[v.MODEL_NAME] == "asked-model"
    assert first.attributes[v.ACTOR] == "agent"
    assert first.attributes[v.MODEL_STREAM] is stream
    assert messages(run, first, v.OUTPUT_MESSAGES) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Paris, then."},
                {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Paris"}},
            ],
        }
    ]
    call = {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}
    assert messages(run, second, v.INPUT_MESSAGES) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "How is the weather?"}]},
        {"role": "assistant", "parts": [call]},
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "call_1", "response": "sunny"}],
            "name": "weather",
        },
    ]
    assert messages(run, second, v.OUTPUT_MESSAGES) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]}
    ]


async def test_tool_definitions_are_one_body_each_as_on_the_wire(foreign_endpoint: ForeignEndpoint) -> None:
    clock = ToolSpec(name="clock", parameters={"type": "object", "properties": {}})
    run = await observed(foreign_endpoint, [ASKS, ANSWERS], tools=[WEATHER, clock])
    first, second = run.sink.of_kind(SpanKind.MODEL)
    assert messages(run, first, v.TOOL_DEFINITIONS) == foreign_endpoint.requests[0].body["tools"]
    assert first.bodies[v.TOOL_DEFINITIONS] == second.bodies[v.TOOL_DEFINITIONS]


@BOTH
async def test_arguments_are_kept_character_by_character(
    foreign_endpoint: ForeignEndpoint, stream: bool
) -> None:
    run = await observed(foreign_endpoint, [ASKS, ANSWERS], options={"stream": stream})
    first, _ = run.sink.of_kind(SpanKind.MODEL)
    assert body(run, first, v.TOOL_CALL_TEXTS) == {"call_1": '{"city":  "Paris"}'}


@BOTH
async def test_malformed_arguments_are_kept_as_the_model_wrote_them(
    foreign_endpoint: ForeignEndpoint, stream: bool
) -> None:
    broken = replying(completion("resp-1", tool_calls=[("call_1", "weather", '{"city": "Par')]))
    run = await observed(foreign_endpoint, [broken, ANSWERS], options={"stream": stream})
    first = run.sink.of_kind(SpanKind.MODEL)[0]
    assert body(run, first, v.TOOL_CALL_TEXTS) == {"call_1": '{"city": "Par'}
    [call] = messages(run, first, v.OUTPUT_MESSAGES)[0]["parts"]
    if stream:  # langchain-core 1.8.3 completes them and executes that
        assert call["arguments"] == {"city": "Par"}
        assert run.port.calls == [("weather", {"city": "Par"}, "call_1")]
    else:  # and without a stream calls them invalid and ends
        assert call["arguments"] == '{"city": "Par'
        assert run.port.calls == []
        assert rejected_calls(run.sink.ends) == {"call_1"}


async def test_a_call_of_a_tool_that_was_not_offered_is_marked_as_refused(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    unknown = replying(completion("resp-1", tool_calls=[("call_1", "teleport", "{}")]))
    run = await observed(foreign_endpoint, [unknown, ANSWERS])
    assert run.port.calls == []
    assert rejected_calls(run.sink.ends) == {"call_1"}


@BOTH
async def test_parallel_tool_calls_belong_to_the_model_call_that_asked(
    foreign_endpoint: ForeignEndpoint, stream: bool
) -> None:
    calls = [(f"call_{n}", "weather", json.dumps({"city": str(n)})) for n in range(4)]
    asks = replying(completion("resp-1", tool_calls=calls))
    run = await observed(foreign_endpoint, [asks, ANSWERS], options={"stream": stream})
    first = run.sink.of_kind(SpanKind.MODEL)[0]
    assert run.port.parents == [(first.start.span_id, ParentSource.CALL_ID)] * 4
    assert sorted(run.port.calls, key=str) == [("weather", {"city": str(n)}, f"call_{n}") for n in range(4)]


async def test_the_bytes_reach_the_sdk_unchanged(foreign_endpoint: ForeignEndpoint) -> None:
    # A compressed answer: the copy is taken of what was sent, and read after decoding it.
    whole = json.dumps(completion("resp-1", text="Sunny.", reasoning="Look up.")).encode()
    zipped = ForeignReply(raw=gzip.compress(whole), headers={"content-encoding": "gzip"})
    foreign_endpoint.replies = [zipped]
    run = attempt(foreign_endpoint.base_url)
    trace = await run.run()
    assert trace.final_answer == "Sunny."
    [model] = run.sink.of_kind(SpanKind.MODEL)
    assert messages(run, model, v.OUTPUT_MESSAGES)[0]["parts"][0] == {
        "type": "reasoning",
        "content": "Look up.",
    }


async def test_time_to_the_first_chunk_is_known_of_streams_only(foreign_endpoint: ForeignEndpoint) -> None:
    streamed = await observed(foreign_endpoint, [ANSWERS, ANSWERS], options={"stream": True})
    [end] = streamed.sink.of_kind(SpanKind.MODEL)
    seconds = end.attributes[v.TIME_TO_FIRST_CHUNK]
    assert isinstance(seconds, float)
    assert 0 < seconds <= (end.end_ns - end.start.start_ns) / 1e9
    whole = await observed(foreign_endpoint, [ANSWERS, ANSWERS])
    assert v.TIME_TO_FIRST_CHUNK not in whole.sink.of_kind(SpanKind.MODEL)[0].attributes


async def test_tries_that_the_client_repeats_are_events_of_the_model_span(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    busy = ForeignReply(status=500, body={"error": {"message": "busy"}}, headers={"retry-after-ms": "1"})
    run = await observed(foreign_endpoint, [busy, busy, ANSWERS])
    [end] = run.sink.of_kind(SpanKind.MODEL)
    assert end.status is SpanStatus.OK
    assert [(event.name, event.attributes) for event in end.events] == [
        (v.FAILED_TRY, {"http.status_code": 500, "retry_count": 0}),
        (v.REPEATED_TRY, {"retry_count": 1}),
        (v.FAILED_TRY, {"http.status_code": 500, "retry_count": 1}),
        (v.REPEATED_TRY, {"retry_count": 2}),
    ]
    assert end.attributes[v.RETRIES] == 2


async def test_a_model_call_that_fails_is_a_failed_span_and_the_exception_passes(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.respond = lambda request, number: ForeignReply(
        status=500, body={"error": {"message": "broken"}}, headers={"retry-after-ms": "1"}
    )
    run = attempt(foreign_endpoint.base_url)
    with pytest.raises(Exception, match="broken") as raised:
        await run.run()
    assert getattr(raised.value, "status_code", None) == 500
    model, root = run.sink.ends
    assert (model.start.kind, model.status, root.status) == (
        SpanKind.MODEL,
        SpanStatus.ERROR,
        SpanStatus.ERROR,
    )
    assert model.error_type is not None
    assert "broken" in (model.error_message or "")
    tries = [event.name for event in model.events]
    assert tries.count(v.FAILED_TRY) == 3  # the SDK's first try and its two retries
    failed = ModelCallRecord(None, None, Usage(), retries=2, failed_statuses=(500, 500, 500))
    assert model_calls(run.sink.ends) == [failed]


async def test_what_came_of_a_broken_stream_is_kept(foreign_endpoint: ForeignEndpoint) -> None:
    failing = ForeignReply(events=[*ANSWERS.events[:2], {"error": {"message": "overloaded"}}])
    foreign_endpoint.replies = [failing]
    run = attempt(foreign_endpoint.base_url, options={"stream": True})
    with pytest.raises(Exception, match="overloaded"):
        await run.run()
    [model] = run.sink.of_kind(SpanKind.MODEL)
    assert model.status is SpanStatus.ERROR
    assert messages(run, model, v.OUTPUT_MESSAGES) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]}
    ]


async def test_a_cancelled_attempt_leaves_an_aborted_model_span(foreign_endpoint: ForeignEndpoint) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(request: ForeignRequest, number: int) -> ForeignReply:
        loop.call_soon_threadsafe(asked.set)
        return ForeignReply(hang=True)

    foreign_endpoint.respond = hang
    run = attempt(foreign_endpoint.base_url)
    task = asyncio.create_task(run.run())
    arrived = asyncio.create_task(asked.wait())
    await asyncio.wait({task, arrived}, return_when=asyncio.FIRST_COMPLETED)
    assert arrived.done()  # else the attempt ended without asking, and would be awaited for ever
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [model] = run.sink.of_kind(SpanKind.MODEL)
    assert (model.status, model.error_type) == (SpanStatus.ABORTED, "asyncio.exceptions.CancelledError")


async def test_sixteen_attempts_at_once_have_every_span_under_their_own_root(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        said = request.body["messages"]
        who = said[0]["content"]
        if len(said) == 1:
            return replying(
                completion(f"{who}-1", tool_calls=[("call_1", "weather", json.dumps({"city": who}))])
            )
        return replying(completion(f"{who}-2", text=f"Sunny in {who}."))

    foreign_endpoint.respond = reply
    runs = [attempt(foreign_endpoint.base_url, run_id=f"run-{n}") for n in range(16)]
    traces = await asyncio.gather(*(run.run(f"city-{n}") for n, run in enumerate(runs)))
    for n, (run, trace) in enumerate(zip(runs, traces, strict=True)):
        assert trace.final_answer == f"Sunny in city-{n}."
        assert [call.response_id for call in model_calls(run.sink.ends)] == [f"city-{n}-1", f"city-{n}-2"]
        assert run.port.calls == [("weather", {"city": f"city-{n}"}, "call_1")]
        assert {start.trace_id for start in run.sink.starts} == {run.recorder.trace_id}
        models = run.sink.of_kind(SpanKind.MODEL)
        assert {end.start.parent_id for end in models} == {run.recorder.root.span_id}
        assert run.port.parents == [(models[0].start.span_id, ParentSource.CALL_ID)]


async def test_hooks_wait_for_room_in_the_sink(foreign_endpoint: ForeignEndpoint) -> None:
    run = await observed(foreign_endpoint, [ASKS, ANSWERS])
    assert run.sink.waits == 4  # before and after each of two model calls


async def test_a_hook_that_fails_is_counted_and_the_run_goes_on(
    foreign_endpoint: ForeignEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_endpoint.replies = [ANSWERS]
    run = attempt(foreign_endpoint.base_url)

    def broken(*arguments: Any) -> None:
        raise RuntimeError("hook is broken")

    monkeypatch.setattr(run.instrument, "model_started", broken)
    assert (await run.run()).final_answer == "Sunny."
    [root] = run.sink.ends
    assert root.attributes[v.RECORDER_FAILURES] == 1
    [event] = root.events
    assert event.attributes["where"] == "on_chat_model_start"
    assert event.attributes["error.message"] == "hook is broken"


async def test_a_response_that_no_model_call_announced_is_counted(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    run = attempt(foreign_endpoint.base_url)
    call = uuid4()
    run.instrument.model_started(call, None, [], {"model": "m"})
    run.instrument.model_failed(call, ValueError("refused before anything was sent"))
    async with http_clients() as (client, _):
        await client.post(f"{foreign_endpoint.base_url}/chat/completions", json={})
    run.recorder.close()
    [event] = run.sink.of_kind(SpanKind.AGENT)[0].events
    assert event.attributes["error.message"] == "no model call was announced for a response"


async def test_bytes_per_turn_stay_constant(foreign_endpoint: ForeignEndpoint) -> None:
    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        if number == 40:
            return ANSWERS
        arguments = json.dumps({"city": f"{number:04}"})
        return replying(
            completion(f"resp-{number:04}", tool_calls=[(f"call_{number:04}", "weather", arguments)])
        )

    foreign_endpoint.respond = reply
    run = attempt(foreign_endpoint.base_url, limits=Limits(max_turns=41))
    handed: list[int] = []
    run.port.tools = {"weather": lambda arguments: handed.append(run.sink.bytes_handed) or "sunny"}  # type: ignore[func-returns-value]
    await run.run()
    per_turn = [after - before for before, after in zip(handed, handed[1:], strict=False)]
    assert per_turn[-1] <= 1.2 * per_turn[9]


async def test_a_graph_within_the_graph_is_an_agent_span(foreign_endpoint: ForeignEndpoint) -> None:
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        said = request.body["messages"]
        if said[0]["content"] == "inner":
            return replying(completion(f"resp-{number}", text="From within."))
        if len(said) == 1:
            return replying(completion(f"resp-{number}", tool_calls=[("call_1", "ask", "{}")]))
        return replying(completion(f"resp-{number}", text="Done."))

    foreign_endpoint.respond = reply
    run = attempt(foreign_endpoint.base_url)
    async with http_clients() as (asynchronous, synchronous):
        model = ChatOpenAI(
            base_url=foreign_endpoint.base_url,
            api_key=run.context.model.api_key,
            model="m",
            http_async_client=asynchronous,
            http_client=synchronous,
        )
        inner: Any = create_agent(model, [], name="researcher")

        @tool
        async def ask() -> str:
            """Ask the researcher."""
            state = await inner.ainvoke({"messages": [{"role": "user", "content": "inner"}]})
            return str(state["messages"][-1].content)

        outer: Any = create_agent(model, [ask])
        with run.recorder.as_current(run.recorder.root.span_id):
            await outer.ainvoke(
                {"messages": [{"role": "user", "content": "outer"}]},
                {"callbacks": [run.instrument.handler]},
            )
    run.recorder.close()
    agent = run.sink.named("researcher")
    assert (agent.start.kind, agent.start.parent_id) == (SpanKind.AGENT, run.recorder.root.span_id)
    parents = [end.start.parent_id for end in run.sink.of_kind(SpanKind.MODEL)]
    assert parents == [run.recorder.root.span_id, agent.start.span_id, run.recorder.root.span_id]

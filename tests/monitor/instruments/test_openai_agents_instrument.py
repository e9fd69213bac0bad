"""What the OpenAI Agents instrument records of runs against a foreign endpoint, in both dialects."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from atp.protocol.environment import ToolSpec
from atp.protocol.model import Limits
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import ParentSource, SpanEnd, SpanKind, SpanStatus
from atp.protocol.trace import Usage
from monitor import vocabulary as v
from monitor.instruments.openai_agents_hooks import keep_traces_here
from monitor.instruments.openai_http import http_clients
from monitor.records import model_calls, rejected_calls
from tests.adapters.harnesses.openai_agents_attempt import (
    ALL,
    BOTH,
    CHAT,
    CHAT_STREAM,
    RESPONSES,
    RESPONSES_STREAM,
    WEATHER,
    Api,
    Attempt,
    attempt,
)
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest

USAGE = (120, 30, 40, 5)


def asks(api: Api) -> ForeignReply:
    return api.reply(
        "resp_1", USAGE, reasoning="Paris, then.", tool_calls=[("call_1", "weather", '{"city":  "Paris"}')]
    )


def answers(api: Api) -> ForeignReply:
    return api.reply("resp_2", USAGE, text="Sunny.")


async def observed(
    endpoint: ForeignEndpoint, api: Api, replies: list[ForeignReply], **options: Any
) -> Attempt:
    endpoint.replies = replies
    run = attempt(endpoint.base_url, api, **options)
    await run.run()
    return run


def messages(run: Attempt, end: SpanEnd, name: str) -> list[Any]:
    return run.sink.messages(end.bodies[name])


@ALL
async def test_the_model_spans_equal_what_the_endpoint_said(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    run = await observed(foreign_endpoint, api, [asks(api), answers(api)])
    said = Usage(input_tokens=120, output_tokens=40, cache_read_tokens=30, reasoning_tokens=5)
    assert model_calls(run.sink.ends) == [
        ModelCallRecord("resp_1", "foreign-model", said, "tool_calls", (("call_1", "weather"),), retries=0),
        ModelCallRecord("resp_2", "foreign-model", said, "stop", retries=0),
    ]
    assert run.recorder.failures == 0


@ALL
async def test_model_spans_tell_what_was_asked_and_answered(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    run = await observed(foreign_endpoint, api, [asks(api), answers(api)], system_prompt="Be brief.")
    first, second = run.sink.of_kind(SpanKind.MODEL)
    assert first.attributes[v.MODEL_NAME] == "asked-model"
    assert first.attributes[v.ACTOR] == "agent"
    assert first.attributes[v.MODEL_STREAM] is api.stream
    reasoning = {"type": "reasoning", "content": "Paris, then."}
    call = {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Paris"}}
    assert messages(run, first, v.OUTPUT_MESSAGES) == [{"role": "assistant", "parts": [reasoning, call]}]
    asked = messages(run, second, v.INPUT_MESSAGES)
    # A chat completion is not told again what the model thought, a response is.
    thought = [reasoning] if api.dialect == RESPONSES.dialect else []
    assert asked == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "How is the weather?"}]},
        {"role": "assistant", "parts": [*thought, call]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "sunny"}]},
    ]
    assert messages(run, second, v.OUTPUT_MESSAGES) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]}
    ]


@BOTH
async def test_tool_definitions_are_one_body_each_as_on_the_wire(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    clock = ToolSpec(name="clock", parameters={"type": "object", "properties": {}})
    run = await observed(foreign_endpoint, api, [asks(api), answers(api)], tools=[WEATHER, clock])
    first, second = run.sink.of_kind(SpanKind.MODEL)
    assert messages(run, first, v.TOOL_DEFINITIONS) == foreign_endpoint.requests[0].body["tools"]
    assert first.bodies[v.TOOL_DEFINITIONS] == second.bodies[v.TOOL_DEFINITIONS]


@ALL
async def test_arguments_are_kept_character_by_character(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    run = await observed(foreign_endpoint, api, [asks(api), answers(api)])
    first, _ = run.sink.of_kind(SpanKind.MODEL)
    assert run.sink.json(first.bodies[v.TOOL_CALL_TEXTS]) == {"call_1": '{"city":  "Paris"}'}


@ALL
async def test_a_call_of_a_tool_that_was_not_offered_is_marked_as_refused(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    foreign_endpoint.replies = [api.reply("resp_1", tool_calls=[("call_1", "teleport", "{}")])]
    run = attempt(foreign_endpoint.base_url, api)
    with pytest.raises(Exception, match="teleport"):
        await run.run()
    assert rejected_calls(run.sink.ends) == {"call_1"}


@ALL
async def test_parallel_tool_calls_belong_to_the_model_call_that_asked(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    calls = [(f"call_{n}", "weather", json.dumps({"city": str(n)})) for n in range(4)]
    run = await observed(foreign_endpoint, api, [api.reply("resp_1", tool_calls=calls), answers(api)])
    first = run.sink.of_kind(SpanKind.MODEL)[0]
    assert run.port.parents == [(first.start.span_id, ParentSource.CALL_ID)] * 4
    assert sorted(run.port.calls, key=str) == [("weather", {"city": str(n)}, f"call_{n}") for n in range(4)]


async def test_time_to_the_first_chunk_is_known_of_streams_only(foreign_endpoint: ForeignEndpoint) -> None:
    streamed = await observed(foreign_endpoint, CHAT_STREAM, [answers(CHAT)] * 2)
    [end] = streamed.sink.of_kind(SpanKind.MODEL)
    seconds = end.attributes[v.TIME_TO_FIRST_CHUNK]
    assert isinstance(seconds, float)
    assert 0 < seconds <= (end.end_ns - end.start.start_ns) / 1e9
    whole = await observed(foreign_endpoint, CHAT, [answers(CHAT)] * 2)
    assert v.TIME_TO_FIRST_CHUNK not in whole.sink.of_kind(SpanKind.MODEL)[0].attributes


@BOTH
async def test_tries_that_the_client_repeats_are_events_of_the_model_span(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    busy = ForeignReply(status=500, body={"error": {"message": "busy"}}, headers={"retry-after-ms": "1"})
    run = await observed(foreign_endpoint, api, [busy, busy, answers(api)])
    [end] = run.sink.of_kind(SpanKind.MODEL)
    assert end.status is SpanStatus.OK
    assert [(event.name, event.attributes) for event in end.events] == [
        (v.FAILED_TRY, {"http.status_code": 500, "retry_count": 0}),
        (v.REPEATED_TRY, {"retry_count": 1}),
        (v.FAILED_TRY, {"http.status_code": 500, "retry_count": 1}),
        (v.REPEATED_TRY, {"retry_count": 2}),
    ]
    assert end.attributes[v.RETRIES] == 2


@ALL
async def test_a_model_call_that_fails_is_a_failed_span_with_what_was_asked(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    foreign_endpoint.respond = lambda request, number: ForeignReply(
        status=400, body={"error": {"message": "broken", "code": "invalid"}}
    )
    run = attempt(foreign_endpoint.base_url, api)
    with pytest.raises(Exception, match="broken"):
        await run.run()
    model, root = run.sink.ends
    assert (model.start.kind, model.status, root.status) == (
        SpanKind.MODEL,
        SpanStatus.ERROR,
        SpanStatus.ERROR,
    )
    assert model.error_type == "openai.BadRequestError"
    assert messages(run, model, v.INPUT_MESSAGES) == [
        {"role": "user", "parts": [{"type": "text", "content": "How is the weather?"}]}
    ]
    assert messages(run, model, v.TOOL_DEFINITIONS) == foreign_endpoint.requests[0].body["tools"]
    failed = ModelCallRecord(None, None, Usage(), retries=0, failed_statuses=(400,))
    assert model_calls(run.sink.ends) == [failed]


@pytest.mark.parametrize("api", [CHAT_STREAM, RESPONSES_STREAM], ids=["chat", "responses"])
async def test_what_came_of_a_broken_stream_is_kept(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    text = "A long answer that is cut in the middle of it all."
    whole = api.reply("resp_1", text=text)
    foreign_endpoint.replies = [ForeignReply(events=whole.events, drop_after=5)]
    run = attempt(foreign_endpoint.base_url, api)
    with pytest.raises(Exception, match=r"."):
        await run.run()
    [model] = run.sink.of_kind(SpanKind.MODEL)
    assert model.status is SpanStatus.ERROR
    [message] = messages(run, model, v.OUTPUT_MESSAGES)
    came = message["parts"][0]["content"]
    assert 0 < len(came) < len(text)
    assert text.startswith(came)


@ALL
async def test_a_reply_cut_at_its_limit_keeps_its_reason(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    cut = {"finish_reason": "length"} if api.dialect == CHAT.dialect else {"incomplete": "max_output_tokens"}
    foreign_endpoint.replies = [api.reply("resp_1", USAGE, text="Sun", **cut)]
    run = attempt(foreign_endpoint.base_url, api)
    if api.dialect == CHAT.dialect:
        assert (await run.run()).final_answer == "Sun"
    else:  # openai-agents 0.24 takes an incomplete response for a failure
        with pytest.raises(Exception, match="incomplete"):
            await run.run()
    [call] = model_calls(run.sink.ends)
    assert (call.response_id, call.finish_reason) == ("resp_1", "length")
    [model] = run.sink.of_kind(SpanKind.MODEL)
    assert messages(run, model, v.OUTPUT_MESSAGES)[0]["parts"] == [{"type": "text", "content": "Sun"}]


@ALL
async def test_a_cancelled_attempt_leaves_an_aborted_model_span(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(request: ForeignRequest, number: int) -> ForeignReply:
        loop.call_soon_threadsafe(asked.set)
        return ForeignReply(hang=True)

    foreign_endpoint.respond = hang
    run = attempt(foreign_endpoint.base_url, api)
    before = asyncio.all_tasks()
    task = asyncio.create_task(run.run())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [model] = run.sink.of_kind(SpanKind.MODEL)
    assert (model.status, model.error_type) == (SpanStatus.ABORTED, "asyncio.exceptions.CancelledError")
    assert {left for left in asyncio.all_tasks() - before if not left.done()} <= {task}


@ALL
async def test_sixteen_attempts_at_once_have_every_span_under_their_own_root(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        said = api.asked(request.body)
        who = said[0]["content"]
        if len(said) == 1:
            return api.reply(f"{who}-1", tool_calls=[("call_1", "weather", json.dumps({"city": who}))])
        return api.reply(f"{who}-2", text=f"Sunny in {who}.")

    foreign_endpoint.respond = reply
    runs = [attempt(foreign_endpoint.base_url, api, run_id=f"run-{n}") for n in range(16)]
    traces = await asyncio.gather(*(run.run(f"city-{n}") for n, run in enumerate(runs)))
    for n, (run, trace) in enumerate(zip(runs, traces, strict=True)):
        assert trace.final_answer == f"Sunny in city-{n}."
        assert [call.response_id for call in model_calls(run.sink.ends)] == [f"city-{n}-1", f"city-{n}-2"]
        assert run.port.calls == [("weather", {"city": f"city-{n}"}, "call_1")]
        assert {start.trace_id for start in run.sink.starts} == {run.recorder.trace_id}
        models = run.sink.of_kind(SpanKind.MODEL)
        assert {end.start.parent_id for end in models} == {run.recorder.root.span_id}
        assert run.port.parents == [(models[0].start.span_id, ParentSource.CALL_ID)]


@ALL
async def test_hooks_wait_for_room_in_the_sink(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    run = await observed(foreign_endpoint, api, [asks(api), answers(api)])
    assert run.sink.waits == 4  # before and after each of two model calls


async def test_a_hook_that_fails_is_counted_and_the_run_goes_on(
    foreign_endpoint: ForeignEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_endpoint.replies = [answers(CHAT)]
    run = attempt(foreign_endpoint.base_url)

    def broken(*arguments: Any) -> None:
        raise RuntimeError("hook is broken")

    monkeypatch.setattr(run.instrument, "_model_started", broken)
    assert (await run.run()).final_answer == "Sunny."
    [root] = run.sink.ends
    assert root.attributes[v.RECORDER_FAILURES] == 1
    assert root.events[0].attributes["where"] == "on_span_start"


@BOTH
async def test_bytes_per_turn_stay_constant(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        if number == 40:
            return answers(api)
        arguments = json.dumps({"city": f"{number:04}"})
        return api.reply(f"resp-{number:04}", tool_calls=[(f"call_{number:04}", "weather", arguments)])

    foreign_endpoint.respond = reply
    run = attempt(foreign_endpoint.base_url, api, limits=Limits(max_turns=41))
    handed: list[int] = []
    run.port.tools = {"weather": lambda arguments: handed.append(run.sink.bytes_handed) or "sunny"}  # type: ignore[func-returns-value]
    await run.run()
    per_turn = [after - before for before, after in zip(handed, handed[1:], strict=False)]
    assert per_turn[-1] <= 1.2 * per_turn[9]


async def test_the_sdks_own_exporter_is_gone(foreign_endpoint: ForeignEndpoint) -> None:
    from agents import add_trace_processor, trace
    from agents.tracing.processors import BatchTraceProcessor, ConsoleSpanExporter

    # As the SDK sets it up when nobody says anything: a processor with a thread and an exporter.
    exporter = ConsoleSpanExporter()
    exported: list[Any] = []
    exporter.export = exported.extend  # type: ignore[method-assign, assignment]
    theirs = BatchTraceProcessor(exporter)
    add_trace_processor(theirs)
    await observed(foreign_endpoint, CHAT, [answers(CHAT)])
    with trace("outside of any attempt"):
        pass
    theirs.shutdown()
    assert exported == []


def team(client: Any, api: Api) -> tuple[Any, Any]:
    """Two agents, of which the first hands off to the second and calls a third as a tool."""
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel

    kind: Any = OpenAIChatCompletionsModel if api.dialect == CHAT.dialect else OpenAIResponsesModel
    model = kind("asked-model", client)
    expert = Agent[Any](name="expert", instructions="expert", model=model)
    clerk = Agent[Any](name="clerk", instructions="clerk", model=model)
    asked = expert.as_tool(tool_name="ask_expert", tool_description="Ask.")
    return Agent[Any](name="front", instructions="front", model=model, handoffs=[clerk], tools=[asked]), clerk


@BOTH
async def test_agents_that_a_run_hands_off_to_and_calls_as_tools_are_agent_spans(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    from agents import Runner
    from openai import AsyncOpenAI

    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        calls = {
            0: [("call_1", "ask_expert", '{"input": "what?"}')],
            2: [("call_2", "transfer_to_clerk", "{}")],
        }
        said = {"tool_calls": calls[number]} if number in calls else {"text": f"Reply {number}."}
        return api.reply(f"resp_{number}", **said)

    foreign_endpoint.respond = reply
    run = attempt(foreign_endpoint.base_url, api)
    async with http_clients() as (asynchronous, _):
        client = AsyncOpenAI(base_url=foreign_endpoint.base_url, api_key="k", http_client=asynchronous)
        front, _clerk = team(client, api)
        with (
            run.recorder.as_current(run.recorder.root.span_id),
            run.instrument.watching("asked-model", frozenset({"weather"})),
        ):
            result = await Runner.run(front, "Hello", hooks=run.instrument.hooks)
    run.recorder.close()
    assert result.final_output == "Reply 3."
    root = run.recorder.root.span_id
    expert, clerk = run.sink.named("expert"), run.sink.named("clerk")
    assert (expert.start.kind, expert.start.parent_id) == (SpanKind.AGENT, root)
    assert (clerk.start.kind, clerk.start.parent_id) == (SpanKind.AGENT, root)
    parents = [end.start.parent_id for end in run.sink.of_kind(SpanKind.MODEL)]
    assert parents == [root, expert.start.span_id, root, clerk.start.span_id]
    # Neither goes through the binding.
    assert rejected_calls(run.sink.ends) == {"call_1", "call_2"}


@ALL
async def test_a_model_of_another_client_is_known_by_its_span(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner
    from openai import AsyncOpenAI

    foreign_endpoint.replies = [api.reply("resp_1", USAGE, text="Sunny.", reasoning="Look up.")]
    run = attempt(foreign_endpoint.base_url, api)
    kind: Any = OpenAIChatCompletionsModel if api.dialect == CHAT.dialect else OpenAIResponsesModel
    async with AsyncOpenAI(base_url=foreign_endpoint.base_url, api_key="k") as client:
        settings = ModelSettings(include_usage=True)
        agent = Agent[Any](name="own", model=kind("own-model", client), model_settings=settings)
        with run.instrument.watching("unseen"):
            if api.stream:
                streamed = Runner.run_streamed(agent, "Hello")
                async for _ in streamed.stream_events():
                    pass
            else:
                await Runner.run(agent, "Hello")
    run.recorder.close()
    [model] = run.sink.of_kind(SpanKind.MODEL)
    [call] = model_calls(run.sink.ends)
    assert (call.usage.input_tokens, call.usage.output_tokens, call.usage.cache_read_tokens) == (120, 40, 30)
    assert messages(run, model, v.INPUT_MESSAGES)[-1] == {
        "role": "user",
        "parts": [{"type": "text", "content": "Hello"}],
    }
    parts = messages(run, model, v.OUTPUT_MESSAGES)[0]["parts"]
    assert parts == [
        {"type": "reasoning", "content": "Look up."},
        {"type": "text", "content": "Sunny."},
    ]


async def test_spans_outside_of_any_attempt_go_nowhere() -> None:
    from agents import custom_span, trace

    keep_traces_here()
    with trace("nobody's"), custom_span("nobody listens"):
        pass


async def test_custom_spans_of_a_users_program_are_chains(foreign_endpoint: ForeignEndpoint) -> None:
    from agents import custom_span, trace

    run = attempt(foreign_endpoint.base_url)
    with run.instrument.watching("m"), trace("theirs"):
        with custom_span("plan"), custom_span("step"):
            pass
    run.recorder.close()
    plan, step = run.sink.named("plan"), run.sink.named("step")
    assert (plan.start.kind, step.start.kind) == (SpanKind.CHAIN, SpanKind.CHAIN)
    assert step.start.parent_id == plan.start.span_id

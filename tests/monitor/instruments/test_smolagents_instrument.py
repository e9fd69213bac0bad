"""What the smolagents instrument records of runs against a foreign endpoint."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from atp.protocol.model import Limits
from atp.protocol.records import ModelCallRecord
from atp.protocol.spans import ParentSource, SpanEnd, SpanKind, SpanStatus
from atp.protocol.trace import Usage
from monitor import vocabulary as v
from monitor.records import model_calls, rejected_calls
from tests.adapters.harnesses.smolagents_attempt import (
    ANSWERS,
    ASKS,
    USAGE,
    WEATHER,
    Attempt,
    answering,
    attempt,
    calling,
)
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

BUSY = ForeignReply(status=500, body={"error": {"message": "busy"}}, headers={"retry-after-ms": "1"})
SAID = Usage(input_tokens=120, output_tokens=40, cache_read_tokens=30, reasoning_tokens=5)


async def observed(endpoint: ForeignEndpoint, replies: list[ForeignReply], **options: Any) -> Attempt:
    endpoint.replies = replies
    run = attempt(endpoint.base_url, **options)
    await run.run()
    return run


def messages(run: Attempt, end: SpanEnd, name: str) -> list[Any]:
    return run.sink.messages(end.bodies[name])


async def test_the_model_spans_equal_what_the_endpoint_said(foreign_endpoint: ForeignEndpoint) -> None:
    run = await observed(foreign_endpoint, [ASKS, ANSWERS])
    asked = (("call_1", "weather"),)
    answered = (("call_resp-2", "final_answer"),)
    assert model_calls(run.sink.ends) == [
        ModelCallRecord("resp-1", "foreign-model", SAID, "tool_calls", asked, retries=0),
        ModelCallRecord("resp-2", "foreign-model", SAID, "tool_calls", answered, retries=0),
    ]


async def test_model_spans_tell_what_was_asked_and_answered(foreign_endpoint: ForeignEndpoint) -> None:
    asks = calling("resp-1", ("call_1", "weather", '{"city":  "Paris"}'), reasoning="Paris, then.")
    run = await observed(foreign_endpoint, [asks, ANSWERS], system_prompt="Be brief.")
    first, second = run.sink.of_kind(SpanKind.MODEL)
    assert first.attributes[v.MODEL_NAME] == "asked-model"
    assert first.attributes[v.ACTOR] == "agent"
    assert first.attributes[v.MODEL_STREAM] is False
    assert messages(run, first, v.OUTPUT_MESSAGES) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Paris, then."},
                {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Paris"}},
            ],
        }
    ]
    assert run.sink.json(first.bodies[v.TOOL_CALL_TEXTS]) == {"call_1": '{"city":  "Paris"}'}
    wire = foreign_endpoint.requests[1].body
    assert messages(run, second, v.INPUT_MESSAGES) == [
        {
            "role": message["role"],
            "parts": [{"type": "text", "content": part["text"]} for part in message["content"]],
        }
        for message in wire["messages"]
    ]
    assert messages(run, second, v.TOOL_DEFINITIONS) == wire["tools"]
    assert first.bodies[v.TOOL_DEFINITIONS] == second.bodies[v.TOOL_DEFINITIONS]
    assert run.sink.json(second.bodies[v.MODEL_PARAMETERS]) == {
        "stop": wire["stop"],
        "tool_choice": "required",
    }


async def test_the_forced_last_call_has_a_complete_span(foreign_endpoint: ForeignEndpoint) -> None:
    forced = replying(completion("resp-2", text="Perhaps sunny.", usage=USAGE))
    run = await observed(foreign_endpoint, [ASKS, forced], limits=Limits(max_turns=1))
    _, last = run.sink.of_kind(SpanKind.MODEL)
    assert model_calls(run.sink.ends)[1] == ModelCallRecord(
        "resp-2", "foreign-model", SAID, "stop", retries=0
    )
    assert messages(run, last, v.OUTPUT_MESSAGES) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Perhaps sunny."}]}
    ]
    assert v.TOOL_DEFINITIONS not in last.bodies


async def test_spans_have_the_times_of_their_requests(foreign_endpoint: ForeignEndpoint) -> None:
    arrived: list[int] = []

    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        arrived.append(time.time_ns())
        return (ASKS, ANSWERS)[number]

    foreign_endpoint.respond = reply
    run = attempt(foreign_endpoint.base_url)
    executed: list[int] = []
    run.port.tools = {"weather": lambda arguments: executed.append(time.time_ns()) or "sunny"}  # type: ignore[func-returns-value]
    await run.run()
    first, second = run.sink.of_kind(SpanKind.MODEL)
    in_order = [
        *(first.start.start_ns, arrived[0], first.end_ns, executed[0]),
        *(second.start.start_ns, arrived[1], second.end_ns),
    ]
    assert in_order == sorted(in_order)


async def test_parallel_tool_calls_belong_to_the_model_call_that_asked(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    calls = [(f"call_{n}", "weather", json.dumps({"city": str(n)})) for n in range(8)]
    run = await observed(foreign_endpoint, [calling("resp-1", *calls), ANSWERS])
    first = run.sink.of_kind(SpanKind.MODEL)[0]
    assert run.port.parents == [(first.start.span_id, ParentSource.CALL_ID)] * 8


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("teleport", "{}"), ("weather", "{}"), ("weather", '{"city": 3}'), ("weather", '{"town": "Paris"}')],
)
async def test_calls_that_smolagents_answers_itself_are_marked_as_refused(
    foreign_endpoint: ForeignEndpoint, name: str, arguments: str
) -> None:
    run = await observed(foreign_endpoint, [calling("resp-1", ("call_1", name, arguments)), ANSWERS])
    assert run.port.calls == []
    assert rejected_calls(run.sink.ends) == {"call_1"}


async def test_malformed_arguments_are_kept_as_the_model_wrote_them(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    broken = calling("resp-1", ("call_1", "weather", '{"city": "Par'))
    run = await observed(foreign_endpoint, [broken, ANSWERS])
    first = run.sink.of_kind(SpanKind.MODEL)[0]
    assert run.sink.json(first.bodies[v.TOOL_CALL_TEXTS]) == {"call_1": '{"city": "Par'}
    [call] = messages(run, first, v.OUTPUT_MESSAGES)[0]["parts"]
    assert call["arguments"] == '{"city": "Par'
    assert run.port.parents == [(first.start.span_id, ParentSource.CALL_ID)]


async def test_tries_that_the_client_repeats_are_events_of_the_model_span(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    run = await observed(foreign_endpoint, [BUSY, BUSY, ANSWERS])
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
    foreign_endpoint.respond = lambda request, number: BUSY
    run = attempt(foreign_endpoint.base_url)
    with pytest.raises(Exception, match="busy"):
        await run.run()
    model, root = run.sink.ends
    assert (model.start.kind, model.status, root.status) == (
        SpanKind.MODEL,
        SpanStatus.ERROR,
        SpanStatus.ERROR,
    )
    assert model.error_type == "openai.InternalServerError"
    assert "busy" in (model.error_message or "")
    failed = ModelCallRecord(None, None, Usage(), retries=2, failed_statuses=(500, 500, 500))
    assert model_calls(run.sink.ends) == [failed]


async def test_a_connection_that_breaks_is_a_failed_try(foreign_endpoint: ForeignEndpoint) -> None:
    run = await observed(foreign_endpoint, [ForeignReply(drop_after=0), ANSWERS])
    [end] = run.sink.of_kind(SpanKind.MODEL)
    assert (end.status, end.attributes[v.RETRIES]) == (SpanStatus.OK, 1)


async def test_a_cancelled_attempt_leaves_an_aborted_model_span(foreign_endpoint: ForeignEndpoint) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(request: ForeignRequest, number: int) -> ForeignReply:
        loop.call_soon_threadsafe(asked.set)
        return ForeignReply(hang=True)

    foreign_endpoint.respond = hang
    run = attempt(foreign_endpoint.base_url)
    task = asyncio.create_task(run.run())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [model] = run.sink.of_kind(SpanKind.MODEL)
    assert (model.status, model.error_type) == (SpanStatus.ABORTED, "asyncio.exceptions.CancelledError")
    assert len(messages(run, model, v.INPUT_MESSAGES)) == 2
    assert run.recorder.failures == 0


async def test_sixteen_attempts_at_once_have_every_span_under_their_own_root(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        said = request.body["messages"]
        who = said[1]["content"][0]["text"].removeprefix("New task:\n")
        if len(said) == 2:
            return calling(f"{who}-1", ("call_1", "weather", json.dumps({"city": who})))
        return answering(f"{who}-2", f"Sunny in {who}.")

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
        assert {end.start.parent_source for end in models} == {ParentSource.CONTEXT}
        assert run.port.parents == [(models[0].start.span_id, ParentSource.CALL_ID)]


async def test_hooks_wait_for_room_in_the_sink(foreign_endpoint: ForeignEndpoint) -> None:
    run = await observed(foreign_endpoint, [ASKS, ANSWERS])
    assert run.sink.waits == 4  # before and after each of two model calls


async def test_a_hook_that_fails_is_counted_and_the_run_goes_on(
    foreign_endpoint: ForeignEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_endpoint.replies = [ANSWERS]
    run = attempt(foreign_endpoint.base_url)

    async def broken(*arguments: Any) -> None:
        raise RuntimeError("hook is broken")

    monkeypatch.setattr(run.instrument, "request_goes_out", broken)
    assert (await run.run()).final_answer == "Sunny."
    [root] = run.sink.ends
    assert root.attributes[v.RECORDER_FAILURES] == 1
    [event] = root.events
    assert (event.attributes["where"], event.attributes["error.message"]) == ("request", "hook is broken")


async def test_a_streamed_reply_is_recorded_as_a_whole_one(foreign_endpoint: ForeignEndpoint) -> None:
    # As an agent with `stream_outputs=True` asks its model.
    from smolagents.models import ChatMessage, MessageRole

    from monitor.instruments.openai_http import copying_client

    foreign_endpoint.replies = [
        replying(completion("resp-1", text="Sunny.", reasoning="Look up.", usage=USAGE))
    ]
    run = attempt(foreign_endpoint.base_url)
    with copying_client(lambda request: None) as client:
        model = run.instrument.watched_model(
            model_id="asked-model",
            api_base=foreign_endpoint.base_url,
            api_key="k",
            client_kwargs={"http_client": client},
        )
        asked = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": "Weather?"}])]
        deltas = await asyncio.to_thread(lambda: list(model.generate_stream(asked)))
    run.recorder.close()
    assert "".join(delta.content or "" for delta in deltas) == "Sunny."
    [end] = run.sink.of_kind(SpanKind.MODEL)
    assert end.attributes[v.MODEL_STREAM] is True
    assert model_calls(run.sink.ends) == [ModelCallRecord("resp-1", "foreign-model", SAID, "stop", retries=0)]
    seconds = end.attributes[v.TIME_TO_FIRST_CHUNK]
    assert isinstance(seconds, float)
    assert 0 < seconds <= (end.end_ns - end.start.start_ns) / 1e9
    assert messages(run, end, v.OUTPUT_MESSAGES)[0]["parts"][0] == {
        "type": "reasoning",
        "content": "Look up.",
    }


async def test_bytes_per_turn_stay_constant(foreign_endpoint: ForeignEndpoint) -> None:
    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        if number == 30:
            return ANSWERS
        arguments = json.dumps({"city": f"{number:04}"})
        return calling(f"resp-{number:04}", (f"call_{number:04}", "weather", arguments))

    foreign_endpoint.respond = reply
    run = attempt(foreign_endpoint.base_url, limits=Limits(max_turns=31), tools=[WEATHER])
    handed: list[int] = []
    run.port.tools = {"weather": lambda arguments: handed.append(run.sink.bytes_handed) or "sunny"}  # type: ignore[func-returns-value]
    await run.run()
    per_turn = [after - before for before, after in zip(handed, handed[1:], strict=False)]
    assert per_turn[-1] <= 1.2 * per_turn[9]

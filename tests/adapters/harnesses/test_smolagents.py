"""smolagents against a foreign OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from adapters.harnesses.smolagents import CARD, SmolagentsRunner
from atp.protocol.binding import ToolResult
from atp.protocol.environment import ToolSpec, UserStop, UserText, UserTurn
from atp.protocol.errors import InvalidInput
from atp.protocol.model import Limits, Sampling
from atp.protocol.spans import SpanHandle, SpanKind
from atp.protocol.status import ErrorInfo, Status, StopReason, classify
from atp.protocol.task import ImagePart
from atp.protocol.trace import Usage
from monitor import vocabulary as v
from tests.adapters.harnesses.smolagents_attempt import (
    ANSWERS,
    ASKS,
    USAGE,
    WEATHER,
    answering,
    attempt,
    calling,
)
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

PARIS = '{"city": "Paris"}'


def forever(request: ForeignRequest, number: int) -> ForeignReply:
    if "tools" not in request.body:
        return replying(completion(f"resp-{number}", text="Perhaps sunny.", usage=USAGE))
    return calling(f"resp-{number}", (f"call_{number}", "weather", PARIS))


def fails(arguments: Any) -> None:
    raise ValueError("no such city")


def texts(request: ForeignRequest) -> list[tuple[str, str]]:
    """(role, text) of all messages but the system's."""
    return [
        (message["role"], "".join(part["text"] for part in message["content"]))
        for message in request.body["messages"]
        if message["role"] != "system"
    ]


def turns() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "agent-turn"]


def test_the_card_names_the_version_that_is_pinned() -> None:
    pinned = (Path(__file__).parents[3] / str(CARD.requirements)).read_text(encoding="utf-8")
    assert f"\n{CARD.package}=={CARD.version} " in pinned


async def test_a_tool_call_and_an_answer(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    run = attempt(foreign_endpoint.base_url)
    trace = await run.run()
    assert trace.final_answer == "Sunny."
    assert trace.stop_reason is StopReason.ANSWERED
    assert trace.native == {"state": "success", "steps": 2, "errors": []}
    assert run.port.calls == [("weather", {"city": "Paris"}, "call_1")]


async def test_calls_and_results_stand_in_the_memory_as_text(foreign_endpoint: ForeignEndpoint) -> None:
    # `ActionStep.to_messages` of smolagents 1.26.0, which the card tells of.
    foreign_endpoint.replies = [ASKS, ANSWERS]
    await attempt(foreign_endpoint.base_url).run()
    called = [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
    ]
    assert texts(foreign_endpoint.requests[1]) == [
        ("user", "New task:\nHow is the weather?"),
        ("assistant", f"Calling tools:\n{called}"),
        ("user", "Observation:\nsunny"),
    ]


async def test_the_harness_sums_the_usage_that_the_endpoint_said(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    trace = await attempt(foreign_endpoint.base_url).run()
    # Twice the endpoint's; of cached and reasoning tokens smolagents keeps no account.
    assert trace.harness_usage == Usage(input_tokens=240, output_tokens=80)
    assert trace.harness_model_calls == 2
    assert trace.response_ids == ("resp-1", "resp-2")


async def test_a_reply_without_usage_is_not_taken_as_the_card_says(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [replying(completion("resp-1", text="Sunny."))]
    made = attempt(foreign_endpoint.base_url)
    with pytest.raises(Exception, match="prompt_tokens"):
        await made.run()
    [span] = [end for end in made.sink.ends if end.start.kind is SpanKind.MODEL]
    assert span.attributes[v.FAILED_REPLY] == "refused"


RICH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "place": {
            "type": "object",
            "description": "Where.",
            "properties": {"city": {"type": "string", "minLength": 1}, "zip": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "days": {"type": "array", "items": {"type": "object", "properties": {"day": {"type": "string"}}}},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["place"],
    "additionalProperties": False,
}


async def test_the_schema_on_the_wire_differs_as_the_card_says(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    await attempt(
        foreign_endpoint.base_url, tools=[ToolSpec(name="rich", description="Rich.", parameters=RICH)]
    ).run()
    tool, owned = foreign_endpoint.requests[0].body["tools"]
    properties = RICH["properties"]
    assert tool["function"] == {
        "name": "rich",
        "description": "Rich.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": properties["place"],
                "days": {**properties["days"], "description": "", "nullable": True},
                "unit": {**properties["unit"], "description": "", "nullable": True},
                "note": {"type": ["string", "null"], "default": None, "description": "", "nullable": True},
            },
            "required": ["place"],
        },
    }
    assert owned["function"]["name"] in CARD.owned_tools
    for difference in ("`description`", "`nullable`", "`anyOf`", "`additionalProperties`", "`$ref`"):
        assert difference in CARD.schema_on_wire


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("get-weather", {"type": "object", "properties": {}}, "Python identifier"),
        ("final_answer", {"type": "object", "properties": {}}, "one of its own"),
        ("tree", {"properties": {"left": {"$ref": "#"}}}, "refers to itself"),
    ],
)
async def test_a_tool_that_smolagents_cannot_have_is_refused_by_name(
    name: str, parameters: dict[str, Any], says: str
) -> None:
    run = attempt("http://127.0.0.1:1/v1", tools=[ToolSpec(name=name, parameters=parameters)])
    with pytest.raises(InvalidInput, match=f"{name}.*{says}"):
        await run.run()


async def test_the_prompts_are_smolagents_own_with_the_benchmarks_as_instructions(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    from smolagents import OpenAIModel, ToolCallingAgent

    foreign_endpoint.replies = [answering("r", "Hello.")]
    await attempt(foreign_endpoint.base_url, system_prompt="Be brief.", tools=[]).run("Hello")
    body = foreign_endpoint.requests[0].body
    native = ToolCallingAgent([], OpenAIModel("m", api_key="k"), instructions="Be brief.").system_prompt
    assert "Be brief." in native
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][0]["content"] == [{"type": "text", "text": native}]
    assert body["messages"][1]["content"] == [{"type": "text", "text": "New task:\nHello"}]


async def test_nothing_is_added_to_the_parameters(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    await attempt(foreign_endpoint.base_url).run()
    body = foreign_endpoint.requests[0].body
    assert body.keys() == {"messages", "model", "stop", "tool_choice", "tools"}
    assert (body["model"], body["tool_choice"], body["stop"]) == (
        "asked-model",
        "required",
        ["Observation:", "Calling tools:"],
    )


async def test_the_requests_are_the_same_to_the_byte_with_a_monitor_and_without(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS, ASKS, ANSWERS]
    await attempt(foreign_endpoint.base_url).run()
    unwatched = attempt(foreign_endpoint.base_url, monitored=False)
    assert (await unwatched.run()).final_answer == "Sunny."
    assert unwatched.sink.of_kind(SpanKind.MODEL) == []
    assert unwatched.port.calls == [("weather", {"city": "Paris"}, "call_1")]
    requests = [request.raw for request in foreign_endpoint.requests]
    assert requests[:2] == requests[2:]


async def test_the_users_sampling_and_key_reach_the_model(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    sampling = Sampling(temperature=0.25, max_output_tokens=77)
    await attempt(foreign_endpoint.base_url, sampling=sampling).run()
    [request] = foreign_endpoint.requests
    assert (request.body["temperature"], request.body["max_completion_tokens"]) == (0.25, 77)
    assert request.headers["authorization"] == "Bearer key-a"


@pytest.mark.parametrize("limit", [1, 3])
async def test_at_the_limit_the_card_s_extra_call_is_made_and_no_other(
    foreign_endpoint: ForeignEndpoint, limit: int
) -> None:
    foreign_endpoint.respond = forever
    run = attempt(foreign_endpoint.base_url, limits=Limits(max_turns=limit))
    trace = await run.run()
    assert len(foreign_endpoint.requests) == limit + CARD.extra_calls_at_limit
    assert trace.stop_reason is StopReason.MAX_TURNS
    assert trace.final_answer == "Perhaps sunny."
    assert trace.harness_model_calls == limit + 1
    assert trace.harness_usage == Usage(input_tokens=120 * (limit + 1), output_tokens=40 * (limit + 1))
    assert trace.native["state"] == "max_steps_error"


async def test_an_extra_call_that_fails_is_no_answer(foreign_endpoint: ForeignEndpoint) -> None:
    def reply(request: ForeignRequest, number: int) -> ForeignReply:
        if number == 0:
            return forever(request, number)
        return ForeignReply(status=400, body={"error": {"message": "no more"}})

    foreign_endpoint.respond = reply
    trace = await attempt(foreign_endpoint.base_url, limits=Limits(max_turns=1)).run()
    assert trace.stop_reason is StopReason.MAX_TURNS
    assert trace.final_answer is None
    assert trace.harness_model_calls == 1
    assert trace.harness_usage is None


async def test_an_answer_with_the_last_allowed_model_call_is_an_answer(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    trace = await attempt(foreign_endpoint.base_url, limits=Limits(max_turns=2)).run()
    assert (trace.final_answer, trace.stop_reason) == ("Sunny.", StopReason.ANSWERED)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('"42"', "42"),
        ("42", "42"),
        ('{"città": [1, null]}', '{"città": [1, null]}'),
        ("null", None),
        ('""', ""),
    ],
)
async def test_an_answer_that_is_no_string_is_said_as_json(
    foreign_endpoint: ForeignEndpoint, answer: str, text: str | None
) -> None:
    foreign_endpoint.replies = [calling("r", ("c", "final_answer", f'{{"answer": {answer}}}'))]
    trace = await attempt(foreign_endpoint.base_url).run()
    assert trace.final_answer == text


async def test_a_failing_tool_gives_the_model_its_text(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    await attempt(foreign_endpoint.base_url, functions={"weather": fails}).run()
    assert texts(foreign_endpoint.requests[1])[-1] == ("user", "Observation:\nno such city")


async def test_with_tool_errors_raise_smolagents_tells_the_model_in_its_own_words(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    run = attempt(foreign_endpoint.base_url, functions={"weather": fails}, tool_errors="raise")
    trace = await run.run()
    assert trace.final_answer == "Sunny."
    assert trace.native["errors"] == ["AgentToolExecutionError"]
    [(role, said)] = texts(foreign_endpoint.requests[1])
    assert role == "user"
    assert "Error executing tool 'weather' with arguments {'city': 'Paris'}: ToolFailed: no such city" in said


async def test_parallel_calls_keep_their_ids(foreign_endpoint: ForeignEndpoint) -> None:
    calls = [(f"call_{n}", "weather", json.dumps({"city": str(n)})) for n in range(6)]
    foreign_endpoint.replies = [calling("resp-1", *calls), ANSWERS]
    run = attempt(foreign_endpoint.base_url, functions={"weather": lambda arguments: f"{arguments['city']}°"})
    await run.run()
    assert sorted(run.port.calls, key=str) == [("weather", {"city": str(n)}, f"call_{n}") for n in range(6)]
    assert texts(foreign_endpoint.requests[1])[-1] == ("user", "Observation:\n0°\n1°\n2°\n3°\n4°\n5°")


async def test_equal_parallel_calls_have_an_id_each(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [
        calling("resp-1", *[(f"call_{n}", "weather", PARIS) for n in range(4)]),
        ANSWERS,
    ]
    run = attempt(foreign_endpoint.base_url)
    await run.run()
    assert {call_id for _, _, call_id in run.port.calls} == {f"call_{n}" for n in range(4)}


async def test_a_call_that_was_refused_lends_its_id_to_no_later_one(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    both = ToolSpec(name="both", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
    foreign_endpoint.replies = [
        calling("resp-1", ("call_1", "both", '{"a": "x"}')),
        calling("resp-2", ("call_2", "both", '{"a": 1}')),
        answering("resp-3", "Done."),
    ]
    run = attempt(foreign_endpoint.base_url, tools=[both], functions={"both": lambda arguments: "ok"})
    trace = await run.run()
    assert run.port.calls == [("both", {"a": 1}, "call_2")]
    assert trace.native["errors"] == ["AgentToolCallError"]


async def test_integers_and_floats_reach_the_binding_as_they_were_written(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    pay = ToolSpec(
        name="pay",
        parameters={"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
    )
    foreign_endpoint.replies = [
        calling("resp-1", ("call_1", "pay", '{"sum": 2}'), ("call_2", "pay", '{"sum": 2.0}')),
        ANSWERS,
    ]
    run = attempt(foreign_endpoint.base_url, tools=[pay], functions={"pay": lambda arguments: "paid"})
    await run.run()
    assert {(call_id, json.dumps(arguments)) for _, arguments, call_id in run.port.calls} == {
        ("call_1", '{"sum": 2}'),
        ("call_2", '{"sum": 2.0}'),
    }


async def test_malformed_arguments_go_to_the_first_input_as_the_card_says(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [calling("resp-1", ("call_1", "weather", '{"city": "Par')), ANSWERS]
    run = attempt(foreign_endpoint.base_url)
    await run.run()
    assert run.port.calls == [("weather", {"city": '{"city": "Par'}, "call_1")]


async def test_an_unknown_tool_is_told_to_the_model_and_never_reaches_the_binding(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.replies = [calling("resp-1", ("call_1", "teleport", "{}")), ANSWERS]
    run = attempt(foreign_endpoint.base_url)
    assert (await run.run()).final_answer == "Sunny."
    assert run.port.calls == []
    assert "Unknown tool teleport" in texts(foreign_endpoint.requests[1])[-1][1]


async def test_text_without_a_call_is_no_answer_for_smolagents(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [replying(completion("resp-1", text="Sunny!", usage=USAGE)), ANSWERS]
    trace = await attempt(foreign_endpoint.base_url).run()
    assert trace.final_answer == "Sunny."
    assert trace.native["errors"] == ["AgentParsingError"]


async def test_unicode_empty_and_long_results_are_handed_on(foreign_endpoint: ForeignEndpoint) -> None:
    results = ["", "日本 🎉", "x" * 200_000]
    foreign_endpoint.replies = [
        *(calling(f"resp-{n}", (f"call_{n}", "weather", PARIS)) for n in range(3)),
        answering("resp-3", "Done."),
    ]
    left = list(results)
    run = attempt(foreign_endpoint.base_url, functions={"weather": lambda arguments: left.pop(0)})
    await run.run()
    said = [text for role, text in texts(foreign_endpoint.requests[3]) if text.startswith("Observation:")]
    assert said == [f"Observation:\n{result}" for result in results]


async def test_a_conversation_goes_on_in_the_harnesss_own_memory(foreign_endpoint: ForeignEndpoint) -> None:
    lines: list[UserTurn] = [*(UserText(text=f"Line {n}.") for n in range(5)), UserStop(reason="done")]
    foreign_endpoint.respond = lambda request, number: answering(f"resp-{number}", f"Reply {number}.")
    run = attempt(foreign_endpoint.base_url, has_user=True)

    async def say(text: str = "") -> UserTurn:
        return lines.pop(0)

    run.port.user_open = run.port.user_reply = say  # type: ignore[method-assign]
    trace = await run.run()
    said = texts(foreign_endpoint.requests[4])
    assert said[0] == ("user", "New task:\nLine 0.")
    assert said[2::2] == [("user", f"Observation:\nReply {n}.\nNew task:\nLine {n + 1}.") for n in range(4)]
    assert trace.replies == tuple(f"Reply {n}." for n in range(5))
    assert trace.stop_reason is StopReason.USER_STOP
    assert trace.harness_model_calls == 5
    assert trace.native["steps"] == 5


async def test_turns_are_counted_over_the_whole_conversation(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.respond = lambda request, number: answering(f"resp-{number}", "Again?")
    run = attempt(foreign_endpoint.base_url, has_user=True, limits=Limits(max_turns=2))

    async def say(text: str = "") -> UserTurn:
        return UserText(text="More.")

    run.port.user_open = run.port.user_reply = say  # type: ignore[method-assign]
    trace = await run.run()
    assert len(foreign_endpoint.requests) == 2
    assert trace.stop_reason is StopReason.MAX_TURNS


async def test_a_model_that_answers_500_is_the_providers_fault(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.respond = lambda request, number: ForeignReply(
        status=500, body={"error": {"message": "broken"}}, headers={"retry-after-ms": "1"}
    )
    with pytest.raises(Exception, match="broken") as raised:
        await attempt(foreign_endpoint.base_url).run()
    info = ErrorInfo.of(raised.value)
    verdict = classify(info)
    assert info.http_status == 500
    assert (verdict.status, verdict.stop_reason, verdict.retry) == (
        Status.INFRA_ERROR,
        StopReason.PROVIDER_ERROR,
        True,
    )
    assert len(foreign_endpoint.requests) == 3  # the client's first try and its two retries


async def test_a_cancel_ends_the_thread_that_waits_for_its_model(foreign_endpoint: ForeignEndpoint) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(request: ForeignRequest, number: int) -> ForeignReply:
        loop.call_soon_threadsafe(asked.set)
        return ForeignReply(hang=True)

    foreign_endpoint.respond = hang
    task = asyncio.create_task(attempt(foreign_endpoint.base_url).run())
    await asked.wait()
    assert turns() == ["agent-turn"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turns() == []
    assert len(foreign_endpoint.requests) == 1


async def test_a_cancel_ends_threads_that_wait_for_their_tools(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [
        calling("resp-1", *[(f"call_{n}", "weather", PARIS) for n in range(3)]),
        ANSWERS,
    ]
    run = attempt(foreign_endpoint.base_url)
    waiting = asyncio.Event()
    cancelled = []

    async def wait(name: str, arguments: Any, call_id: str | None, parent: SpanHandle | None) -> ToolResult:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(call_id)
        raise AssertionError

    run.port.call = wait  # type: ignore[method-assign]
    task = asyncio.create_task(run.run())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turns() == []
    assert cancelled
    assert len(foreign_endpoint.requests) == 1


async def test_an_option_is_refused_by_name() -> None:
    run = attempt("http://127.0.0.1:1/v1", options={"stream": True})
    with pytest.raises(InvalidInput, match=r"harness\.stream"):
        await SmolagentsRunner().open(run.binding, run.context)
    run.recorder.close()


async def test_a_part_that_is_not_text_is_refused() -> None:
    run = attempt("http://127.0.0.1:1/v1", tools=[WEATHER])
    conversation = await SmolagentsRunner().open(run.binding, run.context)
    with pytest.raises(InvalidInput, match="image"):
        await conversation.send((ImagePart(sha256="0" * 64, media_type="image/png"),))
    await conversation.close()
    run.recorder.close()

"""LangGraph against a foreign OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.harnesses.langgraph import CARD, LangGraphRunner
from atp.protocol.environment import ToolSpec, UserStop, UserText, UserTurn
from atp.protocol.errors import InvalidInput, ToolFailed
from atp.protocol.model import Limits, Sampling
from atp.protocol.spans import SpanKind
from atp.protocol.status import ErrorInfo, Status, StopReason, classify
from atp.protocol.trace import Usage
from tests.adapters.harnesses.langgraph_attempt import attempt
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion, replying

USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 40,
    "total_tokens": 160,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
ASKS = replying(completion("resp-1", tool_calls=[("call_1", "weather", '{"city": "Paris"}')], usage=USAGE))
ANSWERS = replying(completion("resp-2", text="Sunny.", usage=USAGE))


def forever(request: ForeignRequest, number: int) -> ForeignReply:
    return replying(
        completion(f"resp-{number}", tool_calls=[(f"call_{number}", "weather", '{"city": "Paris"}')])
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_call_and_an_answer(foreign_endpoint: ForeignEndpoint, stream: bool) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    run = attempt(foreign_endpoint.base_url, options={"stream": stream})
    trace = await run.run()
    assert trace.final_answer == "Sunny."
    assert trace.stop_reason is StopReason.ANSWERED
    assert run.port.calls == [("weather", {"city": "Paris"}, "call_1")]
    assert foreign_endpoint.requests[1].body["messages"][-1]["content"] == "sunny"


@pytest.mark.parametrize("stream", [False, True])
async def test_the_harness_sums_the_usage_that_the_endpoint_said(
    foreign_endpoint: ForeignEndpoint, stream: bool
) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    trace = await attempt(foreign_endpoint.base_url, options={"stream": stream}).run()
    # Twice the endpoint's: 120 in of which 30 cached, 40 out of which 5 reasoning; no cache writes said.
    assert trace.harness_usage == Usage(
        input_tokens=240, output_tokens=80, cache_read_tokens=60, reasoning_tokens=10
    )
    assert trace.harness_model_calls == 2


async def test_usage_that_the_endpoint_did_not_say_is_unknown(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ASKS, replying(completion("resp-2", text="Sunny."))]
    trace = await attempt(foreign_endpoint.base_url).run()
    assert trace.harness_usage is None


async def test_response_ids_are_those_that_langchain_keeps(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    assert (await attempt(foreign_endpoint.base_url).run()).response_ids == ("resp-1", "resp-2")


async def test_response_ids_that_langchain_drops_are_unknown(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    trace = await attempt(foreign_endpoint.base_url, options={"stream": True}).run()
    assert trace.response_ids is None  # langchain-openai 1.7.4 drops the id of a stream


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


async def test_the_schema_goes_over_the_wire_as_it_is(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    await attempt(
        foreign_endpoint.base_url, tools=[ToolSpec(name="rich", description="Rich.", parameters=RICH)]
    ).run()
    [tool] = foreign_endpoint.requests[0].body["tools"]
    assert tool == {
        "type": "function",
        "function": {"name": "rich", "description": "Rich.", "parameters": RICH},
    }


async def test_titles_and_references_differ_on_the_wire_as_the_card_says(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    schema = {
        "type": "object",
        "title": "Arguments",
        "properties": {"place": {"$ref": "#/$defs/Place"}},
        "$defs": {"Place": {"type": "string"}},
    }
    foreign_endpoint.replies = [ANSWERS]
    await attempt(foreign_endpoint.base_url, tools=[ToolSpec(name="rich", parameters=schema)]).run()
    [tool] = foreign_endpoint.requests[0].body["tools"]
    assert tool["function"]["parameters"] == {"type": "object", "properties": {"place": {"type": "string"}}}
    assert "`title`" in CARD.schema_on_wire
    assert "`$ref`" in CARD.schema_on_wire


async def test_arguments_named_as_langchains_own_reach_the_tool(foreign_endpoint: ForeignEndpoint) -> None:
    arguments = '{"config": 1, "run_manager": 2, "self": 3, "runtime": 4, "state": 5, "input": 6, "args": 7}'
    foreign_endpoint.replies = [
        replying(completion("resp-1", tool_calls=[("call_1", "odd", arguments)])),
        ANSWERS,
    ]
    odd = ToolSpec(
        name="odd",
        parameters={"type": "object", "properties": {"config": {}, "runtime": {"type": "integer"}}},
    )
    run = attempt(foreign_endpoint.base_url, tools=[odd], functions={"odd": lambda arguments: "ok"})
    await run.run()
    [(_, delivered, _)] = run.port.calls
    assert delivered == {
        "config": 1,
        "run_manager": 2,
        "self": 3,
        "runtime": 4,
        "state": 5,
        "input": 6,
        "args": 7,
    }


async def test_nothing_is_added_to_prompt_and_parameters(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    await attempt(foreign_endpoint.base_url, tools=[]).run("Hello")
    body = foreign_endpoint.requests[0].body
    assert body["messages"] == [{"role": "user", "content": "Hello"}]
    assert body.keys() == {"messages", "model", "stream"}
    assert body["model"] == "asked-model"


async def test_the_system_prompt_goes_where_create_agent_puts_it(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    await attempt(foreign_endpoint.base_url, system_prompt="Be brief.").run("Hello")
    assert foreign_endpoint.requests[0].body["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_the_users_sampling_reaches_the_model(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    sampling = Sampling(temperature=0.25, max_output_tokens=77)
    await attempt(foreign_endpoint.base_url, sampling=sampling).run()
    body = foreign_endpoint.requests[0].body
    assert (body["temperature"], body["max_completion_tokens"]) == (0.25, 77)


async def test_the_key_of_the_attempt_is_sent(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ANSWERS]
    await attempt(foreign_endpoint.base_url).run()
    assert foreign_endpoint.requests[0].headers["authorization"] == "Bearer key-a"


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_exactly_max_turns_model_calls_are_made(foreign_endpoint: ForeignEndpoint, turns: int) -> None:
    foreign_endpoint.respond = forever
    run = attempt(foreign_endpoint.base_url, limits=Limits(max_turns=turns))
    with pytest.raises(Exception, match="ecursion limit") as raised:
        await run.run()
    assert len(foreign_endpoint.requests) == turns
    verdict = classify(ErrorInfo.of(raised.value))
    assert (verdict.status, verdict.stop_reason) == (Status.LIMIT, StopReason.MAX_TURNS)


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_an_answer_with_the_last_allowed_model_call_is_an_answer(
    foreign_endpoint: ForeignEndpoint, turns: int
) -> None:
    foreign_endpoint.respond = lambda request, number: (
        ANSWERS if number == turns - 1 else forever(request, number)
    )
    trace = await attempt(foreign_endpoint.base_url, limits=Limits(max_turns=turns)).run()
    assert trace.final_answer == "Sunny."


async def test_a_failing_tool_gives_the_model_its_text(foreign_endpoint: ForeignEndpoint) -> None:
    def fails(arguments: Any) -> None:
        raise ValueError("no such city")

    foreign_endpoint.replies = [ASKS, ANSWERS]
    await attempt(foreign_endpoint.base_url, functions={"weather": fails}).run()
    assert foreign_endpoint.requests[1].body["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "no such city",
    }


async def test_with_tool_errors_raise_the_failure_passes_through(foreign_endpoint: ForeignEndpoint) -> None:
    def fails(arguments: Any) -> None:
        raise ValueError("no such city")

    foreign_endpoint.replies = [ASKS, ANSWERS]
    run = attempt(foreign_endpoint.base_url, functions={"weather": fails}, tool_errors="raise")
    with pytest.raises(ToolFailed, match="no such city"):
        await run.run()


async def test_a_conversation_goes_on_in_the_harnesss_own_memory(foreign_endpoint: ForeignEndpoint) -> None:
    lines: list[UserTurn] = [UserText(text="First."), UserText(text="Second."), UserStop(reason="done")]
    foreign_endpoint.respond = lambda request, number: replying(
        completion(f"resp-{number}", text=f"Reply {number}.")
    )
    run = attempt(foreign_endpoint.base_url, has_user=True)

    async def say(text: str = "") -> UserTurn:
        return lines.pop(0)

    run.port.user_open = run.port.user_reply = say  # type: ignore[method-assign]
    trace = await run.run()
    assert [message["content"] for message in foreign_endpoint.requests[1].body["messages"]] == [
        "First.",
        "Reply 0.",
        "Second.",
    ]
    assert trace.replies == ("Reply 0.", "Reply 1.")
    assert trace.stop_reason is StopReason.USER_STOP
    assert trace.harness_model_calls == 2


async def test_turns_are_counted_over_the_whole_conversation(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.respond = lambda request, number: replying(completion(f"resp-{number}", text="Again?"))
    run = attempt(foreign_endpoint.base_url, has_user=True, limits=Limits(max_turns=2))

    async def say(text: str = "") -> UserTurn:
        return UserText(text="More.")

    run.port.user_open = run.port.user_reply = say  # type: ignore[method-assign]
    trace = await run.run()
    assert len(foreign_endpoint.requests) == 2
    assert trace.stop_reason is StopReason.MAX_TURNS


async def test_a_run_without_a_monitor_records_no_model_call(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [ASKS, ANSWERS]
    run = attempt(foreign_endpoint.base_url, monitored=False)
    assert (await run.run()).final_answer == "Sunny."
    assert run.sink.of_kind(SpanKind.MODEL) == []


@pytest.mark.parametrize("options", [{"steam": True}, {"stream": "yes"}])
async def test_an_option_that_is_not_on_the_card_is_refused_by_name(options: dict[str, Any]) -> None:
    run = attempt("http://127.0.0.1:1/v1", options=options)
    with pytest.raises(InvalidInput, match="harness.st"):
        await LangGraphRunner().open(run.binding, run.context)
    run.recorder.close()

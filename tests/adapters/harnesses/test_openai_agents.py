"""The OpenAI Agents SDK against a foreign OpenAI-compatible endpoint, in both of its dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.harnesses.openai_agents import OpenAIAgentsRunner
from atp.protocol.environment import ToolSpec, UserStop, UserText, UserTurn
from atp.protocol.errors import InvalidInput
from atp.protocol.model import Dialect, Limits, Sampling
from atp.protocol.spans import SpanKind
from atp.protocol.status import ErrorInfo, Status, StopReason, classify
from atp.protocol.trace import Usage
from monitor.vocabulary import OUTPUT_MESSAGES
from tests.adapters.harnesses.openai_agents_attempt import ALL, BOTH, CHAT, RESPONSES, Api, attempt
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply, ForeignRequest, completion

USAGE = (120, 30, 40, 5)
PARIS = ("call_1", "weather", '{"city": "Paris"}')


def asks(api: Api) -> ForeignReply:
    return api.reply("resp_1", USAGE, tool_calls=[PARIS])


def answers(api: Api) -> ForeignReply:
    return api.reply("resp_2", USAGE, text="Sunny.")


@ALL
async def test_a_tool_call_and_an_answer(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    foreign_endpoint.replies = [asks(api), answers(api)]
    run = attempt(foreign_endpoint.base_url, api)
    trace = await run.run()
    assert trace.final_answer == "Sunny."
    assert trace.stop_reason is StopReason.ANSWERED
    assert run.port.calls == [("weather", {"city": "Paris"}, "call_1")]
    assert "sunny" in json.dumps(api.asked(foreign_endpoint.requests[1].body)[-1])


@ALL
async def test_the_harness_sums_the_usage_that_the_endpoint_said(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    foreign_endpoint.replies = [asks(api), answers(api)]
    trace = await attempt(foreign_endpoint.base_url, api).run()
    # Twice the endpoint's: 120 in of which 30 cached, 40 out of which 5 reasoning; no cache writes said.
    assert trace.harness_usage == Usage(
        input_tokens=240, output_tokens=80, cache_read_tokens=60, reasoning_tokens=10
    )
    assert trace.harness_model_calls == 2


@ALL
async def test_usage_that_the_endpoint_did_not_say_is_unknown(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    foreign_endpoint.replies = [asks(api), api.reply("resp_2", text="Sunny.")]
    trace = await attempt(foreign_endpoint.base_url, api).run()
    assert trace.harness_usage is None
    assert trace.harness_model_calls == 2


@ALL
async def test_response_ids_are_those_that_the_sdk_keeps(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    foreign_endpoint.replies = [asks(api), answers(api)]
    trace = await attempt(foreign_endpoint.base_url, api).run()
    assert trace.response_ids == ("resp_1", "resp_2")


RICH: dict[str, Any] = {
    "type": "object",
    "title": "Arguments",
    "properties": {
        "place": {"$ref": "#/$defs/Place"},
        "days": {"type": "array", "items": {"type": "object", "properties": {"day": {"type": "string"}}}},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["place"],
    "$defs": {
        "Place": {
            "type": "object",
            "properties": {"city": {"type": "string", "minLength": 1}, "zip": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        }
    },
}


@BOTH
async def test_the_schema_goes_over_the_wire_as_it_is(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    foreign_endpoint.replies = [answers(api)]
    rich = ToolSpec(name="rich", description="Rich.", parameters=RICH)
    await attempt(foreign_endpoint.base_url, api, tools=[rich]).run()
    [tool] = foreign_endpoint.requests[0].body["tools"]
    function = {"name": "rich", "description": "Rich.", "parameters": RICH, "strict": False}
    if api is CHAT:
        assert tool == {"type": "function", "function": function}
    else:
        assert tool == {"type": "function", **function}


async def test_nothing_is_added_to_a_chat_completion(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [answers(CHAT)]
    await attempt(foreign_endpoint.base_url, CHAT, tools=[]).run("Hello")
    assert foreign_endpoint.requests[0].body == {
        "messages": [{"role": "user", "content": "Hello"}],
        "model": "asked-model",
    }


async def test_nothing_is_added_to_a_response_but_empty_lists(foreign_endpoint: ForeignEndpoint) -> None:
    foreign_endpoint.replies = [answers(RESPONSES)]
    await attempt(foreign_endpoint.base_url, RESPONSES, tools=[]).run("Hello")
    assert foreign_endpoint.requests[0].body == {
        "input": [{"role": "user", "content": "Hello"}],
        "model": "asked-model",
        "include": [],
        "tools": [],
    }


@BOTH
async def test_the_system_prompt_goes_where_the_sdk_puts_instructions(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    foreign_endpoint.replies = [answers(api)]
    await attempt(foreign_endpoint.base_url, api, system_prompt="Be brief.").run("Hello")
    body = foreign_endpoint.requests[0].body
    if api is CHAT:
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    else:
        assert body["instructions"] == "Be brief."
    assert api.asked(body)[-1] == {"role": "user", "content": "Hello"}


@BOTH
async def test_the_users_sampling_reaches_the_model(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    foreign_endpoint.replies = [answers(api)]
    sampling = Sampling(temperature=0.25, max_output_tokens=77)
    await attempt(foreign_endpoint.base_url, api, sampling=sampling).run()
    body = foreign_endpoint.requests[0].body
    assert body["temperature"] == 0.25
    assert body["max_tokens" if api is CHAT else "max_output_tokens"] == 77


@BOTH
async def test_the_key_of_the_attempt_is_sent(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    foreign_endpoint.replies = [answers(api)]
    await attempt(foreign_endpoint.base_url, api).run()
    assert foreign_endpoint.requests[0].headers["authorization"] == "Bearer key-a"


@pytest.mark.parametrize("turns", [1, 3])
@ALL
async def test_exactly_max_turns_model_calls_are_made(
    foreign_endpoint: ForeignEndpoint, api: Api, turns: int
) -> None:
    foreign_endpoint.respond = lambda request, number: api.reply(
        f"resp_{number}", tool_calls=[(f"call_{number}", "weather", '{"city": "Paris"}')]
    )
    run = attempt(foreign_endpoint.base_url, api, limits=Limits(max_turns=turns))
    with pytest.raises(Exception, match="Max turns") as raised:
        await run.run()
    assert len(foreign_endpoint.requests) == turns
    assert len(run.port.calls) == turns
    verdict = classify(ErrorInfo.of(raised.value))
    assert (verdict.status, verdict.stop_reason) == (Status.LIMIT, StopReason.MAX_TURNS)


async def test_without_a_limit_the_sdks_default_of_ten_does_not_apply(
    foreign_endpoint: ForeignEndpoint,
) -> None:
    foreign_endpoint.respond = lambda request, number: (
        answers(CHAT)
        if number == 12
        else CHAT.reply(f"resp_{number}", tool_calls=[(f"call_{number}", "weather", "{}")])
    )
    trace = await attempt(foreign_endpoint.base_url).run()
    assert trace.harness_model_calls == 13


def fails(arguments: Any) -> None:
    raise ValueError("no such city")


@BOTH
async def test_a_failing_tool_gives_the_model_its_text(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    foreign_endpoint.replies = [asks(api), answers(api)]
    await attempt(foreign_endpoint.base_url, api, functions={"weather": fails}).run()
    last = api.asked(foreign_endpoint.requests[1].body)[-1]
    if api is CHAT:
        assert last == {"role": "tool", "tool_call_id": "call_1", "content": "no such city"}
    else:
        assert last == {"type": "function_call_output", "call_id": "call_1", "output": "no such city"}


@ALL
async def test_with_tool_errors_raise_the_sdk_ends_the_run_as_it_does(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    from agents import UserError

    foreign_endpoint.replies = [asks(api), answers(api)]
    run = attempt(foreign_endpoint.base_url, api, functions={"weather": fails}, tool_errors="raise")
    with pytest.raises(UserError, match="no such city") as raised:
        await run.run()
    verdict = classify(ErrorInfo.of(raised.value))
    assert (verdict.status, verdict.stop_reason) == (Status.AGENT_ERROR, StopReason.HARNESS_ERROR)


@ALL
async def test_a_tool_that_does_not_exist_is_the_agents_error(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    foreign_endpoint.replies = [api.reply("resp_1", tool_calls=[("call_1", "teleport", "{}")])]
    run = attempt(foreign_endpoint.base_url, api)
    with pytest.raises(Exception, match="teleport") as raised:
        await run.run()
    assert classify(ErrorInfo.of(raised.value)).status is Status.AGENT_ERROR
    assert run.port.calls == []


async def test_a_refusal_is_the_agents_and_kept_as_what_it_said(foreign_endpoint: ForeignEndpoint) -> None:
    refusing = completion("resp_1")
    refusing["choices"][0]["message"]["refusal"] = "I will not."
    foreign_endpoint.replies = [ForeignReply(body=refusing)]
    run = attempt(foreign_endpoint.base_url)
    with pytest.raises(Exception, match="I will not") as raised:
        await run.run()
    verdict = classify(ErrorInfo.of(raised.value))
    assert (verdict.status, verdict.stop_reason) == (Status.AGENT_ERROR, StopReason.CONTENT_FILTER)
    [model] = run.sink.of_kind(SpanKind.MODEL)
    assert run.sink.messages(model.bodies[OUTPUT_MESSAGES]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "I will not."}]}
    ]


@pytest.mark.parametrize(
    ("text", "delivered"),
    [('{"city": "Par', '{"city": "Par'), ("", {}), ("[1]", [1]), ('{"city": 2.0}', {"city": 2.0})],
)
@BOTH
async def test_arguments_are_delivered_as_the_model_wrote_them(
    foreign_endpoint: ForeignEndpoint, api: Api, text: str, delivered: Any
) -> None:
    foreign_endpoint.replies = [api.reply("resp_1", tool_calls=[("call_1", "weather", text)]), answers(api)]
    run = attempt(foreign_endpoint.base_url, api)
    seen: list[Any] = []

    async def call(name: str, arguments: Any, call_id: str | None, parent: Any) -> Any:
        from atp.protocol.binding import ToolResult

        seen.append(arguments)
        return ToolResult(error="invalid arguments")

    run.port.call = call  # type: ignore[method-assign]
    assert (await run.run()).final_answer == "Sunny."
    assert seen == [delivered]
    assert type(seen[0]) is type(delivered)


def talking(*lines: UserTurn) -> Any:
    left = list(lines)

    async def say(text: str = "") -> UserTurn:
        return left.pop(0)

    return say


@ALL
async def test_a_dialogue_goes_on_in_the_sdks_session(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    foreign_endpoint.replies = [asks(api), answers(api), api.reply("resp_3", text="Still sunny.")]
    run = attempt(foreign_endpoint.base_url, api, has_user=True)
    run.port.user_open = run.port.user_reply = talking(  # type: ignore[method-assign]
        UserText(text="First."), UserText(text="Second."), UserStop(reason="done")
    )
    trace = await run.run()
    first, last = (api.asked(foreign_endpoint.requests[number].body) for number in (1, 2))
    # What the second run sends begins with what the first sent, object by object.
    assert last[: len(first)] == first
    assert "Sunny." in json.dumps(last[len(first)])
    assert last[-1] == {"role": "user", "content": "Second."}
    assert len(last) == len(first) + 2
    assert trace.replies == ("Sunny.", "Still sunny.")
    assert trace.stop_reason is StopReason.USER_STOP
    assert trace.harness_model_calls == 3


@BOTH
async def test_turns_are_counted_over_the_whole_dialogue(foreign_endpoint: ForeignEndpoint, api: Api) -> None:
    foreign_endpoint.respond = lambda request, number: api.reply(f"resp_{number}", text="Again?")
    run = attempt(foreign_endpoint.base_url, api, has_user=True, limits=Limits(max_turns=2))
    run.port.user_open = run.port.user_reply = talking(*[UserText(text="More.")] * 5)  # type: ignore[method-assign]
    trace = await run.run()
    assert len(foreign_endpoint.requests) == 2
    assert trace.stop_reason is StopReason.MAX_TURNS


@ALL
async def test_an_error_of_the_endpoint_passes_through_after_the_clients_tries(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    foreign_endpoint.respond = lambda request, number: ForeignReply(
        status=500, body={"error": {"message": "broken"}}, headers={"retry-after-ms": "1"}
    )
    with pytest.raises(Exception, match="broken") as raised:
        await attempt(foreign_endpoint.base_url, api).run()
    assert len(foreign_endpoint.requests) == 3  # the client's first try and its two retries
    info = ErrorInfo.of(raised.value)
    assert info.http_status == 500
    assert classify(info).stop_reason is StopReason.PROVIDER_ERROR


@pytest.mark.parametrize("characters", [0, 200_000])
@BOTH
async def test_results_of_any_size_reach_the_model_whole(
    foreign_endpoint: ForeignEndpoint, api: Api, characters: int
) -> None:
    result = "é" * characters
    foreign_endpoint.replies = [asks(api), answers(api)]
    await attempt(foreign_endpoint.base_url, api, functions={"weather": lambda arguments: result}).run()
    last = api.asked(foreign_endpoint.requests[1].body)[-1]
    assert last["content" if api is CHAT else "output"] == result


@ALL
async def test_a_run_without_a_monitor_records_no_model_call(
    foreign_endpoint: ForeignEndpoint, api: Api
) -> None:
    foreign_endpoint.replies = [asks(api), answers(api)]
    run = attempt(foreign_endpoint.base_url, api, monitored=False)
    assert (await run.run()).final_answer == "Sunny."
    assert run.sink.of_kind(SpanKind.MODEL) == []


@pytest.mark.parametrize("options", [{"steam": True}, {"stream": "yes"}])
async def test_an_option_that_is_not_on_the_card_is_refused_by_name(options: dict[str, Any]) -> None:
    run = attempt("http://127.0.0.1:1/v1", options=options)
    with pytest.raises(InvalidInput, match="harness.st"):
        await OpenAIAgentsRunner().open(run.binding, run.context)
    run.recorder.close()


async def test_the_dialect_is_that_of_the_endpoint(foreign_endpoint: ForeignEndpoint) -> None:
    def answer(request: ForeignRequest, number: int) -> ForeignReply:
        return answers(CHAT if request.path == "/v1/chat/completions" else RESPONSES)

    foreign_endpoint.respond = answer
    for api in (CHAT, RESPONSES):
        await attempt(foreign_endpoint.base_url, api, options={"dialect": "what the engine chose"}).run()
    assert [request.path for request in foreign_endpoint.requests] == [
        "/v1/chat/completions",
        "/v1/responses",
    ]
    assert CHAT.dialect is Dialect.OPENAI_CHAT

"""The OpenAI responses dialect, held against the types of the `openai` package."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from atp.models.scripted.dialects.dialect import Reply
from atp.models.scripted.dialects.openai_responses import OpenAIResponses
from atp.models.scripted.steps import FinishReason, Message, Refusal, RequestView, Step, StepCall
from atp.protocol.trace import Usage

RESPONSES = OpenAIResponses()
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
COUNTS = st.integers(0, 1 << 40)

calls = st.builds(StepCall, st.text(min_size=1), st.text(min_size=1), st.text())
steps = st.builds(
    Step,
    text=st.none() | st.text(max_size=200),
    reasoning=st.none() | st.text(max_size=200),
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    finish_reason=st.sampled_from([None, FinishReason.LENGTH, FinishReason.CONTENT_FILTER]),
)
usages = st.builds(
    Usage,
    input_tokens=COUNTS,
    output_tokens=COUNTS,
    cache_read_tokens=COUNTS,
    cache_write_tokens=COUNTS,
    reasoning_tokens=COUNTS,
)


def reply_of(step: Step, usage: Usage) -> Reply:
    return Reply(id="resp_1", model="m", created=1, step=step, usage=usage)


replies = st.builds(reply_of, steps, usages)


def view(*, stream: bool = False) -> RequestView:
    return RequestView("m", (), stream=stream, stream_usage=True)


def parse(**body: Any) -> RequestView:
    return RESPONSES.parse(orjson.dumps({"model": "m", "input": "hello", **body}), "v1/responses")


def said(output: list[dict[str, Any]]) -> tuple[Any, ...]:
    """What the items of a response say: text, reasoning, calls."""
    of_type: dict[str, list[dict[str, Any]]] = {"message": [], "reasoning": [], "function_call": []}
    for item in output:
        of_type[item["type"]].append(item)
    texts = [item["content"][0]["text"] for item in of_type["message"]]
    reasonings = [item["summary"][0]["text"] for item in of_type["reasoning"]]
    announced = [(call["call_id"], call["name"], call["arguments"]) for call in of_type["function_call"]]
    return next(iter(texts), None), next(iter(reasonings), None), announced


def meant(step: Step) -> tuple[Any, ...]:
    return step.text, step.reasoning, [(call.id, call.name, call.arguments) for call in step.tool_calls]


def put_together(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items as a client adds them up from the deltas, by the rules of the API reference."""
    items: dict[int, dict[str, Any]] = {}
    for event in events:
        index = event.get("output_index", -1)
        match event["type"]:
            case "response.output_item.added":
                items[index] = {**event["item"]}
            case "response.content_part.added":
                items[index]["content"] = [{**event["part"]}]
            case "response.reasoning_summary_part.added":
                items[index]["summary"] = [{**event["part"]}]
            case "response.output_text.delta":
                items[index]["content"][event["content_index"]]["text"] += event["delta"]
            case "response.reasoning_summary_text.delta":
                items[index]["summary"][event["summary_index"]]["text"] += event["delta"]
            case "response.function_call_arguments.delta":
                items[index]["arguments"] += event["delta"]
    return [items[index] for index in sorted(items)]


def events_in(chunks: tuple[bytes, ...]) -> list[dict[str, Any]]:
    read = []
    for chunk in chunks:
        name, data = chunk.decode().removesuffix("\n\n").split("\n", 1)
        event = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        read.append(event)
    return read


@given(replies)
def test_a_whole_response_says_what_the_step_says(reply: Reply) -> None:
    rendered = RESPONSES.render(reply, view())
    assert len(rendered.chunks) == 1
    raw = orjson.loads(rendered.chunks[0])
    Response.model_validate(raw, strict=True)
    assert said(raw["output"]) == meant(reply.step)
    ended = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}
    reason = ended.get(reply.step.finish)
    assert raw["status"] == ("incomplete" if reason else "completed")
    assert raw["incomplete_details"] == ({"reason": reason} if reason else None)


@given(replies)
def test_a_streamed_response_adds_up_to_the_whole_one(reply: Reply) -> None:
    whole = orjson.loads(RESPONSES.render(reply, view()).chunks[0])
    events = events_in(RESPONSES.render(reply, view(stream=True)).chunks)
    for event in events:
        EVENT.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == f"response.{whole['status']}"
    assert events[-1]["response"] == whole
    assert said(put_together(events)) == meant(reply.step)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == whole["output"]


def test_usage_goes_out_under_the_names_of_the_dialect() -> None:
    usage = Usage(
        input_tokens=50, output_tokens=20, cache_read_tokens=32, cache_write_tokens=4, reasoning_tokens=12
    )
    raw = orjson.loads(RESPONSES.render(reply_of(Step(text="hi"), usage), view()).chunks[0])
    assert raw["usage"] == {
        "input_tokens": 50,
        "input_tokens_details": {"cached_tokens": 32, "cache_write_tokens": 4},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 12},
        "total_tokens": 70,
    }


def test_a_count_that_is_not_known_is_left_out() -> None:
    usage = Usage(input_tokens=50, output_tokens=20)
    raw = orjson.loads(RESPONSES.render(reply_of(Step(text="hi"), usage), view()).chunks[0])
    assert raw["usage"] == {"input_tokens": 50, "output_tokens": 20, "total_tokens": 70}


@pytest.mark.parametrize(
    "step",
    [
        Step(tool_calls=(StepCall("c", "f", "{}"),), finish_reason=FinishReason.STOP),
        Step(text="hi", finish_reason=FinishReason.TOOL_CALLS),
    ],
)
def test_a_finish_reason_that_the_dialect_cannot_say_is_refused(step: Step) -> None:
    with pytest.raises(Refusal, match="no finish reason") as caught:
        RESPONSES.render(reply_of(step, Usage(input_tokens=1, output_tokens=1)), view())
    assert caught.value.code == "not_expressible"


def test_a_request_is_read_into_plain_messages_and_tools() -> None:
    read = parse(
        instructions="be brief",
        input=[
            {"role": "developer", "content": "and kind"},
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "looking"}],
            },
            {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call", "id": "fc_2", "call_id": "d", "name": "g", "arguments": "[]"},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
            {
                "type": "function_call_output",
                "call_id": "d",
                "output": [{"type": "input_text", "text": "also"}],
            },
            {"role": "assistant", "content": "it is done"},
        ],
        tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}],
        stream=True,
    )
    assert read.messages == (
        Message("system", "be brief"),
        Message("system", "and kind"),
        Message("user", "a"),
        Message("assistant", "looking", (StepCall("c", "f", "{}"), StepCall("d", "g", "[]"))),
        Message("tool", "done", tool_call_id="c"),
        Message("tool", "also", tool_call_id="d"),
        Message("assistant", "it is done"),
    )
    assert [tool.name for tool in read.tools] == ["f"]
    assert read.stream


def test_a_string_as_input_is_what_the_user_says() -> None:
    assert parse(input="hello").messages == (Message("user", "hello"),)


@given(steps)
def test_the_items_of_a_reply_are_one_reply_when_they_come_back(step: Step) -> None:
    raw = orjson.loads(
        RESPONSES.render(reply_of(step, Usage(input_tokens=1, output_tokens=1)), view()).chunks[0]
    )
    read = parse(input=[{"role": "user", "content": "hello"}, *raw["output"]])
    replied = (Message("assistant", step.text or "", step.tool_calls),) if raw["output"] else ()
    assert read.messages == (Message("user", "hello"), *replied)


def test_tools_that_may_not_be_called_are_not_offered() -> None:
    assert parse(tools=[{"type": "function", "name": "f"}], tool_choice="none").tools == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": ""}, "model"),
        ({"input": []}, "input"),
        ({"input": [5]}, r"input\[0\]"),
        ({"input": [{"role": "robot"}]}, r"input\[0\].role"),
        ({"input": [{"role": "user", "content": 5}]}, r"input\[0\].content"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, r"input\[0\].name"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, r"input\[0\].call_id"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
        ({"instructions": ["x"]}, "instructions"),
        ({"previous_response_id": "resp_0"}, "previous_response_id: a scripted model keeps nothing"),
        ({"conversation": "conv_0"}, "conversation"),
        ({"background": True}, "background"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "web_search"}]}, r"tools\[0\]"),
        ({"tools": [{"type": "function"}]}, r"tools\[0\].name"),
    ],
)
def test_a_malformed_request_is_refused_by_the_name_of_its_part(change: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal, match=says) as caught:
        parse(**change)
    assert (caught.value.status, caught.value.code) == (400, "invalid_request")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["model", "input", "tools", "tool_choice", "stream", "instructions"]),
        json_values
        | st.just("m")
        | st.lists(
            st.dictionaries(
                st.sampled_from(["type", "role", "content", "output", "call_id", "name", "arguments"]),
                json_values | st.sampled_from(["user", "message", "function_call", "function_call_output"]),
            )
        ),
    )
)
def test_any_json_object_is_a_request_or_refused(body: dict[str, Any]) -> None:
    try:
        RESPONSES.parse(orjson.dumps(body), "v1/responses")
    except Refusal as refusal:
        assert refusal.status == 400


@given(st.binary())
def test_any_bytes_are_a_request_or_refused(body: bytes) -> None:
    with pytest.raises(Refusal):
        RESPONSES.parse(body, "v1/responses")

"""The Anthropic dialect, held against the API reference; `test_anthropic_endpoint.py` meets it over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models.scripted.dialects.anthropic_messages import AnthropicMessages
from atp.models.scripted.dialects.anthropic_replies import signature
from atp.models.scripted.dialects.dialect import Reply
from atp.models.scripted.dialects.routes import dialect_at
from atp.models.scripted.steps import (
    FinishReason,
    Message,
    Refusal,
    RequestView,
    Step,
    StepCall,
    wire_arguments,
)
from atp.protocol.model import Dialect
from atp.protocol.trace import Usage

ANTHROPIC = AnthropicMessages()
COUNTS = st.integers(0, 1 << 40)
ASKED: dict[str, Any] = {"role": "user", "content": "hello"}

values = st.none() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False, allow_infinity=False)
calls = st.builds(
    StepCall,
    st.text(max_size=5),
    st.text(min_size=1, max_size=5),
    st.dictionaries(st.text(max_size=5), values, max_size=3).map(wire_arguments),
)
steps = st.builds(
    Step,
    text=st.none() | st.text(max_size=200),
    reasoning=st.none() | st.text(max_size=200),
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    finish_reason=st.none() | st.sampled_from(FinishReason),
)
usages = st.builds(
    lambda fresh, read, written, said, thought: Usage(
        input_tokens=fresh + read + written,
        output_tokens=said + thought,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=thought,
    ),
    *[COUNTS] * 5,
)
replies = st.builds(lambda step, usage: Reply("r1", "m", 1, step, usage), steps, usages)


def view(*, stream: bool = False) -> RequestView:
    return RequestView("m", (), stream=stream)


def parse(**body: Any) -> RequestView:
    request = {"model": "m", "max_tokens": 5, "messages": [ASKED], **body}
    return ANTHROPIC.parse(json.dumps(request).encode(), "v1/messages")


def conversation(*turns: tuple[str, Any]) -> tuple[Message, ...]:
    return parse(messages=[{"role": role, "content": content} for role, content in turns]).messages


def whole(reply: Reply) -> dict[str, Any]:
    [chunk] = ANTHROPIC.render(reply, view()).chunks
    message: dict[str, Any] = json.loads(chunk)
    return message


def streamed(reply: Reply) -> list[dict[str, Any]]:
    read = []
    for chunk in ANTHROPIC.render(reply, view(stream=True)).chunks:
        name, data, *rest = chunk.decode().split("\n")
        assert rest == ["", ""]
        read.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {read[-1]['type']}"
    return read


def added_up(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a stream's events make, by the rules of the API reference."""
    message: dict[str, Any] = {}
    texts: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                if delta["type"] == "input_json_delta":
                    texts[event["index"]] = texts.get(event["index"], "") + delta["partial_json"]
                else:
                    name = delta["type"].removesuffix("_delta")
                    block[name] += delta[name]
            case "content_block_stop" if event["index"] in texts:
                message["content"][event["index"]]["input"] = json.loads(texts[event["index"]])
            case "message_delta":
                message |= event["delta"]
                message.setdefault("usage", {}).update(event.get("usage", {}))
    return message


@given(replies)
def test_a_streamed_answer_adds_up_to_the_whole_one(reply: Reply) -> None:
    assert added_up(streamed(reply)) == whole(reply)


@given(replies)
def test_a_reply_that_is_sent_back_is_read_as_it_was_said(reply: Reply) -> None:
    step = reply.step
    _, came, _ = conversation(("user", "a"), ("assistant", whole(reply)["content"]), ("user", "b"))
    assert came == Message("assistant", step.text or "", step.tool_calls)


@given(replies)
def test_the_input_is_the_sum_of_its_three_parts(reply: Reply) -> None:
    told = whole(reply)["usage"]
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    assert sum(told[part] for part in parts) == reply.usage.input_tokens
    assert told["output_tokens"] == reply.usage.output_tokens
    assert told["output_tokens_details"]["thinking_tokens"] == reply.usage.reasoning_tokens


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_reply_without_usage_states_none(stream: bool) -> None:
    reply = Reply("r", "m", 1, Step(text="x"), Usage())
    read = streamed(reply) if stream else [whole(reply)]
    assert not any("usage" in event or "usage" in event.get("message", {}) for event in read)


def test_numbers_of_arguments_stay_as_they_were_written() -> None:
    step = Step(tool_calls=(StepCall("c", "t", '{"a":2.0,"b":100000000000000000000000}'),))
    reply = Reply("r", "m", 1, step, Usage())
    [chunk] = ANTHROPIC.render(reply, view()).chunks
    assert b'"input":{"a":2.0,"b":100000000000000000000000}' in chunk
    _, came, _ = conversation(("user", "a"), ("assistant", whole(reply)["content"]), ("user", "b"))
    assert came.tool_calls == step.tool_calls


@pytest.mark.parametrize("text", ['{"cut', "[1]", ""])
def test_arguments_that_are_no_object_go_out_in_a_stream_alone(text: str) -> None:
    reply = Reply("r", "m", 1, Step(tool_calls=(StepCall("c", "t", text),)), Usage())
    with pytest.raises(Refusal) as refused:
        whole(reply)
    assert refused.value.code == "not_expressible"
    pieces = [
        event["delta"]["partial_json"] for event in streamed(reply) if "index" in event and "delta" in event
    ]
    assert "".join(pieces) == text


@pytest.mark.parametrize(
    "system",
    [
        "Be brief.",
        [
            {"type": "text", "text": "Be "},
            {"type": "text", "text": "brief.", "cache_control": {"type": "ephemeral"}},
        ],
    ],
)
def test_the_system_prompt_is_a_text_or_blocks_of_it(system: Any) -> None:
    assert parse(system=system).messages == (Message("system", "Be brief."), Message("user", "hello"))


def test_results_are_messages_of_their_own_before_what_the_user_says() -> None:
    asked = {"type": "tool_use", "id": "c", "name": "t", "input": {"a": 1}}
    results = [
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "one"}]},
        {"type": "tool_result", "tool_use_id": "d", "is_error": True, "content": "two"},
        {"type": "tool_result", "tool_use_id": "e"},
        {"type": "text", "text": "And?"},
    ]
    assert conversation(("user", "a"), ("assistant", [asked]), ("user", results)) == (
        Message("user", "a"),
        Message("assistant", "", (StepCall("c", "t", '{"a":1}'),)),
        Message("tool", "one", tool_call_id="c"),
        Message("tool", "two", tool_call_id="d"),
        Message("tool", "", tool_call_id="e"),
        Message("user", "And?"),
    )


def test_what_the_model_said_side_by_side_is_one_reply() -> None:
    came = conversation(("user", "a"), ("assistant", "one"), ("assistant", " two"), ("user", "b"))
    assert came[1] == Message("assistant", "one two")


def test_what_has_no_text_says_nothing() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    hidden = {"type": "redacted_thinking", "data": "x"}
    came = conversation(
        ("user", [image, {"type": "text", "text": "a"}]), ("assistant", [hidden]), ("user", [image])
    )
    assert came == (Message("user", "a"), Message("assistant"), Message("user"))


def test_thinking_comes_back_as_it_was_sent_or_is_refused() -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": signature("hm")}
    assert conversation(("user", "a"), ("assistant", [block]), ("user", "b"))[1] == Message("assistant")
    for changed in ({"thinking": "hm!"}, {"signature": ""}, {"signature": None}):
        with pytest.raises(Refusal, match="signature"):
            conversation(("user", "a"), ("assistant", [{**block, **changed}]), ("user", "b"))


def test_tools_are_read_with_their_schemas_unless_none_may_be_called() -> None:
    tool = {"name": "t", "input_schema": {"type": "object"}, "type": "custom", "cache_control": {}}
    [read] = parse(tools=[tool], tool_choice={"type": "auto"}).tools
    assert (read.name, read.description, read.parameters) == ("t", "", {"type": "object"})
    assert parse(tools=[tool], tool_choice={"type": "none"}).tools == ()


def test_the_path_is_that_of_the_reference() -> None:
    assert dialect_at("v1/messages") is Dialect.ANTHROPIC_MESSAGES
    assert dialect_at("v1/messages/count_tokens") is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"model": ""}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [ASKED, {"role": "assistant", "content": "The answer is"}]}, "the last is the model's"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "messages[0].content[0].tool_use_id",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": "{}"}]}, ASKED]},
            "messages[0].content[0].input",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}, ASKED]},
            "'server_tool_use' are not served",
        ),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        ({"tools": [{"name": "t"}]}, "tools[0].input_schema"),
        ({"tool_choice": "none"}, "tool_choice"),
    ],
)
def test_a_malformed_request_is_refused_by_name(body: dict[str, Any], told: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse(**body)
    assert refused.value.status == 400
    assert told in refused.value.message


@pytest.mark.parametrize("text", [b'"\\ud800"', b"NaN"])
def test_what_only_python_takes_for_json_is_refused(text: bytes) -> None:
    body = b'{"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": %b}]}' % text
    with pytest.raises(Refusal, match="not JSON"):
        ANTHROPIC.parse(body, "v1/messages")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "id",
                    "name",
                    "input",
                    "tool_use_id",
                    "is_error",
                    "thinking",
                ]
            ),
            inner
            | st.sampled_from(["user", "assistant", "system", "text", "tool_use", "tool_result", "thinking"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["messages", "system", "tools", "tool_choice", "max_tokens"]), anything)
)
def test_any_request_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        parse(**body)
    except Refusal as refused:
        assert refused.status == 400


@given(st.binary(max_size=80) | anything.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    with pytest.raises(Refusal):
        ANTHROPIC.parse(body, "v1/messages")


def test_an_error_has_anthropics_form_with_the_code_in_its_details() -> None:
    assert json.loads(ANTHROPIC.error(529, "slow_down", "Overloaded").chunks[0]) == {
        "type": "error",
        "error": {
            "type": "overloaded_error",
            "message": "Overloaded",
            "details": {"error_code": "slow_down"},
        },
    }

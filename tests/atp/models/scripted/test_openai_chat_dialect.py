"""The OpenAI chat completions dialect, held against the types of the `openai` package."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from atp.models.scripted.dialects.dialect import Reply
from atp.models.scripted.dialects.openai_chat import OpenAIChat
from atp.models.scripted.steps import FinishReason, Refusal, RequestView, Step, StepCall
from atp.protocol.trace import Usage

CHAT = OpenAIChat()
COUNTS = st.integers(0, 1 << 40)

calls = st.builds(StepCall, st.text(min_size=1), st.text(min_size=1), st.text())
steps = st.builds(
    Step,
    text=st.none() | st.text(max_size=200),
    reasoning=st.none() | st.text(max_size=200),
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    finish_reason=st.none() | st.sampled_from(FinishReason),
)
usages = st.builds(
    Usage,
    input_tokens=COUNTS,
    output_tokens=COUNTS,
    cache_read_tokens=st.none() | COUNTS,
    cache_write_tokens=st.none() | COUNTS,
    reasoning_tokens=st.none() | COUNTS,
)
replies = st.builds(
    Reply,
    id=st.just("chatcmpl-1"),
    model=st.just("m"),
    created=st.just(1),
    step=steps,
    usage=usages,
)


def view(*, stream: bool = False, stream_usage: bool = False) -> RequestView:
    return RequestView("m", (), stream=stream, stream_usage=stream_usage)


def said(raw: dict[str, Any]) -> tuple[Any, ...]:
    """What a message, whole or put together, says: text, reasoning, calls."""
    announced = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in raw.get("tool_calls", ())
    ]
    return raw.get("content"), raw.get("reasoning_content"), announced


def meant(step: Step) -> tuple[Any, ...]:
    return step.text, step.reasoning, [(call.id, call.name, call.arguments) for call in step.tool_calls]


def counted(raw: dict[str, Any] | None) -> Usage:
    assert raw is not None
    prompt = raw.get("prompt_tokens_details", {})
    assert raw["total_tokens"] == raw["prompt_tokens"] + raw["completion_tokens"]
    return Usage(
        input_tokens=raw["prompt_tokens"],
        output_tokens=raw["completion_tokens"],
        cache_read_tokens=prompt.get("cached_tokens"),
        cache_write_tokens=prompt.get("cache_write_tokens"),
        reasoning_tokens=raw.get("completion_tokens_details", {}).get("reasoning_tokens"),
    )


def put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Chunks as a client adds them up, by the rules of the API reference."""
    message: dict[str, Any] = {}
    for delta in (choice["delta"] for event in events for choice in event["choices"]):
        for key in ("content", "reasoning_content"):
            if delta.get(key) is not None:
                message[key] = message.get(key, "") + delta[key]
        for part in delta.get("tool_calls", ()):
            announced = message.setdefault("tool_calls", [])
            if part["index"] == len(announced):
                announced.append({"id": part["id"], "function": {"name": part["function"]["name"]}})
            function = announced[part["index"]]["function"]
            function["arguments"] = function.get("arguments", "") + part["function"]["arguments"]
    return message


def events_in(chunks: tuple[bytes, ...]) -> list[dict[str, Any]]:
    lines = b"".join(chunks).decode().removesuffix("\n\n").split("\n\n")
    assert lines[-1] == "data: [DONE]"
    return [orjson.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@given(replies)
def test_a_whole_reply_says_what_the_step_says(reply: Reply) -> None:
    rendered = CHAT.render(reply, view())
    assert len(rendered.chunks) == 1
    raw = orjson.loads(rendered.chunks[0])
    ChatCompletion.model_validate(raw, strict=True)
    assert said(raw["choices"][0]["message"]) == meant(reply.step)
    assert raw["choices"][0]["finish_reason"] == reply.step.finish
    assert counted(raw["usage"]) == reply.usage


@given(replies, st.booleans())
def test_a_streamed_reply_adds_up_to_the_step(reply: Reply, stream_usage: bool) -> None:
    events = events_in(CHAT.render(reply, view(stream=True, stream_usage=stream_usage)).chunks)
    for event in events:
        ChatCompletionChunk.model_validate(event, strict=True)
    text, reasoning, announced = said(put_together(events))
    # An empty reasoning text has no piece to stream.
    expected = (reply.step.text, reply.step.reasoning or None, meant(reply.step)[2])
    assert (text, reasoning, announced) == expected
    finishes = [choice["finish_reason"] for event in events for choice in event["choices"]]
    assert finishes == [None] * (len(finishes) - 1) + [reply.step.finish]
    if stream_usage:
        assert counted(events[-1]["usage"]) == reply.usage
        assert events[-1]["choices"] == []
        assert all(event["usage"] is None for event in events[:-1])
    else:
        assert all("usage" not in event for event in events)


def test_a_request_is_read_into_plain_messages_and_tools() -> None:
    body = {
        "model": "m",
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    read = CHAT.parse(orjson.dumps(body), "v1/chat/completions")
    assert [(message.role, message.text) for message in read.messages] == [
        ("system", "be brief"),
        ("user", "ab"),
        ("assistant", ""),
        ("tool", "done"),
    ]
    assert read.messages[2].tool_calls == (StepCall("c", "f", "{}"),)
    assert read.messages[3].tool_call_id == "c"
    assert [tool.name for tool in read.tools] == ["f"]
    assert (read.stream, read.stream_usage) == (True, True)


def test_tools_that_may_not_be_called_are_not_offered() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "a"}],
        "tools": tools,
        "tool_choice": "none",
    }
    assert CHAT.parse(orjson.dumps(body), "v1/chat/completions").tools == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": ""}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot"}]}, r"messages\[0\].role"),
        ({"messages": [{"role": ["user"]}]}, r"messages\[0\].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, r"messages\[0\].tool_call_id"),
        ({"messages": [{"role": "user", "content": 5}]}, r"messages\[0\].content"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, r"messages\[0\].tool_calls\[0\]"),
        ({"n": 2}, "n: "),
        ({"functions": []}, "use tools"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "function"}]}, r"tools\[0\]"),
        ({"stream_options": "yes"}, "stream_options"),
    ],
)
def test_a_malformed_request_is_refused_by_the_name_of_its_part(change: dict[str, Any], says: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], **change}
    with pytest.raises(Refusal, match=says) as caught:
        CHAT.parse(orjson.dumps(body), "v1/chat/completions")
    assert (caught.value.status, caught.value.code) == (400, "invalid_request")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["model", "messages", "tools", "tool_choice", "stream", "stream_options", "n"]),
        json_values
        | st.just("m")
        | st.lists(
            st.dictionaries(
                st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "function"]),
                json_values | st.sampled_from(["user", "assistant", "tool"]),
            )
        ),
    )
)
def test_any_json_object_is_a_request_or_refused(body: dict[str, Any]) -> None:
    try:
        CHAT.parse(orjson.dumps(body), "v1/chat/completions")
    except Refusal as refusal:
        assert refusal.status == 400


@given(st.binary())
def test_any_bytes_are_a_request_or_refused(body: bytes) -> None:
    with pytest.raises(Refusal):
        CHAT.parse(body, "v1/chat/completions")

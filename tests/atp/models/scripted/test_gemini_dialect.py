"""The Gemini dialect, held against the API reference and against what Google's own SDK sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models.scripted.dialects.dialect import Reply
from atp.models.scripted.dialects.gemini import Gemini
from atp.models.scripted.dialects.routes import dialect_at
from atp.models.scripted.steps import FinishReason, Message, Refusal, RequestView, Step, StepCall
from atp.protocol.model import Dialect
from atp.protocol.trace import Usage

GEMINI = Gemini()
WHOLE, STREAM = "v1beta/models/m:generateContent", "v1beta/models/m:streamGenerateContent"
RECORDED = Path(__file__).parent / "gemini_requests.json"
"""Bodies that google-adk 2.13.0 sent by way of google-genai 2.34.0, over two lines of a dialogue: the first
reply had a thought, a text, a call without an id and one with."""
COUNTS = st.integers(0, 1 << 40)

arguments = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    max_size=3,
)
calls = st.builds(StepCall, st.text(), st.text(min_size=1), arguments.map(json.dumps))
steps = st.builds(
    Step,
    text=st.none() | st.text(max_size=200),
    reasoning=st.none() | st.text(max_size=200),
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    finish_reason=st.sampled_from([None, FinishReason.LENGTH, FinishReason.CONTENT_FILTER]),
)
usages = st.builds(
    lambda said, thought, **more: Usage(output_tokens=said + thought, reasoning_tokens=thought, **more),
    COUNTS,
    COUNTS,
    input_tokens=COUNTS,
    cache_read_tokens=COUNTS,
)
replies = st.builds(lambda step, usage: Reply("r1", "m", 1, step, usage), steps, usages)


def view(*, stream: bool = False) -> RequestView:
    return RequestView("m", (), stream=stream)


def parse(path: str = WHOLE, **body: Any) -> RequestView:
    return GEMINI.parse(orjson.dumps({"contents": [{"parts": [{"text": "hello"}]}], **body}), path)


def recorded(number: int) -> RequestView:
    return GEMINI.parse(orjson.dumps(json.loads(RECORDED.read_text(encoding="utf-8"))[number]), WHOLE)


def said(pieces: list[dict[str, Any]]) -> tuple[Any, ...]:
    """What answers say together: text, reasoning, calls."""
    parts = [part for piece in pieces for part in piece["candidates"][0]["content"].get("parts", ())]
    texts = [part["text"] for part in parts if "text" in part and not part.get("thought")]
    thoughts = [part["text"] for part in parts if part.get("thought")]
    called = [part["functionCall"] for part in parts if "functionCall" in part]
    return (
        "".join(texts),
        "".join(thoughts),
        [(call.get("id", ""), call["name"], call["args"]) for call in called],
    )


def meant(step: Step) -> tuple[Any, ...]:
    called = [(call.id, call.name, json.loads(call.arguments)) for call in step.tool_calls]
    return step.text or "", step.reasoning or "", called


def events(chunks: tuple[bytes, ...]) -> list[dict[str, Any]]:
    read = []
    for chunk in chunks:
        assert chunk.startswith(b"data: ") and chunk.endswith(b"\r\n\r\n")
        read.append(json.loads(chunk[6:]))
    return read


@given(replies)
def test_a_whole_answer_says_what_the_step_says(reply: Reply) -> None:
    [chunk] = GEMINI.render(reply, view()).chunks
    raw = json.loads(chunk)
    assert said([raw]) == meant(reply.step)
    assert (raw["responseId"], raw["modelVersion"]) == ("r1", "m")
    ends = {FinishReason.LENGTH: "MAX_TOKENS", FinishReason.CONTENT_FILTER: "SAFETY"}
    assert raw["candidates"][0]["finishReason"] == ends.get(reply.step.finish, "STOP")


@given(replies)
def test_a_streamed_answer_adds_up_to_the_whole_one_and_ends_once(reply: Reply) -> None:
    streamed = events(GEMINI.render(reply, view(stream=True)).chunks)
    whole = json.loads(GEMINI.render(reply, view()).chunks[0])
    assert said(streamed) == said([whole])
    assert ["finishReason" in event["candidates"][0] for event in streamed] == [False] * (
        len(streamed) - 1
    ) + [True]
    assert streamed[-1]["usageMetadata"] == whole["usageMetadata"]


@given(replies)
def test_tokens_of_thoughts_are_apart_from_those_of_candidates(reply: Reply) -> None:
    told = json.loads(GEMINI.render(reply, view()).chunks[0])["usageMetadata"]
    usage = reply.usage
    assert told["candidatesTokenCount"] + told["thoughtsTokenCount"] == usage.output_tokens
    assert told["promptTokenCount"] == usage.input_tokens
    assert told["cachedContentTokenCount"] == usage.cache_read_tokens
    assert told["totalTokenCount"] == told["promptTokenCount"] + usage.output_tokens


def test_a_reply_without_usage_states_none() -> None:
    raw = json.loads(GEMINI.render(Reply("r", "m", 1, Step(text="x"), Usage()), view()).chunks[0])
    assert "usageMetadata" not in raw


def test_numbers_of_arguments_stay_as_they_were_written() -> None:
    step = Step(tool_calls=(StepCall("c", "t", '{"a":2.0,"b":100000000000000000000000}'),))
    [chunk] = GEMINI.render(Reply("r", "m", 1, step, Usage()), view()).chunks
    assert b'"args":{"a":2.0,"b":100000000000000000000000}' in chunk


def test_a_call_without_an_id_leaves_the_field_out() -> None:
    step = Step(tool_calls=(StepCall("", "t", "{}"),))
    raw = json.loads(GEMINI.render(Reply("r", "m", 1, step, Usage()), view()).chunks[0])
    assert raw["candidates"][0]["content"]["parts"] == [{"functionCall": {"name": "t", "args": {}}}]


@pytest.mark.parametrize(
    "step",
    [
        Step(tool_calls=(StepCall("c", "t", '{"cut'),)),
        Step(tool_calls=(StepCall("c", "t", "[1]"),)),
        Step(text="x", finish_reason=FinishReason.TOOL_CALLS),
    ],
)
def test_what_the_dialect_has_no_form_for_is_refused(step: Step) -> None:
    with pytest.raises(Refusal) as refused:
        GEMINI.render(Reply("r", "m", 1, step, Usage()), view())
    assert refused.value.code == "not_expressible"


def test_the_first_request_of_googles_sdk_is_read() -> None:
    read = recorded(0)
    assert [(message.role, message.text) for message in read.messages] == [
        ("system", 'Prompt {braces}\n\nYou are an agent. Your internal name is "agent".'),
        ("user", "hello"),
    ]
    [tool] = read.tools
    assert (tool.name, tool.description) == ("echo", "Echo.")
    assert tool.parameters == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert (read.model, read.stream) == ("m", False)


def test_calls_and_results_of_googles_sdk_are_read_with_and_without_ids() -> None:
    assert recorded(2).messages[2:] == (
        Message(
            "assistant",
            "look",
            (StepCall("", "echo", '{"text":"x","n":2.0}'), StepCall("call_2", "echo", '{"text":"ünï"}')),
        ),
        Message("tool", "result é", tool_call_id=""),
        Message("tool", "result é", tool_call_id="call_2"),
        Message("assistant", "done 2"),
        Message("user", "more"),
    )


def test_what_stands_beside_a_result_is_the_users() -> None:
    answer = {"functionResponse": {"id": "c", "name": "t", "response": {"a": 1, "b": [2.0]}}}
    read = parse(contents=[{"role": "user", "parts": [answer, {"text": "and"}]}])
    assert read.messages == (
        Message("tool", '{"a": 1, "b": [2.0]}', tool_call_id="c"),
        Message("user", "and"),
    )


@pytest.mark.parametrize("spelling", ["parametersJsonSchema", "parameters_json_schema", "parameters"])
def test_a_schema_is_read_in_each_spelling(spelling: str) -> None:
    declared = {"name": "t", spelling: {"type": "object"}}
    assert parse(tools=[{"functionDeclarations": [declared]}]).tools[0].parameters == {"type": "object"}


def test_a_request_that_forbids_calls_offers_no_tools() -> None:
    tools = [{"functionDeclarations": [{"name": "t"}]}]
    config = {"functionCallingConfig": {"mode": "NONE"}}
    assert parse(tools=tools, toolConfig=config).tools == ()


def test_the_path_says_the_model_and_whether_to_stream() -> None:
    read = parse("v1beta/models/scripted/file:/tmp/a.yaml:streamGenerateContent")
    assert (read.model, read.stream) == ("scripted/file:/tmp/a.yaml", True)
    assert dialect_at(STREAM) is Dialect.GEMINI
    assert dialect_at("v1beta/models/m:countTokens") is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"contents": []}, "contents"),
        ({"contents": [{"role": "robot", "parts": []}]}, "contents[0].role"),
        (
            {"contents": [{"parts": [{"functionCall": {"args": {}}, "text": ""}]}]},
            "contents[0].parts[0].name",
        ),
        ({"contents": [{"parts": "x"}]}, "contents[0].parts"),
        ({"tools": [{"googleSearch": {}}]}, "tools[0]"),
        ({"generationConfig": {"candidateCount": 2}}, "candidateCount"),
        ({"cachedContent": "c"}, "cachedContent"),
    ],
)
def test_a_malformed_request_is_refused_by_name(body: dict[str, Any], told: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse(**body)
    assert refused.value.status == 400
    assert told in refused.value.message


@given(st.binary(max_size=80) | st.dictionaries(st.text(max_size=5), st.none() | st.text()).map(orjson.dumps))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        GEMINI.parse(body, WHOLE)
    except Refusal as refused:
        assert refused.status == 400


def test_an_error_has_googles_form_with_the_code_as_its_reason() -> None:
    raw = json.loads(GEMINI.error(429, "rate_limit_exceeded", "slow down").chunks[0])["error"]
    assert (raw["code"], raw["status"], raw["message"]) == (429, "RESOURCE_EXHAUSTED", "slow down")
    assert raw["details"][0]["reason"] == "rate_limit_exceeded"

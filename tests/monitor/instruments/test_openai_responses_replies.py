"""Reading copied answers of OpenAI's responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.protocol.trace import Usage
from monitor.instruments.openai_replies import AnnouncedCall
from monitor.instruments.openai_responses_replies import read_response_reply
from tests.foreign_responses import response, response_events_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NAME = st.text(st.characters(categories=["L"]), min_size=1)
SSE = "text/event-stream; charset=utf-8"


def stream_of(events: list[dict[str, Any]]) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


@given(
    text=st.none() | TEXT,
    reasoning=st.none() | TEXT,
    calls=st.lists(st.tuples(NAME, NAME, TEXT), max_size=3, unique_by=lambda call: call[0]),
)
def test_a_stream_and_a_whole_reply_read_alike(
    text: str | None, reasoning: str | None, calls: list[tuple[str, str, str]]
) -> None:
    reply = response("resp_1", text=text, reasoning=reasoning, tool_calls=calls)
    whole = read_response_reply("application/json", json.dumps(reply).encode())
    events = response_events_of(reply)
    assert whole == read_response_reply(SSE, stream_of(events))
    # Without its last event a stream has said all the same, but not that it is the end.
    cut = read_response_reply(SSE, stream_of(events[:-1]))
    assert (cut.text, cut.reasoning, cut.calls, cut.finish_reason) == (text, reasoning, whole.calls, None)
    assert whole.calls == [AnnouncedCall(*call) for call in calls]
    assert whole.finish_reason == ("tool_calls" if calls else "stop")


def test_usage_is_read_and_what_is_not_said_is_unknown() -> None:
    usage = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 3}}
    read = read_response_reply("application/json", json.dumps(response(text="hi", usage=usage)).encode())
    assert read.usage == Usage(input_tokens=9, output_tokens=4, cache_read_tokens=3)
    silent = read_response_reply("application/json", json.dumps(response(text="hi")).encode())
    assert silent.usage is None


@pytest.mark.parametrize(
    ("reason", "told"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_why_a_reply_is_not_whole_is_told_as_chat_completions_tell_it(reason: str, told: str) -> None:
    reply = response(text="hi", incomplete=reason)
    assert read_response_reply("application/json", json.dumps(reply).encode()).finish_reason == told


def test_a_stream_that_was_cut_gives_what_came() -> None:
    events = response_events_of(response("resp_1", tool_calls=[("call_1", "look", '{"at": "the sky"}')]))
    read = read_response_reply(SSE, stream_of(events[:4]))
    assert read.response_id == "resp_1"
    assert read.calls == [AnnouncedCall("call_1", "look", '{"at": "th')]


def test_the_text_of_a_reasoning_item_goes_before_its_summary() -> None:
    item = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "short"}],
        "content": [{"type": "reasoning_text", "text": "long"}],
    }
    content = json.dumps({"output": [item]}).encode()
    assert read_response_reply("application/json", content).reasoning == "long"


def test_a_refusal_is_what_the_model_says() -> None:
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    content = json.dumps({"output": [item]}).encode()
    assert read_response_reply("application/json", content).text == "No."


@pytest.mark.parametrize("content", [b"<html>", b"[]", b""])
def test_what_is_no_response_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_response_reply("application/json", content)

"""Copies of Gemini's answers as the instrument reads them: against the endpoint's own rendering."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atp.models.scripted.dialects.dialect import Reply
from atp.models.scripted.dialects.gemini import Gemini
from atp.models.scripted.steps import FinishReason, RequestView, Step, StepCall
from atp.protocol.trace import Usage
from monitor.instruments.gemini_replies import read_gemini_reply
from monitor.instruments.openai_replies import ChatReply

COUNTS = st.integers(0, 1 << 40)
calls = st.builds(
    StepCall,
    st.text(),
    st.text(min_size=1),
    st.dictionaries(st.text(max_size=5), st.integers()).map(json.dumps),
)
steps = st.builds(
    Step,
    text=st.none() | st.text(max_size=100),
    reasoning=st.none() | st.text(max_size=100),
    tool_calls=st.lists(calls, max_size=3).map(tuple),
    finish_reason=st.sampled_from([None, FinishReason.LENGTH, FinishReason.CONTENT_FILTER]),
)
usages = st.builds(
    lambda said, thought, asked: Usage(
        input_tokens=asked, output_tokens=said + thought, reasoning_tokens=thought, cache_read_tokens=0
    ),
    COUNTS,
    COUNTS,
    COUNTS,
)


def read(reply: Reply, stream: bool) -> ChatReply:
    rendered = Gemini().render(reply, RequestView("m", (), stream=stream))
    return read_gemini_reply(rendered.content_type, b"".join(rendered.chunks))


@given(steps, usages, st.booleans())
def test_what_the_endpoint_says_is_read_whole_and_streamed(step: Step, usage: Usage, stream: bool) -> None:
    told = read(Reply("r", "m", 1, step, usage), stream)
    assert (told.response_id, told.model, told.finish_reason) == ("r", "m", step.finish.value)
    assert (told.text or "", told.reasoning or "") == (step.text or "", step.reasoning or "")
    assert [(call.id, call.name, json.loads(call.arguments)) for call in told.calls] == [
        (call.id, call.name, json.loads(call.arguments)) for call in step.tool_calls
    ]
    assert told.usage is not None
    assert told.usage.model_dump() == usage.model_dump()


def test_what_the_provider_does_not_count_is_unknown() -> None:
    told = read(Reply("r", "m", 1, Step(text="x"), Usage()), False)
    assert told.usage is None


def test_a_stream_that_was_cut_is_read_as_far_as_it_came() -> None:
    pieces = Gemini().render(
        Reply("r", "m", 1, Step(text="x" * 100), Usage()), RequestView("m", (), stream=True)
    )
    content = b"".join(pieces.chunks[:2]) + pieces.chunks[2][:20]
    told = read_gemini_reply("text/event-stream", content)
    assert (told.text, told.finish_reason) == ("x" * 64, None)


@pytest.mark.parametrize(
    ("reason", "read_as"), [("RECITATION", "RECITATION"), ("SAFETY", "content_filter"), (None, None)]
)
def test_a_finish_reason_that_others_lack_keeps_its_name(reason: str | None, read_as: str | None) -> None:
    candidate: dict[str, Any] = {"content": {"parts": [{"text": "x"}]}, "finishReason": reason}
    content = json.dumps({"candidates": [candidate]}).encode()
    assert read_gemini_reply("application/json", content).finish_reason == read_as

"""Reading copied chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.instruments.openai_replies import AnnouncedCall, read_reply
from tests.foreign_endpoint import completion, events_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAME = st.text(st.characters(categories=["L"]), min_size=1)
SSE = "text/event-stream; charset=utf-8"


def stream_of(reply: dict[str, Any]) -> bytes:
    events = [f"data: {json.dumps(event)}\n\n" for event in events_of(reply)]
    return "".join([*events, "data: [DONE]\n\n"]).encode()


@given(
    text=st.none() | TEXT,
    reasoning=st.none() | TEXT.filter(bool),
    calls=st.lists(st.tuples(NAME, NAME, TEXT), max_size=3),
)
def test_a_stream_and_a_whole_reply_read_alike(
    text: str | None, reasoning: str | None, calls: list[tuple[str, str, str]]
) -> None:
    reply = completion("resp-1", text=text, reasoning=reasoning, tool_calls=calls)
    whole = read_reply("application/json", json.dumps(reply).encode())
    assert whole == read_reply(SSE, stream_of(reply))
    assert whole.reasoning == reasoning
    assert whole.calls == [AnnouncedCall(*call) for call in calls]
    assert (whole.response_id, whole.model) == ("resp-1", "foreign-model")


def test_reasoning_is_read_under_its_other_name() -> None:
    reply = {"choices": [{"message": {"reasoning": "hm"}}]}
    assert read_reply("application/json", json.dumps(reply).encode()).reasoning == "hm"


def test_a_stream_that_was_cut_gives_what_came() -> None:
    reply = completion("resp-1", reasoning="a long thought indeed")
    whole = stream_of(reply)
    end_of_third_event = [i for i in range(len(whole)) if whole.startswith(b"\n\n", i)][2]
    assert read_reply(SSE, whole[: end_of_third_event + 2]).reasoning == "a long thought"


def test_other_choices_are_not_mixed_in() -> None:
    reply = {
        "choices": [
            {"index": 1, "message": {"reasoning": "other"}},
            {"index": 0, "message": {"reasoning": "first"}},
        ]
    }
    assert read_reply("application/json", json.dumps(reply).encode()).reasoning == "first"


@pytest.mark.parametrize("content", [b"<html>", b"[]", b""])
def test_what_is_no_completion_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_reply("application/json", content)

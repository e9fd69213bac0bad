"""Reading requests to OpenAI's APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.instruments.openai_requests import RequestForms

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "text", "text": "up."}]},
    {"role": "assistant", "content": None, "reasoning_content": "Up.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "blue"},
    {"role": "assistant", "content": "It is blue."},
]
RESPONSES: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "Look"}, {"type": "input_text", "text": "up."}],
    },
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Up."}]},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "sky"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "blue"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is blue.", "annotations": []}],
    },
]
CANONICAL = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Look"}, {"type": "text", "content": "up."}]},
    {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "Up."},
            {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "sky"}},
        ],
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "blue"}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "It is blue."}]},
]


def test_both_apis_are_told_alike() -> None:
    chat = {"model": "m", "messages": CHAT, "stream": True, "temperature": 0.5, "top_p": None}
    responses = {"model": "m", "instructions": "Be brief.", "input": RESPONSES, "temperature": 0.5}
    first = RequestForms().read(json.dumps(chat).encode())
    second = RequestForms().read(json.dumps(responses).encode())
    assert first.messages == second.messages == CANONICAL
    assert (first.model, first.stream, second.stream) == ("m", True, False)
    assert first.parameters == second.parameters == {"temperature": 0.5}


def test_a_string_is_what_the_user_says() -> None:
    assert RequestForms().messages("hello") == [
        {"role": "user", "parts": [{"type": "text", "content": "hello"}]}
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_image", "image_url": "https://example.org/a.png"},
    ],
)
def test_images_are_told_alike(part: dict[str, Any]) -> None:
    [form] = RequestForms().messages([{"role": "user", "content": [part]}])
    assert form["parts"] == [{"type": "uri", "modality": "image", "uri": "https://example.org/a.png"}]


def test_items_that_nobody_knows_are_kept_as_they_are() -> None:
    item = {"type": "web_search_call", "id": "ws_1"}
    [form] = RequestForms().messages([item])
    assert form["parts"] == [item]


messages = st.lists(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["user", "assistant"]),
        st.text(max_size=3),
    ),
    max_size=6,
)


@given(st.lists(messages, max_size=12))
def test_what_is_remembered_changes_nothing_but_identity(lists: list[list[dict[str, Any]]]) -> None:
    forms = RequestForms()
    for each in lists:
        assert forms.messages(each) == RequestForms().messages(each)


def test_what_stood_in_an_earlier_request_comes_back_as_the_same_object() -> None:
    forms = RequestForms()
    first = forms.messages(CHAT[:3])
    # Another conversation in between, as of an agent that is called as a tool.
    forms.messages([{"role": "user", "content": "aside"}])
    second = forms.messages(CHAT)
    assert [id(form) for form in second[:3]] == [id(form) for form in first]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        RequestForms().read(body)

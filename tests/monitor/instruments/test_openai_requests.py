"""Requests read off the wire."""

from __future__ import annotations

import json

import pytest

from monitor.instruments.openai_requests import WireMessageForms, read_request


def test_a_request_is_read_as_it_was_sent() -> None:
    tool = {"type": "function", "function": {"name": "look"}}
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [tool],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
    }
    request = read_request(json.dumps(asked).encode())
    assert (request.model, request.messages, request.tools) == ("m", asked["messages"], [tool])
    assert request.stream is True
    assert request.parameters == {"temperature": 0.5}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"input": []}', b"\xff"])
def test_what_is_no_chat_completion_request_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_request(content)


def test_a_text_that_was_seen_before_gives_the_same_object() -> None:
    forms = WireMessageForms()
    plain = forms.form({"role": "user", "content": "Hello"})
    assert plain == {"role": "user", "parts": [{"type": "text", "content": "Hello"}]}
    assert forms.form({"role": "user", "content": [{"type": "text", "text": "Hello"}]}) is plain
    assert forms.form({"role": "assistant", "content": "Hello"}) is not plain


def test_a_form_beyond_those_remembered_is_made_anew() -> None:
    forms = WireMessageForms(remembered=1)
    first = forms.form({"role": "user", "content": "a"})
    forms.form({"role": "user", "content": "b"})
    again = forms.form({"role": "user", "content": "a"})
    assert again == first
    assert again is not first


def test_images_and_unknown_parts_are_kept() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    content = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "text", "text": "What is it?"},
        sound,
    ]
    assert WireMessageForms().form({"role": "user", "content": content})["parts"] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        {"type": "uri", "modality": "image", "uri": "https://example.org/a.png"},
        {"type": "text", "content": "What is it?"},
        sound,
    ]


def test_a_message_without_content_has_no_parts() -> None:
    assert WireMessageForms().form({"role": "assistant", "content": None}) == {
        "role": "assistant",
        "parts": [],
    }

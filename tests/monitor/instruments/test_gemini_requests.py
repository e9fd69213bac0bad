"""Requests to Gemini as the instrument reads them: bodies that Google's own SDK sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from monitor.instruments.gemini_requests import GeminiRequestForms

RECORDED = Path(__file__).parents[2] / "atp" / "models" / "scripted" / "gemini_requests.json"
BODIES: list[dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))


def body(number: int, **more: Any) -> bytes:
    return json.dumps({**BODIES[number], **more}).encode()


def test_messages_have_the_roles_and_parts_of_other_apis() -> None:
    asked = GeminiRequestForms().read(body(1)).messages
    prompt = 'Prompt {braces}\n\nYou are an agent. Your internal name is "agent".'
    call = {"type": "tool_call", "name": "echo"}
    assert asked == [
        {"role": "system", "parts": [{"type": "text", "content": prompt}]},
        {"role": "user", "parts": [{"type": "text", "content": "hello"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "thinking"},
                {"type": "text", "content": "look"},
                {**call, "id": "", "arguments": {"text": "x", "n": 2.0}},
                {**call, "id": "call_2", "arguments": {"text": "ünï"}},
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "", "response": "result é"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_2", "response": "result é"}]},
    ]


def test_tools_have_the_form_of_other_apis() -> None:
    [tool] = GeminiRequestForms().read(body(0)).tools
    assert tool == {
        "type": "function",
        "name": "echo",
        "description": "Echo.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        },
    }


def test_parameters_are_those_of_the_generation_and_what_else_is_asked_for() -> None:
    config = {"temperature": 0.5, "maxOutputTokens": None}
    read = GeminiRequestForms(stream=True).read(body(0, generationConfig=config, safetySettings=[]))
    assert read.parameters == {"temperature": 0.5, "safetySettings": []}
    assert read.stream is True


def test_what_stood_in_an_earlier_request_is_the_same_object() -> None:
    forms = GeminiRequestForms()
    before, after = forms.read(body(1)).messages, forms.read(body(2)).messages
    assert len(after) == len(before) + 2
    assert all(now is then for now, then in zip(after, before, strict=False))
    assert forms.read(body(1)).tools is forms.read(body(2)).tools

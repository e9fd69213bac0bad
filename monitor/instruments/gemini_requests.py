"""Reading a request to Gemini's generateContent: what a model is asked, canonically."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from atp.protocol.function_responses import response_text
from monitor.instruments.openai_replies import call_part, json_object
from monitor.instruments.openai_requests import ModelRequest
from monitor.instruments.remembered_forms import RememberedForms

_NOT_PARAMETERS = frozenset({"contents", "systemInstruction", "tools", "generationConfig"})
_ROLES = {"model": "assistant"}

_Message = tuple[str, list[Mapping[str, Any]]]
"""A role and parts."""


class GeminiRequestForms:
    """Reads the requests of an attempt, and remembers what they begin with; see `RememberedForms`.

    Args:
        stream: Whether streams are asked for, which a body does not say.
    """

    def __init__(self, stream: bool = False) -> None:
        self._stream = stream
        self._lists = RememberedForms()
        self._tools: list[Any] = []

    def read(self, body: bytes) -> ModelRequest:
        """Read a request's body; the model is named in its path.

        Raises:
            ValueError: It is no JSON object.
        """
        request = json_object(body)
        tools = [_tool(function) for function in _functions(request.get("tools") or ())]
        if tools != self._tools:
            self._tools = tools
        others = {key: value for key, value in request.items() if key not in _NOT_PARAMETERS}
        parameters = {**(request.get("generationConfig") or {}), **others}
        return ModelRequest(
            model=None,
            stream=self._stream,
            messages=self._lists.forms(list(_messages(request)), _form),
            tools=self._tools,
            parameters={key: value for key, value in parameters.items() if value is not None},
        )


def _messages(request: Mapping[str, Any]) -> Iterator[_Message]:
    """Each function response is a message of its own, as a tool's answer is elsewhere."""
    system = request.get("systemInstruction")
    if system:
        yield "system", list(system.get("parts") or ())
    for content in request.get("contents") or ():
        parts = list(content.get("parts") or ())
        responses = [part for part in parts if "functionResponse" in part]
        for response in responses:
            yield "tool", [response]
        if len(responses) < len(parts) or not parts:
            role = content.get("role") or "user"
            yield _ROLES.get(role, role), [part for part in parts if "functionResponse" not in part]


def _form(message: _Message) -> dict[str, Any]:
    role, parts = message
    return {"role": role, "parts": [_part(part) for part in parts]}


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    match part:
        case {"functionCall": call}:
            arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
            return call_part(call.get("id") or "", call.get("name") or "", arguments)
        case {"functionResponse": answer}:
            told = response_text(answer.get("response") or {})
            return {"type": "tool_call_response", "id": answer.get("id") or "", "response": told}
        case {"text": str(text)}:
            return {"type": "reasoning" if part.get("thought") else "text", "content": text}
    return dict(part)


def _functions(tools: Any) -> Iterator[Mapping[str, Any]]:
    for tool in tools:
        yield from tool.get("functionDeclarations") or ()


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    """As other APIs have it; Google's SDK writes the schema's name in the spelling of Python."""
    schema = (
        function.get("parametersJsonSchema")
        or function.get("parameters_json_schema")
        or function.get("parameters")
    )
    return {
        "type": "function",
        "name": function.get("name"),
        "description": function.get("description") or "",
        "parameters": schema or {},
    }

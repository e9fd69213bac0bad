"""OpenAI chat completions, streamed and not.

Shapes follow OpenAI's API reference (`/v1/chat/completions`), as the types of the `openai` package
give them. `reasoning_content`, which OpenAI's own models do not send, is where DeepSeek and the
servers compatible with it put reasoning text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import orjson

from atp.models.scripted.dialects.anatomy import Anatomy
from atp.models.scripted.dialects.bodies import JSON, SSE, bad, bearer_key, details, joined_text, pieces
from atp.models.scripted.dialects.dialect import Rendered, Reply
from atp.models.scripted.dialects.openai_bodies import ROLES, error_answer, request_object, totals
from atp.models.scripted.dialects.openai_chat_anatomy import OpenAIChatAnatomy
from atp.models.scripted.steps import Message, RequestView, Role, StepCall, ToolOffer
from atp.protocol.trace import Usage

_ROLES: Mapping[str, Role] = {**ROLES, "tool": "tool"}
_TEXT = frozenset({"text"})
_DONE = b"data: [DONE]\n\n"


class OpenAIChat:
    """The `chat/completions` route."""

    id_prefix = "chatcmpl-"
    request_id_header = "x-request-id"
    required_headers: tuple[str, ...] = ()
    anatomy: Anatomy = OpenAIChatAnatomy()

    def key(self, headers: Mapping[str, str]) -> str:
        """See `WireDialect.key`."""
        return bearer_key(headers)

    def parse(self, body: bytes, path: str) -> RequestView:
        """See `WireDialect.parse`."""
        data, model = request_object(body)
        if data.get("n") not in (None, 1):
            raise bad("n: a scripted model gives one choice")
        if "functions" in data:
            raise bad("functions: not served; use tools")
        options = data.get("stream_options") or {}
        if not isinstance(options, dict):
            raise bad("stream_options: not an object")
        return RequestView(
            model=model,
            messages=tuple(_messages(data.get("messages"))),
            tools=() if data.get("tool_choice") == "none" else tuple(_tools(data.get("tools"))),
            stream=data.get("stream") is True,
            stream_usage=options.get("include_usage") is True,
        )

    def render(self, reply: Reply, view: RequestView) -> Rendered:
        """See `WireDialect.render`."""
        if view.stream:
            return Rendered(200, SSE, tuple(_events(reply, view.stream_usage)))
        return Rendered(200, JSON, (orjson.dumps(_completion(reply)),))

    def error(self, status: int, code: str, message: str) -> Rendered:
        """See `WireDialect.error`."""
        return error_answer(status, code, message)


def _messages(raw: object) -> Iterator[Message]:
    if not isinstance(raw, list) or not raw:
        raise bad("messages: a non-empty array is required")
    for index, item in enumerate(raw):
        where = f"messages[{index}]"
        if not isinstance(item, dict):
            raise bad(f"{where}: not an object")
        named = item.get("role")
        role = _ROLES.get(named) if isinstance(named, str) else None
        if role is None:
            raise bad(f"{where}.role: {named!r} is none of {', '.join(_ROLES)}")
        call_id = item.get("tool_call_id")
        if role == "tool" and not isinstance(call_id, str):
            raise bad(f"{where}.tool_call_id: a tool message says which call it answers")
        yield Message(
            role=role,
            text=joined_text(item.get("content"), f"{where}.content", _TEXT),
            tool_calls=tuple(_calls(item.get("tool_calls") or (), f"{where}.tool_calls")),
            tool_call_id=call_id if role == "tool" else None,
        )


def _calls(raw: object, where: str) -> Iterator[StepCall]:
    if not isinstance(raw, Sequence):
        raise bad(f"{where}: not an array")
    for index, item in enumerate(raw):
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict):
            raise bad(f"{where}[{index}]: not a call of a function")
        parts = (item.get("id"), function.get("name"), function.get("arguments"))
        if not all(isinstance(part, str) for part in parts):
            raise bad(f"{where}[{index}]: id, name and arguments have to be strings")
        yield StepCall(*cast("tuple[str, str, str]", parts))


def _tools(raw: object) -> Iterator[ToolOffer]:
    if raw is None:
        return
    if not isinstance(raw, list):
        raise bad("tools: not an array")
    for index, item in enumerate(raw):
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise bad(f"tools[{index}]: not a function with a name")
        parameters = function.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise bad(f"tools[{index}].function.parameters: not an object")
        description = function.get("description") or ""
        if not isinstance(description, str):
            raise bad(f"tools[{index}].function.description: not a string")
        yield ToolOffer(function["name"], description, parameters)


def _completion(reply: Reply) -> dict[str, Any]:
    step = reply.step
    message: dict[str, Any] = {"role": "assistant", "content": step.text, "refusal": None}
    if step.reasoning is not None:
        message["reasoning_content"] = step.reasoning
    if step.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in step.tool_calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": step.finish.value}
    return {**_head(reply, "chat.completion"), "choices": [choice], **_usage(reply.usage)}


def _events(reply: Reply, with_usage: bool) -> Iterator[bytes]:
    head = _head(reply, "chat.completion.chunk")
    if with_usage:
        # Every chunk but the last carries an empty usage, as the API reference says.
        head["usage"] = None

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**head, "choices": [choice]})

    step = reply.step
    yield event({"role": "assistant", "content": None if step.text is None else "", "refusal": None})
    for piece in pieces(step.reasoning or ""):
        yield event({"reasoning_content": piece})
    for piece in pieces(step.text or ""):
        yield event({"content": piece})
    for index, call in enumerate(step.tool_calls):
        function = {"name": call.name, "arguments": ""}
        opening = {"index": index, "id": call.id, "type": "function", "function": function}
        yield event({"tool_calls": [opening]})
        for piece in pieces(call.arguments):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, step.finish.value)
    if with_usage and (usage := _usage(reply.usage)):
        yield _event({**head, "choices": [], **usage})
    yield _DONE


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": reply.id,
        "object": kind,
        "created": reply.created,
        "model": reply.model,
        "system_fingerprint": "scripted",
    }


def _usage(usage: Usage) -> dict[str, Any]:
    """The field `usage`; nothing where the reply states no tokens."""
    prompt = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    completion = {"reasoning_tokens": usage.reasoning_tokens}
    return details(
        "usage",
        {
            **totals(usage, "prompt_tokens", "completion_tokens"),
            **details("prompt_tokens_details", prompt),
            **details("completion_tokens_details", completion),
        },
    )

"""OpenAI chat completions, streamed and not.

Shapes follow OpenAI's API reference (`/v1/chat/completions`), as the types of the `openai` package
give them. `reasoning_content`, which OpenAI's own models do not send, is where DeepSeek and the
servers compatible with it put reasoning text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import orjson

from atp.models.scripted.dialects.dialect import Rendered, Reply
from atp.models.scripted.steps import Message, Refusal, RequestView, Role, StepCall, ToolOffer
from atp.protocol.trace import Usage

PIECE = 32
"""Characters of text, reasoning or arguments in one streamed delta."""

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_JSON = "application/json"
_SSE = "text/event-stream; charset=utf-8"
_DONE = b"data: [DONE]\n\n"


class OpenAIChat:
    """The `chat/completions` route."""

    def parse(self, body: bytes) -> RequestView:
        """See `WireDialect.parse`."""
        try:
            data = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise _bad(f"the body is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise _bad("the body is not a JSON object")
        model = data.get("model")
        if not isinstance(model, str) or not model:
            raise _bad("model: a non-empty string is required")
        if data.get("n") not in (None, 1):
            raise _bad("n: a scripted model gives one choice")
        if "functions" in data:
            raise _bad("functions: not served; use tools")
        options = data.get("stream_options") or {}
        if not isinstance(options, dict):
            raise _bad("stream_options: not an object")
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
            return Rendered(200, _SSE, tuple(_events(reply, view.stream_usage)))
        return Rendered(200, _JSON, (orjson.dumps(_completion(reply)),))

    def error(self, status: int, code: str, message: str) -> Rendered:
        """See `WireDialect.error`."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
        return Rendered(status, _JSON, (orjson.dumps(body),))


def _bad(message: str) -> Refusal:
    return Refusal(400, "invalid_request", message)


def _messages(raw: object) -> Iterator[Message]:
    if not isinstance(raw, list) or not raw:
        raise _bad("messages: a non-empty array is required")
    for index, item in enumerate(raw):
        where = f"messages[{index}]"
        if not isinstance(item, dict):
            raise _bad(f"{where}: not an object")
        named = item.get("role")
        role = _ROLES.get(named) if isinstance(named, str) else None
        if role is None:
            raise _bad(f"{where}.role: {named!r} is none of {', '.join(_ROLES)}")
        call_id = item.get("tool_call_id")
        if role == "tool" and not isinstance(call_id, str):
            raise _bad(f"{where}.tool_call_id: a tool message says which call it answers")
        yield Message(
            role=role,
            text=_text(item.get("content"), f"{where}.content"),
            tool_calls=tuple(_calls(item.get("tool_calls") or (), f"{where}.tool_calls")),
            tool_call_id=call_id if role == "tool" else None,
        )


def _text(content: object, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise _bad(f"{where}: neither text nor an array of parts")
    texts = [part.get("text", "") for part in content if part.get("type") == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise _bad(f"{where}: a text part without text")
    return "".join(texts)


def _calls(raw: object, where: str) -> Iterator[StepCall]:
    if not isinstance(raw, Sequence):
        raise _bad(f"{where}: not an array")
    for index, item in enumerate(raw):
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict):
            raise _bad(f"{where}[{index}]: not a call of a function")
        parts = (item.get("id"), function.get("name"), function.get("arguments"))
        if not all(isinstance(part, str) for part in parts):
            raise _bad(f"{where}[{index}]: id, name and arguments have to be strings")
        yield StepCall(*cast("tuple[str, str, str]", parts))


def _tools(raw: object) -> Iterator[ToolOffer]:
    if raw is None:
        return
    if not isinstance(raw, list):
        raise _bad("tools: not an array")
    for index, item in enumerate(raw):
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _bad(f"tools[{index}]: not a function with a name")
        parameters = function.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise _bad(f"tools[{index}].function.parameters: not an object")
        description = function.get("description") or ""
        if not isinstance(description, str):
            raise _bad(f"tools[{index}].function.description: not a string")
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
    return {
        **_head(reply, "chat.completion"),
        "choices": [choice],
        "usage": _usage(reply.usage),
    }


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
    for piece in _pieces(step.reasoning or ""):
        yield event({"reasoning_content": piece})
    for piece in _pieces(step.text or ""):
        yield event({"content": piece})
    for index, call in enumerate(step.tool_calls):
        function = {"name": call.name, "arguments": ""}
        opening = {"index": index, "id": call.id, "type": "function", "function": function}
        yield event({"tool_calls": [opening]})
        for piece in _pieces(call.arguments):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, step.finish.value)
    if with_usage:
        yield _event({**head, "choices": [], "usage": _usage(reply.usage)})
    yield _DONE


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": reply.id,
        "object": kind,
        "created": reply.created,
        "model": reply.model,
        "system_fingerprint": "scripted",
    }


def _usage(usage: Usage) -> dict[str, Any]:
    asked, said = usage.input_tokens, usage.output_tokens
    if asked is None or said is None:
        raise ValueError("a reply states its input and output tokens")
    prompt = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    completion = {"reasoning_tokens": usage.reasoning_tokens}
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        **_details("prompt_tokens_details", prompt),
        **_details("completion_tokens_details", completion),
    }


def _details(name: str, counts: dict[str, int | None]) -> dict[str, dict[str, int]]:
    # An unknown count is left out: 0 would be a claim.
    known = {key: count for key, count in counts.items() if count is not None}
    return {name: known} if known else {}

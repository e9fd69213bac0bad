"""Reading the copy of an OpenAI chat completion, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from atp.protocol.json_text import decode
from atp.protocol.spans import AttributeValue
from atp.protocol.trace import Usage
from monitor import vocabulary as v


@dataclass(slots=True)
class AnnouncedCall:
    """A tool call as the model wrote it."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ChatReply:
    """What a model said. Of a chat completion only the first choice is read."""

    response_id: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    reasoning: str | None = None
    text: str | None = None
    calls: list[AnnouncedCall] = field(default_factory=list)
    usage: Usage | None = None
    """None when the provider said none."""
    begun: bool = False
    """Whether there is a choice, or a response, at all."""
    ended: bool = True
    """Whether a stream came to its end."""
    broken: bool = False
    """Whether it is no reply, or none whole, of which the SDK has made nothing."""

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        """What is known of the response itself, for its model span; the calls it announces aside."""
        about: dict[str, AttributeValue] = {
            v.RESPONSE_ID: self.response_id,
            v.MODEL_ANSWERED: self.model,
            v.FINISH_REASON: self.finish_reason,
        }
        if self.usage is not None:
            about |= {name: getattr(self.usage, field) for field, name in v.USAGE.items()}
        return {name: value for name, value in about.items() if value is not None}

    @property
    def message(self) -> dict[str, Any] | None:
        """In the canonical form of `monitor.vocabulary`; None when nothing was said."""
        parts: list[dict[str, Any]] = []
        if self.reasoning is not None:
            parts.append({"type": "reasoning", "content": self.reasoning})
        if self.text is not None:
            parts.append({"type": "text", "content": self.text})
        parts.extend(call_part(call.id, call.name, call.arguments) for call in self.calls)
        return {"role": "assistant", "parts": parts} if parts else None


def call_part(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A tool call in the canonical form; arguments that are no JSON object stay text."""
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": _object_or_text(arguments)}


def _object_or_text(text: str) -> Any:
    try:
        value = decode(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def read_reply(content_type: str, content: bytes) -> ChatReply:
    """Read a copy.

    Args:
        content_type: Of the response.
        content: Its bytes, decoded. A stream may be cut short: its last, unfinished line is left out.

    Raises:
        ValueError: It is neither a chat completion nor a stream of its chunks.
    """
    reply = ChatReply()
    if is_stream(content_type, content):
        by_index: dict[int, AnnouncedCall] = {}
        for chunk in stream_events(content):
            _identity(reply, chunk)
            for choice in _first(chunk):
                _delta(reply, choice, by_index)
        reply.calls = [by_index[index] for index in sorted(by_index)]
        reply.ended = reply.finish_reason is not None and b"data: [DONE]" in content
    else:
        read_completion(json_object(content), reply)
    return reply


def read_completion(completion: Mapping[str, Any], reply: ChatReply) -> None:
    """Read a whole chat completion."""
    _identity(reply, completion)
    for choice in _first(completion):
        reply.begun = True
        message = choice.get("message") or {}
        reply.finish_reason = choice.get("finish_reason")
        reply.reasoning = _reasoning(message)
        reply.text = _text(message)
        reply.calls = [_call(call) for call in message.get("tool_calls") or ()]


def stream_events(content: bytes) -> Iterator[Mapping[str, Any]]:
    """The objects of a stream of server-sent events; a last, unfinished line is left out.

    Raises:
        ValueError: A line is no JSON object.
    """
    *lines, _unfinished = content.replace(b"\r\n", b"\n").split(b"\n")
    for line in lines:
        data = line[5:].strip() if line.startswith(b"data:") else b""
        if data and data != b"[DONE]":
            yield json_object(data)


def is_stream(content_type: str, content: bytes) -> bool:
    """Whether a body is a stream of server-sent events. SDKs do not look at the content type, which can be
    wrong."""
    return content_type.startswith("text/event-stream") or content.startswith((b"data:", b"event:"))


def json_object(content: bytes) -> Mapping[str, Any]:
    """JSON that is an object.

    Raises:
        ValueError: It is not.
    """
    value = decode(content)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object was expected, not {type(value).__name__}")
    return value


def _first(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (choice for choice in document.get("choices") or () if choice.get("index", 0) == 0)


def _identity(reply: ChatReply, document: Mapping[str, Any]) -> None:
    reply.response_id = document.get("id") or reply.response_id
    reply.model = document.get("model") or reply.model
    usage = document.get("usage")
    if usage is not None:
        read, written = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
        reply.usage = Usage.model_construct(
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
            cache_read_tokens=read.get("cached_tokens"),
            cache_write_tokens=read.get("cache_write_tokens"),
            reasoning_tokens=written.get("reasoning_tokens"),
        )


def _delta(reply: ChatReply, choice: Mapping[str, Any], by_index: dict[int, AnnouncedCall]) -> None:
    reply.begun = True
    delta = choice.get("delta") or {}
    reply.finish_reason = choice.get("finish_reason") or reply.finish_reason
    reasoning = _reasoning(delta)
    if reasoning is not None:
        reply.reasoning = (reply.reasoning or "") + reasoning
    text = _text(delta)
    if text is not None:
        reply.text = (reply.text or "") + text
    for part in delta.get("tool_calls") or ():
        call = by_index.setdefault(part.get("index", 0), AnnouncedCall())
        piece = _call(part)
        call.id = piece.id or call.id
        call.name += piece.name
        call.arguments += piece.arguments


def _call(call: Mapping[str, Any]) -> AnnouncedCall:
    function = call.get("function") or {}
    return AnnouncedCall(call.get("id") or "", function.get("name") or "", function.get("arguments") or "")


def _text(message: Mapping[str, Any]) -> str | None:
    # A refusal is what the model says instead.
    text = message.get("content") or message.get("refusal")
    return text if isinstance(text, str) and text else None


def _reasoning(message: Mapping[str, Any]) -> str | None:
    # DeepSeek, vLLM and others say `reasoning_content`, OpenRouter and newer vLLM `reasoning`.
    for key in ("reasoning_content", "reasoning"):
        text = message.get(key)
        if isinstance(text, str) and text:
            return text
    return None

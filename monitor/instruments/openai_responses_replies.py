"""Reading an answer of OpenAI's responses API, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from atp.protocol.trace import Usage
from monitor.instruments.openai_replies import AnnouncedCall, ChatReply, is_stream, json_object, stream_events

_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""`incomplete_details.reason` -> the finish reason that chat completions have for it."""

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


def read_response_reply(content_type: str, content: bytes) -> ChatReply:
    """Read a copy.

    Args:
        content_type: Of the response.
        content: Its bytes, decoded. A stream may be cut short: what came is read then.

    Raises:
        ValueError: It is neither a response nor a stream of its events.
    """
    reply = ChatReply()
    if not is_stream(content_type, content):
        read_response(json_object(content), reply)
        return reply
    items: dict[int, dict[str, Any]] = {}
    for event in stream_events(content):
        kind = event.get("type")
        if kind == "response.created":
            read_response(event.get("response") or {}, reply)
        elif kind in _ENDS:
            read_response(event.get("response") or {}, reply)
            return reply
        else:
            _add(event, str(kind), items)
    _read_items((items[index] for index in sorted(items)), reply)
    reply.ended = False
    return reply


def read_response(response: Mapping[str, Any], reply: ChatReply) -> None:
    """Read a whole response.

    The API has no finish reasons; those of chat completions are derived, so that both dialects
    are told alike.
    """
    reply.begun = True
    reply.response_id = response.get("id") or reply.response_id
    reply.model = response.get("model") or reply.model
    _read_items(response.get("output") or (), reply)
    reply.usage = response_usage(response.get("usage")) or reply.usage
    match response.get("status"):
        case "completed":
            reply.finish_reason = "tool_calls" if reply.calls else "stop"
        case "incomplete":
            reason = (response.get("incomplete_details") or {}).get("reason")
            reply.finish_reason = None if reason is None else _INCOMPLETE.get(reason, reason)


def response_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    """Usage as the responses API names it."""
    if usage is None:
        return None
    read, written = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
    return Usage.model_construct(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cache_read_tokens=read.get("cached_tokens"),
        cache_write_tokens=read.get("cache_write_tokens"),
        reasoning_tokens=written.get("reasoning_tokens"),
    )


def reasoning_text(item: Mapping[str, Any]) -> str:
    """What a reasoning item shows: its text, else its summary."""
    parts = item.get("content") or item.get("summary") or ()
    return "\n\n".join(str(part.get("text") or "") for part in parts)


def _read_items(items: Iterable[Mapping[str, Any]], reply: ChatReply) -> None:
    reasonings: list[str] = []
    texts: list[str] = []
    calls: list[AnnouncedCall] = []
    for item in items:
        match item.get("type"):
            case "reasoning":
                reasonings.append(reasoning_text(item))
            case "message":
                # A refusal is what the model says instead.
                parts = item.get("content") or ()
                texts.append("".join(str(part.get("text") or part.get("refusal") or "") for part in parts))
            case "function_call":
                calls.append(
                    AnnouncedCall(
                        item.get("call_id") or "", item.get("name") or "", item.get("arguments") or ""
                    )
                )
    reply.reasoning = "\n\n".join(filter(None, reasonings)) or None
    reply.text = "".join(texts) or None
    reply.calls = calls


def _add(event: Mapping[str, Any], kind: str, items: dict[int, dict[str, Any]]) -> None:
    """Put an event's piece where it belongs."""
    index = event.get("output_index", 0)
    if kind in {"response.output_item.added", "response.output_item.done"}:
        items[index] = dict(event.get("item") or {})
        return
    item, delta = items.get(index), event.get("delta")
    if item is None or not isinstance(delta, str):
        return
    match kind:
        case "response.output_text.delta" | "response.reasoning_text.delta":
            _append(item, "content", "text", event.get("content_index", 0), delta)
        case "response.refusal.delta":
            _append(item, "content", "refusal", event.get("content_index", 0), delta)
        case "response.reasoning_summary_text.delta":
            _append(item, "summary", "text", event.get("summary_index", 0), delta)
        case "response.function_call_arguments.delta":
            item["arguments"] = (item.get("arguments") or "") + delta


def _append(item: dict[str, Any], parts: str, text: str, index: int, delta: str) -> None:
    held = item[parts] = list(item.get(parts) or ())
    while len(held) <= index:
        held.append({})
    held[index] = {**held[index], text: (held[index].get(text) or "") + delta}

"""Reading the copy of an answer of Gemini's generateContent, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from atp.protocol.trace import Usage
from monitor.instruments.openai_replies import AnnouncedCall, ChatReply, json_object, stream_events

_FINISH = {"MAX_TOKENS": "length", "SAFETY": "content_filter"}
"""`finishReason` -> the finish reason that chat completions have for it; others keep their name. `STOP` ends
replies with calls, too."""


def read_gemini_reply(content_type: str, content: bytes) -> ChatReply:
    """Read a copy.

    Args:
        content_type: Of the response.
        content: Its bytes, decoded. A stream may be cut short: its last, unfinished line is left out.

    Raises:
        ValueError: It is neither an answer nor a stream of its pieces.
    """
    streamed = content_type.startswith("text/event-stream")
    reply = ChatReply()
    finish: str | None = None
    for piece in stream_events(content) if streamed else [json_object(content)]:
        reply.response_id = piece.get("responseId") or reply.response_id
        reply.model = piece.get("modelVersion") or reply.model
        reply.usage = gemini_usage(piece.get("usageMetadata")) or reply.usage
        for candidate in piece.get("candidates") or ():
            if candidate.get("index", 0) == 0:
                finish = candidate.get("finishReason") or finish
                _read_parts((candidate.get("content") or {}).get("parts") or (), reply)
    if finish is not None:
        stopped = "tool_calls" if reply.calls else "stop"
        reply.finish_reason = stopped if finish == "STOP" else _FINISH.get(finish, finish)
    return reply


def gemini_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    """Usage as Gemini names it: there, the tokens of thoughts are not among those of the candidates."""
    if usage is None:
        return None
    said, thought = usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount")
    return Usage.model_construct(
        input_tokens=usage.get("promptTokenCount"),
        output_tokens=said if thought is None else (said or 0) + thought,
        cache_read_tokens=usage.get("cachedContentTokenCount"),
        cache_write_tokens=None,
        reasoning_tokens=thought,
    )


def _read_parts(parts: Iterable[Mapping[str, Any]], reply: ChatReply) -> None:
    for part in parts:
        call, text = part.get("functionCall"), part.get("text")
        if call is not None:
            # The object of arguments as text: how it was written, white space apart.
            arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
            reply.calls.append(AnnouncedCall(call.get("id") or "", call.get("name") or "", arguments))
        elif not isinstance(text, str) or not text:
            continue
        elif part.get("thought"):
            reply.reasoning = (reply.reasoning or "") + text
        else:
            reply.text = (reply.text or "") + text

"""Reading the copy of an answer of Gemini's generateContent, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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
    # Google's client reads the bytes as text, and takes others for what they are not.
    text = content.decode("utf-8", "replace").encode()
    for piece in _events(text) if streamed else [json_object(text)]:
        reply.response_id = piece.get("responseId") or reply.response_id
        reply.model = piece.get("modelVersion") or reply.model
        reply.usage = gemini_usage(piece.get("usageMetadata")) or reply.usage
        # Blocked, it is a reply without candidates.
        reply.begun = reply.begun or bool(piece.get("candidates") or piece.get("promptFeedback"))
        for candidate in piece.get("candidates") or ():
            if candidate.get("index", 0) == 0:
                finish = candidate.get("finishReason") or finish
                _read_parts((candidate.get("content") or {}).get("parts") or (), reply)
    reply.ended = finish is not None or not streamed
    if finish is not None:
        stopped = "tool_calls" if reply.calls else "stop"
        reply.finish_reason = stopped if finish == "STOP" else _FINISH.get(finish, finish)
    return reply


def _events(content: bytes) -> Iterator[Mapping[str, Any]]:
    """The objects of a stream, which has no mark of its own at its end: what else stands in it, Google's
    client cannot read."""
    *lines, _unfinished = content.replace(b"\r\n", b"\n").split(b"\n")
    for line in lines:
        if line and not line.startswith((b"data:", b":", b"event:", b"id:", b"retry:")):
            raise ValueError("a line of the stream belongs to no event")
    return stream_events(content)


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

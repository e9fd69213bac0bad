"""The instrument: a model span for each call of the loop."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from atp.protocol.spans import Actor, Recorder, SpanHandle, SpanKind
from monitor import vocabulary


class ThinLoopInstrument:
    """Turns the loop's model calls into spans."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: set[SpanHandle] = set()

    async def asked(self, request: Mapping[str, Any]) -> SpanHandle:
        """A model call begins."""
        await self._recorder.ready(before_call=True)
        span = self._recorder.start(
            SpanKind.MODEL,
            request["model"],
            attributes={
                vocabulary.MODEL_NAME: request["model"],
                vocabulary.ACTOR: Actor.AGENT,
                vocabulary.MODEL_STREAM: False,
            },
        )
        span.set_messages(vocabulary.INPUT_MESSAGES, [_message(message) for message in request["messages"]])
        if "tools" in request:
            span.set_messages(vocabulary.TOOL_DEFINITIONS, request["tools"])
        self._open.add(span)
        return span

    def tried(self, span: SpanHandle, failed: int) -> None:
        """The request goes out, after so many tries that failed."""
        span.set(vocabulary.RETRIES, failed)

    def refused(self, span: SpanHandle, status: int) -> None:
        """The endpoint answered with an error, and the request goes out again."""
        span.event(vocabulary.FAILED_TRY, {"http.status_code": status})

    def wrote(self, span: SpanHandle, names: Sequence[str]) -> None:
        """The model has answered, and the loop calls these tools because its text says so."""
        span.set(vocabulary.WRITTEN_CALL_NAMES, list(names))

    def answered(self, span: SpanHandle, reply: Mapping[str, Any]) -> None:
        """The model has answered; its tool calls are announced."""
        choice = reply["choices"][0]
        calls = choice["message"].get("tool_calls") or ()
        span.set(vocabulary.MODEL_ANSWERED, reply["model"])
        span.set(vocabulary.RESPONSE_ID, reply["id"])
        span.set(vocabulary.FINISH_REASON, choice["finish_reason"])
        for name, value in _usage(reply.get("usage") or {}).items():
            if value is not None:
                span.set(name, value)
        if calls:
            span.set(vocabulary.ANNOUNCED_CALL_IDS, [call["id"] for call in calls])
            span.set(vocabulary.ANNOUNCED_CALL_NAMES, [call["function"]["name"] for call in calls])
        span.set_messages(vocabulary.OUTPUT_MESSAGES, [_message(choice["message"])])
        for call in calls:
            self._recorder.announce(call["id"], span, call["function"]["arguments"])
        self._end(span, None)

    def failed(self, span: SpanHandle, error: BaseException, *, unreadable: bool) -> None:
        """The call has failed, perhaps on an answer that is no reply."""
        if unreadable:
            span.set(vocabulary.FAILED_REPLY, "unreadable")
        self._end(span, error)

    def close(self) -> None:
        """See `Instrument.close`."""
        for span in list(self._open):
            self._end(span, None)

    def _end(self, span: SpanHandle, error: BaseException | None) -> None:
        self._open.discard(span)
        span.end(error)


def _usage(usage: Mapping[str, Any]) -> dict[str, int | None]:
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return {
        vocabulary.USAGE_INPUT: usage.get("prompt_tokens"),
        vocabulary.USAGE_OUTPUT: usage.get("completion_tokens"),
        vocabulary.USAGE_CACHE_READ: prompt.get("cached_tokens"),
        vocabulary.USAGE_REASONING: completion.get("reasoning_tokens"),
    }


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        part = {
            "type": "tool_call_response",
            "id": message["tool_call_id"],
            "response": message["content"],
        }
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, Any]] = []
    if message.get("reasoning_content"):
        parts.append({"type": "reasoning", "content": message["reasoning_content"]})
    if message.get("content"):
        parts.append({"type": "text", "content": message["content"]})
    parts += [_call(call) for call in message.get("tool_calls") or ()]
    return {"role": message["role"], "parts": parts}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    text = call["function"]["arguments"]
    try:
        arguments = json.loads(text)
    except ValueError:  # the model's text as it is, where it is no JSON
        arguments = text
    return {"type": "tool_call", "id": call["id"], "name": call["function"]["name"], "arguments": arguments}

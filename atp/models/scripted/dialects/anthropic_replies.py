"""A reply in the Anthropic dialect: as a message, and as the events that stream it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from atp.models.scripted.dialects.bodies import details, object_arguments, pieces
from atp.models.scripted.dialects.dialect import Reply
from atp.models.scripted.dialects.events import named_event
from atp.models.scripted.steps import FinishReason, Step, StepCall
from atp.protocol.trace import Usage

_STOP: Mapping[FinishReason, str] = {
    FinishReason.STOP: "end_turn",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTENT_FILTER: "refusal",
}


def message_of(reply: Reply) -> dict[str, Any]:
    """The reply as it goes to a request that does not stream.

    Raises:
        Refusal: Arguments are no JSON object.
    """
    step = reply.step
    blocks: list[dict[str, Any]] = []
    if step.reasoning is not None:
        blocks.append(
            {"type": "thinking", "thinking": step.reasoning, "signature": signature(step.reasoning)}
        )
    if step.text is not None:
        blocks.append({"type": "text", "text": step.text})
    blocks += [{**_tool_use(call), "input": object_arguments(call, "anthropic")} for call in step.tool_calls]
    return {**_head(reply), "content": blocks, **_ending(step.finish), **_usage(reply.usage)}


def events(reply: Reply) -> Iterator[bytes]:
    """The events in the order of the API reference. Arguments go out as they are, JSON or not."""
    begun: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    yield named_event("message_start", {"message": {**_head(reply), **begun, **_usage_at_first(reply.usage)}})
    yield named_event("ping", {})
    for index, (opening, deltas) in enumerate(_streamed_blocks(reply.step)):
        yield named_event("content_block_start", {"index": index, "content_block": opening})
        for delta in deltas:
            yield named_event("content_block_delta", {"index": index, "delta": delta})
        yield named_event("content_block_stop", {"index": index})
    yield named_event("message_delta", {"delta": _ending(reply.step.finish), **_usage(reply.usage)})
    yield named_event("message_stop", {})


def signature(thinking: str) -> str:
    """What vouches for a thinking block: the same for the same text, and no part of it."""
    digest = hashlib.sha256(b"scripted thinking\0" + thinking.encode()).digest()
    return base64.b64encode(digest).decode()


def _streamed_blocks(step: Step) -> Iterator[tuple[dict[str, Any], list[dict[str, str]]]]:
    """Each block as it begins, and what is added to it piece by piece."""
    if step.reasoning is not None:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(step.reasoning)]
        signed = {"type": "signature_delta", "signature": signature(step.reasoning)}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if step.text is not None:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in pieces(step.text)],
        )
    for call in step.tool_calls:
        # The first piece of arguments is an empty one, as the reference shows it.
        parts = ("", *pieces(call.arguments))
        yield (
            {**_tool_use(call), "input": {}},
            [{"type": "input_json_delta", "partial_json": part} for part in parts],
        )


def _head(reply: Reply) -> dict[str, Any]:
    return {"id": reply.id, "type": "message", "role": "assistant", "model": reply.model}


def _tool_use(call: StepCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _ending(finish: FinishReason) -> dict[str, Any]:
    refused = finish is FinishReason.CONTENT_FILTER
    told = {"type": "refusal", "category": None, "explanation": None} if refused else None
    return {"stop_reason": _STOP[finish], "stop_sequence": None, "stop_details": told}


def _usage(usage: Usage) -> dict[str, Any]:
    """The field `usage`: cached tokens are not among those of the input here."""
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    counts = {
        "input_tokens": None if usage.input_tokens is None else usage.input_tokens - cached,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }
    thought = details("output_tokens_details", {"thinking_tokens": usage.reasoning_tokens})
    return details("usage", {**counts, **thought})


def _usage_at_first(usage: Usage) -> dict[str, Any]:
    """The field when a stream begins: counts are cumulative, and hardly anything has been said."""
    said = usage.output_tokens
    first = {"output_tokens": None if said is None else min(said, 1), "reasoning_tokens": None}
    return _usage(usage.model_copy(update=first))

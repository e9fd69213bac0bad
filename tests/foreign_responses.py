"""Bodies of OpenAI's responses API for the foreign endpoint: raw dictionaries, like `completion`'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.foreign_endpoint import ForeignReply


def response(
    response_id: str = "resp_foreign_1",
    *,
    text: str | None = None,
    reasoning: str | None = None,
    tool_calls: Sequence[tuple[str, str, str]] = (),
    usage: Mapping[str, Any] | None = None,
    model: str = "foreign-model",
    incomplete: str | None = None,
) -> dict[str, Any]:
    """A response as a dictionary.

    Args:
        response_id: The id of the reply.
        text: Of a message item.
        reasoning: The summary of a reasoning item.
        tool_calls: (call id, name, arguments as JSON text).
        usage: As it goes on the wire; null when None.
        model: The model that answered.
        incomplete: Why the reply is not whole; None when it is.
    """
    output: list[dict[str, Any]] = []
    if reasoning is not None:
        output.append(
            {
                "id": f"rs_{response_id}",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": reasoning}],
            }
        )
    if text is not None:
        output.append(
            {
                "id": f"msg_{response_id}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        )
    for call_id, name, arguments in tool_calls:
        output.append(
            {
                "id": f"fc_{call_id}",
                "type": "function_call",
                "call_id": call_id,
                "name": name,
                "arguments": arguments,
                "status": "completed",
            }
        )
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if incomplete else "completed",
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": dict(usage) if usage is not None else None,
    }


def response_events_of(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events that stream a `response`; the last holds it whole."""
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(reply["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "function_call":
            events.append({"type": "response.output_item.added", **at, "item": {**item, "arguments": ""}})
            events += [
                {"type": "response.function_call_arguments.delta", **at, "delta": piece}
                for piece in _pieces(item["arguments"])
            ]
        else:
            events += _text_events(item, at)
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": f"response.{reply['status']}", "response": dict(reply)})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def replying_response(reply: Mapping[str, Any]) -> ForeignReply:
    """A response, ready to be given streamed or not."""
    return ForeignReply(body=reply, events=response_events_of(reply))


def _text_events(item: Mapping[str, Any], at: Mapping[str, Any]) -> list[dict[str, Any]]:
    if item["type"] == "message":
        key, added, delta = "content", "response.content_part.added", "response.output_text.delta"
        where = {**at, "content_index": 0}
    else:
        key, added = "summary", "response.reasoning_summary_part.added"
        delta = "response.reasoning_summary_text.delta"
        where = {**at, "summary_index": 0}
    [part] = item[key]
    return [
        {"type": "response.output_item.added", **at, "item": {**item, key: []}},
        {"type": added, **where, "part": {**part, "text": ""}},
        *({"type": delta, **where, "delta": piece, "logprobs": []} for piece in _pieces(part["text"])),
    ]


def _pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]

"""A response of OpenAI's responses dialect as the events that stream it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from atp.models.scripted.dialects.bodies import pieces
from atp.models.scripted.dialects.events import named_event

_Event = tuple[str, dict[str, Any]]


def events(response: Mapping[str, Any]) -> Iterator[bytes]:
    """The events in the order of the API reference; the last carries the whole response.

    Args:
        response: The response as it is given to a request that does not stream.
    """
    begun = {**response, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    unnumbered: list[_Event] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for index, item in enumerate(response["output"]):
        unnumbered.extend(_item_events(item, index))
    unnumbered.append((f"response.{response['status']}", {"response": response}))
    for number, (kind, data) in enumerate(unnumbered):
        yield named_event(kind, {"sequence_number": number, **data})


def _item_events(item: dict[str, Any], index: int) -> Iterator[_Event]:
    at = {"output_index": index}
    within = {"item_id": item["id"], **at}
    match item["type"]:
        case "reasoning":
            yield "response.output_item.added", {**at, "item": {**item, "summary": []}}
            for number, part in enumerate(item["summary"]):
                yield from _part_events(
                    ("response.reasoning_summary_part", "response.reasoning_summary_text"),
                    part,
                    {**within, "summary_index": number},
                    {},
                )
        case "message":
            yield (
                "response.output_item.added",
                {**at, "item": {**item, "status": "in_progress", "content": []}},
            )
            for number, part in enumerate(item["content"]):
                yield from _part_events(
                    ("response.content_part", "response.output_text"),
                    part,
                    {**within, "content_index": number},
                    {"logprobs": []},
                )
        case _:
            opening = {**item, "status": "in_progress", "arguments": ""}
            yield "response.output_item.added", {**at, "item": opening}
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**within, "delta": piece}
            done = {**within, "name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", done
    yield "response.output_item.done", {**at, "item": item}


def _part_events(
    kinds: tuple[str, str], part: dict[str, Any], at: dict[str, Any], beside: dict[str, Any]
) -> Iterator[_Event]:
    part_kind, text_kind = kinds
    yield f"{part_kind}.added", {**at, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield f"{text_kind}.delta", {**at, "delta": piece, **beside}
    yield f"{text_kind}.done", {**at, "text": part["text"], **beside}
    yield f"{part_kind}.done", {**at, "part": part}

"""Where things stand in answers of the Anthropic dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atp.models.scripted.dialects.anatomy import SERVER_ERROR, later_first
from atp.models.scripted.dialects.events import event_data, named_event


class AnthropicAnatomy:
    """See `Anatomy`."""

    end_mark = True
    calls_in_pieces = True
    before_arguments = b'"input":{'

    def without_choices(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """See `Anatomy.without_choices`."""
        if data["type"] == "message":
            return {**data, "content": []}
        return None if data["type"].startswith("content_block_") else data

    def says_something(self, data: Mapping[str, Any]) -> bool:
        """See `Anatomy.says_something`."""
        delta = data.get("delta", {})
        return any(delta.get(name) for name in ("text", "thinking", "partial_json"))

    def halve_arguments(self, data: dict[str, Any]) -> bool:
        """See `Anatomy.halve_arguments`."""
        text = data.get("delta", {}).get("partial_json")
        if not text:
            return False
        data["delta"]["partial_json"] = text[: len(text) // 2]
        return True

    def taking_turns(self, chunks: Sequence[bytes]) -> Iterator[bytes]:
        """See `Anatomy.taking_turns`. Calls begin in their order: a block's place is its index."""
        events = [(chunk, event_data(chunk) or {}) for chunk in chunks]
        begun = {data["index"]: chunk for chunk, data in events if _begins_call(data)}
        by_call: dict[int, list[bytes]] = {index: [] for index in begun}
        for chunk, data in events:
            if data.get("index") in begun and not _begins_call(data):
                by_call[data["index"]].append(chunk)
        mixed = later_first(by_call)
        for chunk, data in events:
            if data.get("index") not in begun:
                yield chunk
            elif data["index"] == min(begun) and _begins_call(data):
                yield from begun.values()
                yield from mixed

    def error_event(self, number: int) -> bytes:
        """See `Anatomy.error_event`."""
        told = {"type": "api_error", "message": SERVER_ERROR["message"]}
        details = {"error_code": SERVER_ERROR["code"]}
        return named_event("error", {"error": {**told, "details": details}})


def _begins_call(data: Mapping[str, Any]) -> bool:
    return data["type"] == "content_block_start" and bool(data["content_block"]["type"] == "tool_use")

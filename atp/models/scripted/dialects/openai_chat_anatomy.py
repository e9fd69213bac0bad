"""Where things stand in answers of OpenAI's chat dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from atp.models.scripted.dialects.anatomy import SERVER_ERROR, later_first
from atp.models.scripted.dialects.events import event_data


class OpenAIChatAnatomy:
    """See `Anatomy`."""

    end_mark = True
    calls_in_pieces = True
    before_arguments = b'"arguments":"'

    def without_choices(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """See `Anatomy.without_choices`."""
        return {**data, "choices": []}

    def says_something(self, data: Mapping[str, Any]) -> bool:
        """See `Anatomy.says_something`."""
        deltas = [choice["delta"] for choice in data["choices"]]
        return any(delta.get("content") or delta.get("tool_calls") for delta in deltas)

    def halve_arguments(self, data: dict[str, Any]) -> bool:
        """See `Anatomy.halve_arguments`."""
        for call in _calls(data):
            text = call["function"]["arguments"]
            if text:
                call["function"]["arguments"] = text[: len(text) // 2]
                return True
        return False

    def taking_turns(self, chunks: Sequence[bytes]) -> Iterator[bytes]:
        """See `Anatomy.taking_turns`."""
        calls = [next((call["index"] for call in _calls(event_data(chunk) or {})), None) for chunk in chunks]
        by_call: dict[int, list[bytes]] = {}
        for chunk, call in zip(chunks, calls, strict=True):
            if call is not None:
                by_call.setdefault(call, []).append(chunk)
        mixed = later_first(by_call)
        for chunk, call in zip(chunks, calls, strict=True):
            yield chunk if call is None else next(mixed)

    def error_event(self, number: int) -> bytes:
        """See `Anatomy.error_event`."""
        return b"data: " + orjson.dumps({"error": {**SERVER_ERROR, "type": "server_error"}}) + b"\n\n"


def _calls(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for choice in data.get("choices", ()):
        yield from choice.get("delta", {}).get("tool_calls") or ()

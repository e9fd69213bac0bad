"""Where things stand in answers of OpenAI's responses dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atp.models.scripted.dialects.anatomy import SERVER_ERROR, later_first
from atp.models.scripted.dialects.events import event_data, named_event, with_data


class OpenAIResponsesAnatomy:
    """See `Anatomy`."""

    end_mark = True
    calls_in_pieces = True
    before_arguments = b'"arguments":"'

    def without_choices(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """See `Anatomy.without_choices`."""
        if "output" in data:
            return {**data, "output": []}
        if "response" in data:
            return {**data, "response": {**data["response"], "output": []}}
        return None

    def says_something(self, data: Mapping[str, Any]) -> bool:
        """See `Anatomy.says_something`."""
        return str(data["type"]).endswith(".delta")

    def halve_arguments(self, data: dict[str, Any]) -> bool:
        """See `Anatomy.halve_arguments`."""
        if data["type"] != "response.function_call_arguments.delta":
            return False
        data["delta"] = data["delta"][: len(data["delta"]) // 2]
        return True

    def taking_turns(self, chunks: Sequence[bytes]) -> Iterator[bytes]:
        """See `Anatomy.taking_turns`."""
        calls = [_call_of(event_data(chunk) or {}) for chunk in chunks]
        by_call: dict[int, list[bytes]] = {}
        for chunk, call in zip(chunks, calls, strict=True):
            if call is not None:
                by_call.setdefault(call, []).append(chunk)
        mixed = later_first(by_call)
        for number, (chunk, call) in enumerate(zip(chunks, calls, strict=True)):
            taken = chunk if call is None else next(mixed)
            yield with_data(taken, {**(event_data(taken) or {}), "sequence_number": number})

    def error_event(self, number: int) -> bytes:
        """See `Anatomy.error_event`."""
        return named_event("error", {"sequence_number": number, **SERVER_ERROR})


def _call_of(data: Mapping[str, Any]) -> int | None:
    item = data.get("item") or {}
    if item.get("type") == "function_call" or "function_call_arguments" in str(data.get("type")):
        return int(data["output_index"])
    return None

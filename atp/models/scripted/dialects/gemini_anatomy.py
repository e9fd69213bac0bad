"""Where things stand in answers of the Gemini dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from atp.models.scripted.dialects.anatomy import SERVER_ERROR, later_first


class GeminiAnatomy:
    """See `Anatomy`."""

    end_mark = False
    calls_in_pieces = False
    before_arguments = b'"args":{'

    def without_choices(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """See `Anatomy.without_choices`."""
        return {**data, "candidates": []}

    def says_something(self, data: Mapping[str, Any]) -> bool:
        """See `Anatomy.says_something`."""
        return any(candidate["content"].get("parts") for candidate in data["candidates"])

    def halve_arguments(self, data: dict[str, Any]) -> bool:
        """See `Anatomy.halve_arguments`."""
        return False

    def taking_turns(self, chunks: Sequence[bytes]) -> Iterable[bytes]:
        """See `Anatomy.taking_turns`. Calls come whole here, so there are none in pieces."""
        return later_first({})

    def error_event(self, number: int) -> bytes:
        """See `Anatomy.error_event`."""
        error = {"error": {**SERVER_ERROR, "code": 500, "status": "INTERNAL"}}
        return b"data: " + orjson.dumps(error) + b"\r\n\r\n"

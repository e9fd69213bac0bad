"""The text of a Gemini function response, which is an object where other APIs have a text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_TEXT_KEYS = ("result", "output", "error")
"""Where a response holds a text alone: `output` and `error` by Google's API reference, `result` as Google's
own SDKs write it."""


def response_text(response: Mapping[str, Any]) -> str:
    """What a function response says: a text that is all of it as it is, anything else as JSON."""
    if len(response) == 1:
        [(key, value)] = response.items()
        if key in _TEXT_KEYS and isinstance(value, str):
            return value
    return json.dumps(response, ensure_ascii=False)

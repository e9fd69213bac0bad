"""JSON as it is exchanged and kept: what was given comes back as it was.

pydantic's encoder rather than orjson: orjson writes NaN as `null` and refuses integers beyond 64
bits. Half of a surrogate pair, which has no UTF-8 form and which models write all the same, is an escape.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json, to_json


def encode(value: Any, exclude: set[str] | None = None) -> bytes:
    """Plain data, which may hold exchanged values (`Frozen`) as they are, in UTF-8 on one line.

    NaN and infinities are Python's and JavaScript's constants.

    Args:
        value: The value.
        exclude: Fields of an exchanged value to leave out.

    Raises:
        ValueError: It is not a JSON value.
    """
    try:
        return to_json(value, inf_nan_mode="constants", exclude=exclude)
    except PydanticSerializationError:
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json", exclude=exclude)
        # Escapes all that is not ASCII.
        return json.dumps(value, default=_dumped, separators=(",", ":")).encode()


def decode(text: str | bytes) -> Any:
    """The value `encode` was given: 2.0 is a float again and 2 an integer.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def _dumped(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise ValueError(f"{type(value).__name__} is not a JSON value")

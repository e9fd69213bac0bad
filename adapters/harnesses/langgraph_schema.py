"""What LangChain makes of a tool's schema on its way to the model.

`convert_to_openai_tool` of langchain-core 1.8.3: references are replaced by what they name, definitions,
titles and the outermost description dropped. Titles within arrays (`anyOf`, `prefixItems`) stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atp.protocol.base import JsonObject
from atp.protocol.schema_references import without_references

_DROPPED = frozenset({"$defs", "definitions", "description", "title"})


def wire_parameters(parameters: JsonObject) -> JsonObject:
    """The `parameters` of a tool as they stand on the wire.

    Raises:
        InvalidInput: A `$ref` that cannot be replaced by what it names.
    """
    outermost = {key: value for key, value in parameters.items() if key not in _DROPPED}
    return _without_titles(without_references(outermost, parameters), below="")


def _without_titles(schema: Mapping[str, Any], below: str) -> dict[str, Any]:
    return {
        key: _without_titles(value, key) if isinstance(value, Mapping) else value
        for key, value in schema.items()
        # A property may be called `title`.
        if key != "title" or (below == "properties" and isinstance(value, Mapping))
    }

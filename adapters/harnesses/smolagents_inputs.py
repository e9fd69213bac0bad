"""JSON Schema of a tool's arguments as the `inputs` of a smolagents tool.

smolagents puts only the properties on the wire, requires `type` and `description` of each, takes
those as required that are not `nullable`, and reduces an `anyOf` to the names of its types. What is
done here keeps the meaning of each property's schema through that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atp.protocol.base import JsonObject
from atp.protocol.schema_references import without_references

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_ANNOTATIONS = frozenset({"default", "deprecated", "description", "examples", "title"})
_OF_ANY_TYPE = frozenset({"allOf", "anyOf", "const", "if", "not", "oneOf"})
"""Keywords that say something about values of every type, null too."""


def tool_inputs(parameters: JsonObject) -> dict[str, dict[str, Any]]:
    """The properties of an arguments object, as smolagents wants them.

    Raises:
        InvalidInput: A `$ref` that cannot be replaced by what it names: recursive, remote, missing.
    """
    properties = parameters.get("properties") or {}
    required = parameters.get("required") or ()
    assert isinstance(properties, Mapping)
    assert isinstance(required, Sequence)
    return {
        name: _input(without_references(schema, parameters), name not in required)
        for name, schema in properties.items()
    }


def wire_parameters(parameters: JsonObject) -> dict[str, Any]:
    """The `parameters` of a tool as smolagents puts them on the wire (`get_tool_json_schema`).

    Raises:
        InvalidInput: See `tool_inputs`.
    """
    inputs = tool_inputs(parameters)
    required = [name for name, schema in inputs.items() if "nullable" not in schema]
    return {"type": "object", "properties": inputs, "required": required}


def _input(schema: Any, optional: bool) -> dict[str, Any]:
    form: dict[str, Any] = dict(schema) if isinstance(schema, Mapping) else _of_boolean(schema)
    form.pop("nullable", None)  # no keyword of JSON Schema, and smolagents reads it as optional
    members = form.pop("anyOf", None)
    if members is not None:
        form = _without_any_of(form, members)
    types = _types(form)
    if len(types) > 1 and "number" in types and "integer" not in types:
        types.append("integer")  # smolagents takes an integer for a number only where that stands alone
    form["type"] = types[0] if len(types) == 1 else types
    form.setdefault("description", "")
    if optional:
        form["nullable"] = True
    return form


def _of_boolean(schema: Any) -> dict[str, Any]:
    return {} if schema is True else {"not": {}}


def _without_any_of(form: dict[str, Any], members: Sequence[Any]) -> dict[str, Any]:
    others = [member for member in members if not _is_null(member)]
    if len(others) == 1 and len(members) > 1 and isinstance(others[0], Mapping):
        [other] = others
        alone = "type" in other and not (other.keys() & _OF_ANY_TYPE) and form.keys() <= _ANNOTATIONS
        if alone:
            merged = {**other, **form, "type": [*_types(other), "null"]}
            if "enum" in other:
                merged["enum"] = [*other["enum"], None]
            return merged
    # smolagents looks for `anyOf` at the top only; within `allOf` it means the same.
    types = [kind for kind in _TYPES if any(kind in _types(member) for member in members)]
    return {"type": types, **form, "allOf": [*form.get("allOf", ()), {"anyOf": list(members)}]}


def _is_null(schema: Any) -> bool:
    return (
        isinstance(schema, Mapping)
        and schema.get("type") == "null"
        and schema.keys() <= {"type", *_ANNOTATIONS}
    )


def _types(schema: Any) -> list[str]:
    """The JSON types that a schema allows by `type`; without it, all."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind is None:
        return list(_TYPES)
    return [kind] if isinstance(kind, str) else list(kind)

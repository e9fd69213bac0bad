"""JSON Schema of a tool's arguments as CrewAI can express it, and the way back.

CrewAI sends every tool as `strict`: all properties are required, objects are closed, and defaults are
gone; an object whose keys are not named has none there. What may be left out is therefore nullable here,
as in the schemas that CrewAI makes of optional fields, and a null written for it is taken as left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atp.protocol.base import JsonObject
from atp.protocol.errors import InvalidInput
from atp.protocol.schema_references import without_references

_DROPPED = frozenset(
    {
        *("title", "default", "examples", "example", "$comment", "readOnly", "writeOnly", "deprecated"),
        *("$defs", "definitions", "$schema", "$id"),
    }
)
"""Annotations that CrewAI strips, and what nothing refers to any more."""
_FORMATS = frozenset({"date-time", "date", "time", "duration"})
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MEMBERS = ("items", "not", "if", "then", "else", "contains")


def tool_schema(parameters: JsonObject) -> dict[str, Any]:
    """The schema of an arguments object, in the form that CrewAI has of its own tools.

    Raises:
        InvalidInput: What CrewAI cannot have: a `$ref` that cannot be replaced by what it names, an
            argument named `self`.
    """
    schema: dict[str, Any] = _strict(without_references(parameters, parameters))
    properties = schema.setdefault("properties", {})
    if "self" in properties:
        raise InvalidInput("an argument cannot be named 'self', since CrewAI gives them to a method by name")
    return {"type": "object", "required": [], "additionalProperties": False, **schema}


def wire_parameters(parameters: JsonObject) -> dict[str, Any]:
    """The `parameters` of a tool as they stand on the wire; `tool_schema` is a fixed point of what CrewAI
    does to schemas.

    Raises:
        InvalidInput: See `tool_schema`.
    """
    return tool_schema(parameters)


def without_nulls_for_absent(arguments: Mapping[str, Any], parameters: JsonObject) -> Mapping[str, Any]:
    """The arguments without those nulls that stand for what was left out: of properties that are optional
    and may not be null."""
    delivered = _delivered(arguments, [without_references(parameters, parameters)])
    assert isinstance(delivered, Mapping)
    return delivered


def _strict(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        # `true` and `false` have no strict form; a schema of no type is as near as there is.
        return {} if schema is True else {"not": {}}
    form: dict[str, Any] = {key: value for key, value in schema.items() if key not in _DROPPED}
    kinds = form.get("type")
    if isinstance(kinds, list) and "object" in kinds and len(kinds) > 1 and "anyOf" not in form:
        # CrewAI closes an object only where its type is that and nothing else.
        described = {key: form.pop(key) for key in ("description",) if key in form}
        others = {"type": [kind for kind in kinds if kind != "object"]}
        return {"anyOf": [_strict({**form, "type": "object"}), others], **described}
    if form.get("format") not in _FORMATS:
        form.pop("format", None)
    if "oneOf" in form and "anyOf" not in form:
        form["anyOf"] = form.pop("oneOf")
    for key in _LISTS:
        if isinstance(form.get(key), Sequence):
            form[key] = [_strict(member) for member in form[key]]
    for key in _MEMBERS:
        if isinstance(form.get(key), Mapping | bool):
            form[key] = _strict(form[key])
    if _is_object(form):
        _close(form)
    return form


def _close(form: dict[str, Any]) -> None:
    form["type"] = "object"
    properties = form.get("properties") or {}
    required = form.get("required") or ()
    form["properties"] = {name: _property(value, name in required) for name, value in properties.items()}
    form["required"] = list(properties)
    form["additionalProperties"] = False


def _property(schema: Any, required: bool) -> Any:
    form = _strict(schema)
    if required or _allows_null(schema):
        return form
    described = {key: form.pop(key) for key in ("description",) if key in form}
    if form.keys() == {"anyOf"}:
        return {"anyOf": [*form["anyOf"], {"type": "null"}], **described}
    return {"anyOf": [form, {"type": "null"}], **described}


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" or ("type" not in schema and "properties" in schema)


def _allows_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return schema is True
    kinds = schema.get("type", "null")
    return (
        (kinds == "null" or (not isinstance(kinds, str) and "null" in kinds))
        and None in schema.get("enum", (None,))
        and schema.get("const") is None
        and all(any(map(_allows_null, schema[key])) for key in ("anyOf", "oneOf") if key in schema)
        and all(map(_allows_null, schema.get("allOf", ())))
    )


def _delivered(value: Any, schemas: Sequence[Any]) -> Any:
    """The value, seen through schemas of which each may be the one that it was written for."""
    views = [view for schema in schemas for view in _views(schema)]
    if isinstance(value, Mapping):
        return {
            key: _delivered(item, [view["properties"][key] for view in views if key in _properties(view)])
            for key, item in value.items()
            if not (item is None and _stands_for_absent(key, views))
        }
    if isinstance(value, list):
        items = [view["items"] for view in views if "items" in view]
        return [_delivered(item, items) for item in value]
    return value


def _stands_for_absent(key: str, views: Sequence[Mapping[str, Any]]) -> bool:
    knowing = [view for view in views if key in _properties(view)]
    return bool(knowing) and not any(
        key in view.get("required", ()) or _allows_null(view["properties"][key]) for view in knowing
    )


def _properties(view: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = view.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _views(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for key in ("anyOf", "oneOf", "allOf"):
            for member in schema.get(key, ()):
                yield from _views(member)

"""Schemas without `$ref`, for SDKs that do not send definitions along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from atp.protocol.base import JsonObject
from atp.protocol.errors import InvalidInput


def without_references(schema: Any, root: JsonObject) -> Any:
    """The schema with every `$ref` replaced by what it names, and what stands beside it put over that.

    Args:
        schema: `root` or a part of it.
        root: Where references lead.

    Raises:
        InvalidInput: A reference that cannot be replaced: recursive, remote, missing.
    """
    return _resolved(schema, root, ())


def _resolved(schema: Any, root: JsonObject, within: tuple[str, ...]) -> Any:
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in within:
                raise InvalidInput(f"its schema refers to itself by {reference!r}")
            named = _resolved(_named(reference, root), root, (*within, reference))
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return {**named, **_resolved(beside, root, within)} if beside else named
        return {key: _resolved(value, root, within) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_resolved(item, root, within) for item in schema]
    return schema


def _named(reference: str, root: JsonObject) -> Any:
    if reference != "#" and not reference.startswith("#/"):
        raise InvalidInput(f"its schema refers to {reference!r}, which is not within it")
    target: Any = root
    for part in _path(reference):
        if not isinstance(target, Mapping) or part not in target:
            raise InvalidInput(f"its schema refers to {reference!r}, which does not exist")
        target = target[part]
    return target


def _path(reference: str) -> Iterator[str]:
    return (part.replace("~1", "/").replace("~0", "~") for part in reference.split("/")[1:])

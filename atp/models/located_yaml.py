"""YAML documents as checked types, their mistakes named with file, line and key."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from atp.protocol.errors import InvalidInput
from atp.protocol.names import nearest

ModelT = TypeVar("ModelT", bound=BaseModel)


def yaml_text(path: Path, kind: str) -> str:
    """The text of a file.

    Args:
        path: The file.
        kind: What its errors call it, `script` for example.

    Raises:
        InvalidInput: It cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{kind} {path}: cannot be read: {error}") from error


def validated(model: type[ModelT], text: str, source: str, needs: str) -> ModelT:
    """Read a document.

    Args:
        model: Its type.
        text: YAML. Only plain data is made of it (YAML 1.1, safe).
        source: What errors call it: kind and path.
        needs: What to do about an empty one.

    Raises:
        InvalidInput: It is no YAML or breaks the type; every mistake is on a line of its own.
    """
    node, value = _parsed(text, source, needs)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInput("\n".join(_problems(error, node, source, model))) from error


def _parsed(text: str, source: str, needs: str) -> tuple[yaml.Node, object]:
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise InvalidInput(f"{source}: is empty; {needs}")
        _refuse_repeated_keys(node, source)
        _refuse_half_characters(node, source)
        return node, loader.construct_document(node)
    # PyYAML lets ValueError through for dates and numbers that are none.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{source}: is not YAML: {error}") from error


def _refuse_repeated_keys(node: yaml.Node, source: str) -> None:
    # YAML 1.1 readers keep the last of two equal keys in silence; a step would be lost.
    for child in _nodes(node):
        if isinstance(child, yaml.MappingNode):
            seen: set[Hashable] = set()
            for key, _ in child.value:
                name = key.value if isinstance(key.value, str) else key.start_mark.index
                if name in seen:
                    raise InvalidInput(
                        f"{source}, line {key.start_mark.line + 1}: key {name!r} stands here twice"
                    )
                seen.add(name)


def _refuse_half_characters(node: yaml.Node, source: str) -> None:
    # YAML can escape them, UTF-8 and hence the wire cannot carry them.
    for child in _nodes(node):
        if isinstance(child, yaml.ScalarNode) and any("\ud800" <= c <= "\udfff" for c in child.value):
            raise InvalidInput(
                f"{source}, line {child.start_mark.line + 1}: half a surrogate pair is no character"
            )


def _nodes(node: yaml.Node) -> Iterator[yaml.Node]:
    stack, seen = [node], set[int]()
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        # An alias can make the graph a cycle.
        seen.add(id(current))
        yield current
        if isinstance(current, yaml.SequenceNode):
            stack.extend(current.value)
        elif isinstance(current, yaml.MappingNode):
            stack.extend(part for pair in current.value for part in pair)


def _problems(error: ValidationError, node: yaml.Node, source: str, model: type[BaseModel]) -> list[str]:
    found: list[tuple[int, str]] = []
    for problem in error.errors(include_url=False):
        line, where = _locate(node, problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            [*outer, key] = problem["loc"]
            names = [] if outer else [field.alias or name for name, field in model.model_fields.items()]
            message = f"no such key{nearest(str(key), names)}"
        found.append((line, f"{source}, line {line}: {where or 'document'}: {message}"))
    return [text for _, text in sorted(found, key=lambda each: each[0])]


def _locate(node: yaml.Node, loc: tuple[int | str, ...]) -> tuple[int, str]:
    """The line of the innermost node that a pydantic location reaches, and its path for people."""
    current, line, path = node, node.start_mark.line + 1, ""
    for part in loc:
        found = _child(current, part)
        if found is None:
            # A key that is missing, or pydantic's own name for a branch of a union.
            if isinstance(part, str) and part.isidentifier() and isinstance(current, yaml.MappingNode):
                path = f"{path}.{part}" if path else part
            break
        current, line = found
        path = f"{path}[{part + 1}]" if isinstance(part, int) else (f"{path}.{part}" if path else str(part))
    return line, path


def _child(node: yaml.Node, part: int | str) -> tuple[Any, int] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part].start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == part:
                return value, key.start_mark.line + 1
    return None

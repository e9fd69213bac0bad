"""Documents that people write in YAML, JSON being a part of it: validated, errors naming the line."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from atp.protocol.errors import InvalidInput

_Document = TypeVar("_Document", bound=BaseModel)


def read_document(path: Path, source: str, kind: type[_Document]) -> _Document:
    """Read a document from a file.

    Args:
        path: The file.
        source: What error messages call it.
        kind: What it holds.

    Raises:
        InvalidInput: The file cannot be read, is no YAML, or breaks the rules of `kind`; the message
            names source, line and key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{source}: cannot be read: {error}") from error
    return parse_document(text, source, kind)


def parse_document(text: str, source: str, kind: type[_Document]) -> _Document:
    """Read a document from its text; see `read_document`."""
    node, value = _parsed(text, source)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise InvalidInput("\n".join(_problems(error, node, source))) from error


def _parsed(text: str, source: str) -> tuple[yaml.Node, object]:
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise InvalidInput(f"{source}: is empty")
        _refuse_repeated_keys(node, source)
        _refuse_half_characters(node, source)
        return node, loader.construct_document(node)
    # PyYAML lets ValueError through for dates and numbers that are none.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{source}: is not YAML: {error}") from error


def _refuse_repeated_keys(node: yaml.Node, source: str) -> None:
    # YAML 1.1 readers keep the last of two equal keys in silence; what the first says would be lost.
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


def _problems(error: ValidationError, node: yaml.Node, source: str) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        line, where = _locate(node, problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "no such key"
        yield f"{source}, line {line}: {where or 'document'}: {message}"


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

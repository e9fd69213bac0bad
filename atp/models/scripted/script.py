"""The script of a `scripted/file:PATH` model: YAML, validated, with errors that name the line.

`docs/scripted-models.md` documents the format.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, Field, JsonValue, ValidationError, model_validator

from atp.models.scripted.steps import FinishReason, wire_arguments
from atp.protocol.base import Frozen
from atp.protocol.errors import InvalidInput

MOST_TOKENS = 2**53
"""The largest integer that every JSON reader takes exactly (RFC 8259, section 6)."""


class ScriptUsage(Frozen):
    """Tokens of one reply as the script states them. What it leaves out is not on the wire."""

    input_tokens: int = Field(ge=0, le=MOST_TOKENS)
    """Cached ones included."""
    output_tokens: int = Field(ge=0, le=MOST_TOKENS)
    """Reasoning included."""
    cache_read_tokens: int | None = Field(default=None, ge=0)
    cache_write_tokens: int | None = Field(default=None, ge=0)
    reasoning_tokens: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if (self.cache_read_tokens or 0) + (self.cache_write_tokens or 0) > self.input_tokens:
            raise ValueError("input_tokens include the cached ones, so they cannot be fewer")
        if (self.reasoning_tokens or 0) > self.output_tokens:
            raise ValueError("output_tokens include those of reasoning, so they cannot be fewer")
        return self


class ScriptCall(Frozen):
    """A tool call of a step."""

    name: str = Field(min_length=1)
    arguments: dict[str, JsonValue] | None = None
    """The arguments object; left out it is empty."""
    arguments_text: str | None = None
    """The arguments exactly as they go on the wire, in place of `arguments`: malformed JSON, say."""
    id: str | None = Field(default=None, min_length=1)
    """The call's id; left out the endpoint gives one."""

    @model_validator(mode="after")
    def _one_form_of_arguments(self) -> Self:
        if self.arguments is not None and self.arguments_text is not None:
            raise ValueError("arguments and arguments_text exclude each other")
        if self.arguments is not None:
            try:
                wire_arguments(self.arguments)
            except ValueError as error:
                raise ValueError("arguments hold a number that JSON cannot express") from error
        return self


class ScriptStep(Frozen):
    """One reply: text, reasoning, tool calls, or any of them together."""

    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ScriptCall, ...] = ()
    """Announced in parallel, in this order."""
    usage: ScriptUsage | None = None
    """Left out the endpoint counts simulated tokens."""
    finish_reason: FinishReason | None = None
    """Left out it follows from the reply."""
    failed_tries: tuple[Annotated[int, Field(ge=400, le=599)], ...] = ()
    """HTTP statuses: the first tries of the request get these in turn, and only the next one the reply."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.text is None and self.reasoning is None and not self.tool_calls:
            raise ValueError('a step says something: give text (may be ""), reasoning or tool_calls')
        ids = [call.id for call in self.tool_calls if call.id is not None]
        if len(ids) != len(set(ids)):
            raise ValueError("two tool calls of one step have the same id")
        return self


def _at_least_one(steps: tuple[ScriptStep, ...]) -> tuple[ScriptStep, ...]:
    # Not `min_length`: it would also complain where the only step is the mistake.
    if not steps:
        raise ValueError("no step; give at least one")
    return steps


Steps = Annotated[tuple[ScriptStep, ...], AfterValidator(_at_least_one)]


class TaskSteps(Frozen):
    """The steps for some tasks."""

    match: str = Field(min_length=1)
    """A shell pattern (`*`, `?`, `[...]`) on the task's id, case-sensitive."""
    steps: Steps


class Script(Frozen):
    """What a scripted model says, request by request."""

    steps: Steps | None = None
    """For every task that no pattern matches."""
    tasks: tuple[TaskSteps, ...] = ()
    """For the tasks whose id matches; the first match counts."""

    @model_validator(mode="after")
    def _has_steps(self) -> Self:
        if self.steps is None and not self.tasks:
            raise ValueError("a script has steps, or tasks with steps")
        return self

    def steps_for(self, task_id: str) -> tuple[ScriptStep, ...]:
        """The steps of one task.

        Raises:
            InvalidInput: No pattern matches and there are no steps for the rest.
        """
        for task in self.tasks:
            if fnmatchcase(task_id, task.match):
                return task.steps
        if self.steps is None:
            raise InvalidInput(
                f"the script has no steps for task {task_id!r}: its patterns are "
                f"{', '.join(repr(task.match) for task in self.tasks)}; add one, or steps for the rest"
            )
        return self.steps

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a script from a file.

        Raises:
            InvalidInput: The file cannot be read, is no YAML, or breaks the format; the message
                names the file, the line and the key.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"script {path}: cannot be read: {error}") from error
        return cls.from_yaml(text, str(path))

    @classmethod
    def from_yaml(cls, text: str, source: str) -> Self:
        """Read a script from YAML.

        Args:
            text: The YAML document.
            source: What error messages call it.

        Raises:
            InvalidInput: See `load`.
        """
        node, value = _parsed(text, source)
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise InvalidInput("\n".join(_problems(error, node, source))) from error


def _parsed(text: str, source: str) -> tuple[yaml.Node, object]:
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise InvalidInput(f"script {source}: is empty; give it steps")
        _refuse_repeated_keys(node, source)
        _refuse_half_characters(node, source)
        return node, loader.construct_document(node)
    # PyYAML lets ValueError through for dates and numbers that are none.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"script {source}: is not YAML: {error}") from error


def _refuse_repeated_keys(node: yaml.Node, source: str) -> None:
    # YAML 1.1 readers keep the last of two equal keys in silence; a step would be lost.
    for child in _nodes(node):
        if isinstance(child, yaml.MappingNode):
            seen: set[Hashable] = set()
            for key, _ in child.value:
                name = key.value if isinstance(key.value, str) else key.start_mark.index
                if name in seen:
                    raise InvalidInput(
                        f"script {source}, line {key.start_mark.line + 1}: key {name!r} stands here twice"
                    )
                seen.add(name)


def _refuse_half_characters(node: yaml.Node, source: str) -> None:
    # YAML can escape them, UTF-8 and hence the wire cannot carry them.
    for child in _nodes(node):
        if isinstance(child, yaml.ScalarNode) and any("\ud800" <= c <= "\udfff" for c in child.value):
            raise InvalidInput(
                f"script {source}, line {child.start_mark.line + 1}: half a surrogate pair is no character"
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
        yield f"script {source}, line {line}: {where or 'document'}: {message}"


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

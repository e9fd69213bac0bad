"""The script of a `scripted/file:PATH` model: YAML, validated, with errors that name the line.

`docs/scripted-models.md` documents the format.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from atp.models.documents import parse_document, read_document
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
        return read_document(path, f"script {path}", cls)

    @classmethod
    def from_yaml(cls, text: str, source: str) -> Self:
        """Read a script from YAML.

        Args:
            text: The YAML document.
            source: What error messages call it.

        Raises:
            InvalidInput: See `load`.
        """
        return parse_document(text, f"script {source}", cls)

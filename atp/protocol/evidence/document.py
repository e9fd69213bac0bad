"""The types of a `target-evidence-v1` document, as `GET /v1/evidence/{run_id}` of a target gives it.

They hold what a schema can say; `atp.protocol.evidence.checks` adds what ties the parts together. What a
document does not observe it does not say: a target that did not watch its tools has no document at all.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from atp.protocol.base import Frozen, JsonObject, RunId
from atp.protocol.evidence.moments import nanoseconds

SCHEMA_VERSION = "target-evidence-v1"
MOST_EVENTS = 5000
MOST_BYTES = 4 << 20
"""Of a whole document."""
LONGEST_TEXT = 32_768
"""Characters of a message's text."""
DEEPEST = 64
"""Levels of arrays and objects in a document, its own object being the first."""

Channel: TypeAlias = Literal["messages", "tools", "files"]
REQUIRED_CHANNELS: tuple[Channel, ...] = ("messages", "tools")
"""Without these there is no L2 document."""

CaseId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^case-[a-z0-9][a-z0-9-]*$", max_length=200)]
"""The identity of a task for a target (`target-invocation-v1` gives the pattern)."""


def event_id(run_id: str, sequence: int) -> str:
    """What the event at this place of a run's document is called."""
    return f"{run_id}:event:{sequence}"


def _time(text: str) -> str:
    try:
        nanoseconds(text)
    except ValueError as error:
        raise PydanticCustomError("time", "is no time of RFC 3339: {why}", {"why": str(error)}) from error
    return text


Timestamp: TypeAlias = Annotated[str, AfterValidator(_time), Field(json_schema_extra={"format": "date-time"})]
_Name256: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_Name128: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=128)]
_Status: TypeAlias = Annotated[str, StringConstraints(max_length=128)]


class _Exact(Frozen):
    """JSON types are taken as they are: 1.0 and true are no integers, 0 is no boolean."""

    model_config = ConfigDict(strict=True)


class Message(_Exact):
    """Something was said."""

    role: Literal["system", "user", "assistant", "tool"]
    text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT)]
    attributes: JsonObject


class MessageDelta(_Exact):
    """A piece of something being said."""

    role: Literal["assistant", "tool"]
    delta: str
    attributes: JsonObject


class ToolCall(_Exact):
    """A tool was asked for. Without a result the call came to no known end."""

    call_id: _Name256
    """Unique in the document."""
    name: _Name256
    arguments: JsonObject
    attributes: JsonObject


class ToolResult(_Exact):
    """What an earlier call gave; at most one for each call, of the same name."""

    call_id: _Name256
    name: _Name256
    result: JsonValue
    is_error: bool
    status: _Status | None = None
    error: JsonValue = None
    attributes: JsonObject


class CommandResult(_Exact):
    """A command ended."""

    command: str
    exit_code: int
    output: str
    status: _Status | None = None
    attributes: JsonObject


class FileChange(_Exact):
    """A file was changed."""

    path: str
    diff: str | None = None
    changes: Annotated[tuple[JsonValue, ...], Field(strict=False)] | None = None
    status: _Status | None = None
    attributes: JsonObject

    @model_validator(mode="after")
    def _says_what(self) -> FileChange:
        if self.diff is None and self.changes is None:
            raise PydanticCustomError("file_change", "has neither diff nor changes")
        return self


class RunError(_Exact):
    """The run failed."""

    message: str
    attributes: JsonObject


class Lifecycle(_Exact):
    """A nested agent or skill began or ended, or evidence was lost."""

    name: _Name128
    status: _Status | None = None
    attributes: JsonObject


class _Event(_Exact):
    event_id: Annotated[str, StringConstraints(min_length=1, max_length=192)]
    """`event_id()` of run and sequence."""
    sequence: Annotated[int, Field(ge=0)]
    """Its index among the events."""
    occurred_at: Timestamp
    source: Annotated[str, StringConstraints(min_length=1, max_length=160)]
    """What observed it."""


class MessageEvent(_Event):
    """A `Message`."""

    type: Literal["message"]
    data: Message


class MessageDeltaEvent(_Event):
    """A `MessageDelta`."""

    type: Literal["message.delta"]
    data: MessageDelta


class ToolCallEvent(_Event):
    """A `ToolCall`."""

    type: Literal["tool.call"]
    data: ToolCall


class ToolResultEvent(_Event):
    """A `ToolResult`."""

    type: Literal["tool.result"]
    data: ToolResult


class CommandResultEvent(_Event):
    """A `CommandResult`."""

    type: Literal["command.result"]
    data: CommandResult


class FileChangeEvent(_Event):
    """A `FileChange`."""

    type: Literal["file.change"]
    data: FileChange


class RunErrorEvent(_Event):
    """A `RunError`."""

    type: Literal["run.error"]
    data: RunError


class LifecycleEvent(_Event):
    """A `Lifecycle`."""

    type: Literal["lifecycle"]
    data: Lifecycle


Event: TypeAlias = Annotated[
    MessageEvent
    | MessageDeltaEvent
    | ToolCallEvent
    | ToolResultEvent
    | CommandResultEvent
    | FileChangeEvent
    | RunErrorEvent
    | LifecycleEvent,
    Field(discriminator="type"),
]

CHANNEL_OF: dict[str, Channel] = {
    "message": "messages",
    "message.delta": "messages",
    "tool.call": "tools",
    "tool.result": "tools",
    "command.result": "files",
    "file.change": "files",
    "run.error": "messages",
    "lifecycle": "messages",
}
"""Type of an event -> the channel it is seen through."""


def _some(events: tuple[Event, ...]) -> tuple[Event, ...]:
    # Not `min_length`, which also counts those that are no events and says so beside what is wrong with them.
    if not events:
        raise PydanticCustomError("too_short", "has no event")
    return events


class TargetEvidence(_Exact):
    """The document of one run."""

    model_config = ConfigDict(title="TargetEvidence")

    schema_version: Literal["target-evidence-v1"]
    run_id: RunId
    case_id: CaseId
    assurance_level: Literal["L2"]
    """L2 in an L3 run too: what a target says of itself is never more."""
    observed_channels: Annotated[tuple[Channel, ...], Field(strict=False)]
    """Without repetition; `REQUIRED_CHANNELS` among them. One without events was watched, and silent."""
    started_at: Timestamp
    finished_at: Timestamp
    events: Annotated[
        tuple[Event, ...],
        Field(strict=False, max_length=MOST_EVENTS, json_schema_extra={"minItems": 1}),
        AfterValidator(_some),
    ]

"""What a scripted model says, and what it is asked, in no provider's words.

A `Step` is one reply before any dialect renders it; a `RequestView` is one request after its
dialect has been read. Policies and idioms know only these two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import JsonValue

from atp.models.scripted.faults import Fault
from atp.protocol.base import JsonObject
from atp.protocol.trace import Usage


class FinishReason(StrEnum):
    """Why a reply ends."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class StepCall:
    """A tool call that a reply announces."""

    id: str
    name: str
    arguments: str
    """The arguments as they go on the wire: JSON text, unless a script wants it malformed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of a model."""

    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[StepCall, ...] = ()
    """Parallel calls, in order."""
    usage: Usage | None = None
    """Tokens as the script states them; None lets the endpoint count simulated ones."""
    finish_reason: FinishReason | None = None
    """None follows from the reply: `tool_calls` with calls, else `stop`."""
    position: int = 0
    """Where the step stands in its script; the tries of one position are counted together."""
    faults: tuple[Fault, ...] = ()
    """What goes wrong with it on its first tries."""

    @property
    def finish(self) -> FinishReason:
        """The finish reason that goes out."""
        if self.finish_reason is not None:
            return self.finish_reason
        return FinishReason.TOOL_CALLS if self.tool_calls else FinishReason.STOP


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: Role
    text: str = ""
    """Its text parts, joined."""
    tool_calls: tuple[StepCall, ...] = ()
    """What an assistant message announced."""
    tool_call_id: str | None = None
    """Which call a tool message answers."""


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool as the request offers it."""

    name: str
    description: str = ""
    parameters: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request to a model."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolOffer, ...] = ()
    """Empty too where the request forbids calling any."""
    stream: bool = False
    stream_usage: bool = False
    """Whether a streamed reply has to end with its usage."""


class Refusal(Exception):
    """A request that gets an error instead of a reply.

    Args:
        status: The HTTP status.
        code: Machine-readable, goes into the error body.
        message: What is wrong, for the person who reads the harness's error.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def wire_arguments(value: JsonValue | JsonObject) -> str:
    """Arguments as JSON text, the way models write them: no superfluous white space.

    Raises:
        ValueError: A number that JSON cannot express.
    """
    return _ENCODER.encode(value)


def counted_usage(step: Step, view: RequestView) -> Usage:
    """Simulated tokens for a step that states none.

    A token is a quarter of the characters of texts, tool calls and tool definitions, rounded up
    and at least one; images and files count nothing. The number depends on what is said alone, so
    a retry, streamed or not, counts the same.
    """
    asked = sum(_message_size(message) for message in view.messages) + sum(
        len(tool.name) + len(tool.description) + len(wire_arguments(tool.parameters)) for tool in view.tools
    )
    reasoning = _tokens(len(step.reasoning)) if step.reasoning else 0
    said = len(step.text or "") + _calls_size(step.tool_calls)
    return Usage(
        input_tokens=max(_tokens(asked), 1),
        output_tokens=max(_tokens(said), 1) + reasoning,
        cache_read_tokens=0,
        reasoning_tokens=reasoning,
    )


def _tokens(characters: int) -> int:
    return -(-characters // 4)


def _message_size(message: Message) -> int:
    return len(message.text) + _calls_size(message.tool_calls)


def _calls_size(calls: tuple[StepCall, ...]) -> int:
    return sum(len(call.name) + len(call.arguments) for call in calls)

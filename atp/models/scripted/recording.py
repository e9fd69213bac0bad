"""A stored run as a scripted model repeats it: what the model was asked, and what it replied.

Messages and lists of tools are kept once and named by their position, so that a conversation of
many turns takes as much room as its last request.
"""

from __future__ import annotations

import json

from pydantic import Field

from atp.models.scripted.steps import FinishReason, Message, Role, Step, StepCall, ToolOffer
from atp.protocol.base import Frozen, JsonObject
from atp.protocol.trace import Usage


class RecordedCall(Frozen):
    """A tool call of a reply."""

    id: str
    name: str
    arguments: str
    """In a reply as the model wrote them; in a request as `comparable_arguments` gives them."""

    @property
    def step_call(self) -> StepCall:
        """The same as a step has it."""
        return StepCall(self.id, self.name, self.arguments)


class RecordedMessage(Frozen):
    """A message of a request."""

    role: Role
    text: str = ""
    tool_calls: tuple[RecordedCall, ...] = ()
    tool_call_id: str | None = None


class RecordedTool(Frozen):
    """A tool that a request offered."""

    name: str
    description: str = ""
    parameters: JsonObject = Field(default_factory=dict)


class RecordedTurn(Frozen):
    """One request and its reply."""

    messages: tuple[int, ...]
    """Positions in `Recording.messages`."""
    tools: int
    """Position in `Recording.tools`."""
    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[RecordedCall, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage = Usage()
    """What the provider said; what it did not say is not on the wire."""

    @property
    def step(self) -> Step:
        """The reply."""
        return Step(
            text=self.text,
            reasoning=self.reasoning,
            tool_calls=tuple(call.step_call for call in self.tool_calls),
            usage=self.usage,
            finish_reason=self.finish_reason,
        )


class Recording(Frozen):
    """All turns of a run whose model call was answered, in their order."""

    run_id: str
    messages: tuple[RecordedMessage, ...]
    tools: tuple[tuple[RecordedTool, ...], ...]
    turns: tuple[RecordedTurn, ...] = Field(min_length=1)


def comparable(message: Message | RecordedMessage) -> Message:
    """A message as messages are compared: how arguments are written makes no difference."""
    return Message(
        role=message.role,
        text=message.text,
        tool_calls=tuple(
            StepCall(call.id, call.name, comparable_arguments(call.arguments)) for call in message.tool_calls
        ),
        tool_call_id=message.tool_call_id,
    )


def comparable_arguments(text: str) -> str:
    """The same text for all ways to write one object; any other text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(value, sort_keys=True, ensure_ascii=False) if isinstance(value, dict) else text


def comparable_tool(tool: ToolOffer | RecordedTool) -> ToolOffer:
    """An offered tool as tools are compared."""
    return ToolOffer(tool.name, tool.description, dict(tool.parameters))

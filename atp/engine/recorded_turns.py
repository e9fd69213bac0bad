"""The model calls of a stored run as a scripted model can repeat them: from spans to a recording."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from atp.models.scripted.recording import (
    RecordedCall,
    RecordedMessage,
    RecordedTool,
    RecordedTurn,
    Recording,
    comparable_arguments,
)
from atp.models.scripted.steps import FinishReason, Role, wire_arguments
from atp.protocol.errors import InvalidInput
from atp.protocol.spans import Actor, Span, SpanKind, SpanStatus
from monitor import vocabulary as v
from monitor.records import model_calls

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def recording(run_id: str, spans: Sequence[Span], bodies: Mapping[str, Any]) -> Recording:
    """The agent's model calls of a run that were answered.

    Args:
        run_id: The run.
        spans: All of its spans, in the order of their starts.
        bodies: All that they name, resolved.

    Raises:
        InvalidInput: There is none, or one that no scripted model can repeat.
    """
    answered = [
        span
        for span in spans
        if span.kind is SpanKind.MODEL
        and span.status is SpanStatus.OK
        and span.attributes.get(v.ACTOR, Actor.AGENT) == Actor.AGENT
    ]
    if not answered:
        raise InvalidInput(f"run {run_id} cannot be replayed: no model call of it was answered")
    messages, tools = _Once(), _Once()
    turns: list[RecordedTurn] = []
    for number, span in enumerate(answered, 1):
        try:
            turns.append(_turn(span, bodies, messages, tools))
        except (LookupError, TypeError, ValueError) as error:
            raise InvalidInput(f"run {run_id} cannot be replayed: turn {number}: {error}") from error
    return Recording(
        run_id=run_id, messages=tuple(messages.values), tools=tuple(tools.values), turns=tuple(turns)
    )


class _Once:
    """Values in order, each kept once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._positions: dict[Hashable, int] = {}

    def position(self, value: Any) -> int:
        text = value.model_dump_json() if isinstance(value, RecordedMessage) else repr(value)
        if text not in self._positions:
            self._positions[text] = len(self.values)
            self.values.append(value)
        return self._positions[text]


def _turn(span: Span, bodies: Mapping[str, Any], messages: _Once, tools: _Once) -> RecordedTurn:
    asked = bodies[_named(span, v.INPUT_MESSAGES)]
    offered = bodies[span.bodies[v.TOOL_DEFINITIONS]] if v.TOOL_DEFINITIONS in span.bodies else []
    said = bodies[span.bodies[v.OUTPUT_MESSAGES]] if v.OUTPUT_MESSAGES in span.bodies else []
    parts = [part for message in said for part in message["parts"]]
    written = bodies[span.bodies[v.TOOL_CALL_TEXTS]] if v.TOOL_CALL_TEXTS in span.bodies else {}
    texts = [part["content"] for part in parts if part["type"] == "text"]
    reasoning = [part["content"] for part in parts if part["type"] == "reasoning"]
    calls = [part for part in parts if part["type"] == "tool_call"]
    others = {part["type"] for part in parts} - {"text", "reasoning", "tool_call"}
    if others:
        raise ValueError(f"its reply holds parts of type {', '.join(sorted(others))}")
    finish = span.attributes.get(v.FINISH_REASON)
    [call] = model_calls([span])
    return RecordedTurn(
        messages=tuple(messages.position(_message(message)) for message in asked),
        tools=tools.position(tuple(_tool(definition) for definition in offered)),
        text="".join(texts) if texts or not (reasoning or calls) else None,
        reasoning="\n\n".join(reasoning) if reasoning else None,
        tool_calls=tuple(_replied_call(part, calls, written) for part in calls),
        finish_reason=None if finish is None else FinishReason(str(finish)),
        usage=call.usage,
    )


def _named(span: Span, body: str) -> str:
    if body not in span.bodies:
        raise LookupError(f"its span has no {body}")
    return span.bodies[body]


def _message(message: Mapping[str, Any]) -> RecordedMessage:
    """A message of a request in the form in which the endpoint reads those that come."""
    parts: Sequence[Mapping[str, Any]] = message["parts"]
    responses = [part for part in parts if part["type"] == "tool_call_response"]
    if responses:
        [response] = responses
        return RecordedMessage(role="tool", text=_text(response["response"]), tool_call_id=response["id"])
    role = message["role"]
    if role not in _ROLES:
        raise ValueError(f"a message of its request has the role {role!r}")
    return RecordedMessage(
        role=_ROLES[role],
        text=_text(parts),
        tool_calls=tuple(
            RecordedCall(
                id=part["id"] or "",
                name=part["name"],
                arguments=comparable_arguments(_argument_text(part["arguments"])),
            )
            for part in parts
            if part["type"] == "tool_call"
        ),
    )


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["content"] for part in content if part["type"] == "text")


def _replied_call(
    part: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], written: Mapping[str, str]
) -> RecordedCall:
    # Calls that share an id share their place among the texts, too.
    alone = sum(call["id"] == part["id"] for call in calls) == 1
    text = written.get(part["id"]) if alone else None
    return RecordedCall(
        id=part["id"] or "",
        name=part["name"],
        arguments=_argument_text(part["arguments"]) if text is None else text,
    )


def _argument_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else wire_arguments(arguments)


def _tool(definition: Mapping[str, Any]) -> RecordedTool:
    """A definition as chat completions nest it, or as the responses API has it."""
    function = definition.get("function", definition)
    return RecordedTool(
        name=function["name"],
        description=function.get("description") or "",
        parameters=function.get("parameters") or {},
    )

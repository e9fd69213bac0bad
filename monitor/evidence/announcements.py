"""Which reply of a model asked for which tool call, and which of its calls never ran."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

from atp.protocol.spans import Actor, Span, SpanKind
from atp.protocol.trace import CallIdSource
from monitor import vocabulary as v
from monitor.evidence.messages import messages, parts_of
from monitor.evidence.tree import SpanTree, actor, span_key

_Execution: TypeAlias = tuple[tuple[int, str], Span]
"""(place of the model call that asked, or of the tool itself; the tool)"""


@dataclass(slots=True, eq=False)
class Announcement:
    """A tool call that a reply asks for."""

    model: Span
    index: int
    """Which call of the reply, from 0."""
    call_id: str
    """The model's; may be empty."""
    name: str
    arguments: Any
    """As the reply has them; None where it was not kept."""
    rejected: bool
    """Whether the harness answered it itself, without the tool: refused it, or it is a handoff."""
    executed: bool = False


class Announcements:
    """The calls that the agent's replies ask for, against the tools that ran.

    Args:
        tree: The run.
        bodies: Digest -> JSON value, of what the spans name.
    """

    def __init__(self, tree: SpanTree, bodies: Mapping[str, Any]) -> None:
        self.models = [span for span in tree.spans if span.kind is SpanKind.MODEL]
        """Of the agent and of its simulated user."""
        self.tools = [span for span in tree.spans if span.kind is SpanKind.TOOL]
        self._tree = tree
        self.all: list[Announcement] = []
        self._by_id: defaultdict[str, list[Announcement]] = defaultdict(list)
        self._by_name: defaultdict[str, list[Announcement]] = defaultdict(list)
        self._by_reply: defaultdict[tuple[str, str], list[Announcement]] = defaultdict(list)
        for model in self.models:
            if actor(model) is Actor.AGENT:
                for announcement in _announced(model, bodies):
                    self.all.append(announcement)
                    self._by_id[announcement.call_id].append(announcement)
                    self._by_name[announcement.name].append(announcement)
                    self._by_reply[model.span_id, announcement.call_id].append(announcement)
        self._asked: dict[str, Span] = {}
        self._ids: dict[str, str] = {}
        """Tool -> the model's id of its call, handed on or not."""
        nameless = [tool for tool in self.tools if not self._match_by_id(tool)]
        for tool in nameless:
            self._match_by_name(tool)
        self._executions = self._in_order_of_asking()

    def asked_by(self, tool: Span) -> Span | None:
        """The model call that asked for a tool; None where that is not known."""
        return self._asked.get(tool.span_id)

    def read_by(self, model: Span, bodies: Mapping[str, Any]) -> Iterator[Span]:
        """The tools whose results a model call was the first to read: those behind the last reply that its
        request holds. Where an id was used before, the newest call of that id is meant."""
        for call_id in _responses(messages(model, v.INPUT_MESSAGES, bodies)):
            executions = self._executions.get(call_id, ())
            end = bisect_left(executions, span_key(model), key=_asked_at)
            if end:
                first = bisect_left(executions, _asked_at(executions[end - 1]), key=_asked_at)
                yield from (tool for _, tool in executions[first:end])

    def never_ran(self) -> Iterator[Announcement]:
        """Calls that no tool span answers to: unknown tools, refused or cancelled ones, the harness's."""
        return (announcement for announcement in self.all if not announcement.executed)

    def _match_by_id(self, tool: Span) -> bool:
        """Find who asked for a call; false where the harness did not hand its id on."""
        parent = self._tree.parent(tool)
        if parent is not None and parent.kind is SpanKind.MODEL:
            self._asked[tool.span_id] = parent
        call_id = provider_call_id(tool)
        if call_id is None:
            return False
        self._ids[tool.span_id] = call_id
        own = self._by_reply.get((parent.span_id, call_id), ()) if parent is not None else ()
        chosen = next((each for each in own if not each.executed), None)
        if chosen is None and not own:
            chosen = _latest(self._by_id.get(call_id, ()), tool)
        if chosen is not None:
            chosen.executed = True
            self._asked[tool.span_id] = chosen.model
        return True

    def _match_by_name(self, tool: Span) -> None:
        """What no id tells, the tool's name does: the last reply before that asks for it and got no other."""
        name = tool.attributes.get(v.TOOL_NAME)
        taken = [each for each in self._by_name.get(_text(name), ()) if not each.rejected]
        known = self._asked.get(tool.span_id)
        chosen = _latest([each for each in taken if known is None or each.model is known], tool)
        if chosen is not None:
            chosen.executed = True
            self._asked[tool.span_id] = chosen.model
            self._ids[tool.span_id] = chosen.call_id

    def _in_order_of_asking(self) -> Mapping[str, Sequence[_Execution]]:
        found: defaultdict[str, list[_Execution]] = defaultdict(list)
        for tool in self.tools:
            if call_id := self._ids.get(tool.span_id):
                found[call_id].append((span_key(self._asked.get(tool.span_id, tool)), tool))
        for executions in found.values():
            executions.sort(key=lambda execution: (execution[0], span_key(execution[1])))
        return found


def provider_call_id(tool: Span) -> str | None:
    """The model's id of a call; None where the harness did not hand it on."""
    value = tool.attributes.get(v.TOOL_CALL_ID)
    given = tool.attributes.get(v.TOOL_CALL_ID_SOURCE) != CallIdSource.BINDING.value
    return value if given and isinstance(value, str) and value else None


def _latest(announcements: Sequence[Announcement], tool: Span) -> Announcement | None:
    """The first call that waits of the last reply before a tool ran, else the first that waits at all."""
    waiting = [each for each in announcements if not each.executed]
    before = [each for each in waiting if (each.model.end_ns or each.model.start_ns) <= tool.start_ns]
    if before:
        return next(each for each in before if each.model is before[-1].model)
    return next(iter(waiting), None)


def _asked_at(execution: _Execution) -> tuple[int, str]:
    return execution[0]


def _announced(model: Span, bodies: Mapping[str, Any]) -> Iterator[Announcement]:
    parts = [
        part
        for message in messages(model, v.OUTPUT_MESSAGES, bodies)
        for part in parts_of(message)
        if part.get("type") == "tool_call"
    ]
    listed = list(
        zip_longest(
            _texts(model.attributes.get(v.ANNOUNCED_CALL_IDS)),
            _texts(model.attributes.get(v.ANNOUNCED_CALL_NAMES)),
            fillvalue="",
        )
    ) or [(_text(part.get("id")), _text(part.get("name"))) for part in parts]
    rejected = _texts(model.attributes.get(v.REJECTED_CALL_IDS))
    for index, (call_id, name) in enumerate(listed):
        part = next((each for each in parts if _text(each.get("id")) == call_id), None)
        if part is not None:
            parts.remove(part)
        arguments = None if part is None else part.get("arguments")
        yield Announcement(model, index, call_id, name, arguments, call_id in rejected)


def _responses(history: Sequence[Any]) -> Iterator[str]:
    for message in reversed(history):
        if isinstance(message, dict) and message.get("role") == "assistant":
            return
        for part in parts_of(message):
            if part.get("type") == "tool_call_response" and (call_id := _text(part.get("id"))):
                yield call_id


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return value if isinstance(value, list) else []

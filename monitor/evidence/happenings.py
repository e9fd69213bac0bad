"""What happened in a run, span by span, and what came of what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atp.protocol.spans import Actor, Span, SpanKind, SpanStatus
from monitor import vocabulary as v
from monitor.evidence.announcements import Announcement, Announcements, provider_call_id
from monitor.evidence.call_ids import CallIds
from monitor.evidence.messages import messages, text_of
from monitor.evidence.order import Happening, Rank
from monitor.evidence.tree import SpanTree, about, actor, duration_ms
from monitor.evidence.values import Bounds

_LONGEST_NAME = 256
_LONGEST_ID = 1024  # characters of a provider's id in attributes


def happenings(tree: SpanTree, bodies: Mapping[str, Any]) -> list[Happening]:
    """All that happened below the root, in no order, each with its causes.

    Args:
        tree: The run.
        bodies: Digest -> JSON value, of what the spans name. What is not there was not captured.
    """
    return _Happenings(tree, bodies).found


class _Happenings:
    def __init__(self, tree: SpanTree, bodies: Mapping[str, Any]) -> None:
        self.found: list[Happening] = []
        self._tree = tree
        self._bodies = bodies
        self._announcements = Announcements(tree, bodies)
        self._begin: dict[str, Happening] = {}
        """Span -> what it began with; of a model call, its reply."""
        self._end: dict[str, Happening] = {}
        self._ids = CallIds(
            [
                *(provider_call_id(tool) for tool in self._announcements.tools),
                *(each.call_id for each in self._announcements.never_ran()),
            ]
        )
        for span in tree.spans:
            if span is tree.root:
                continue
            if span.kind is SpanKind.TOOL:
                self._tool(span)
            elif span.kind in (SpanKind.AGENT, SpanKind.SKILL):
                self._scope(span)
            elif span.kind is SpanKind.MODEL:
                self._model(span)
        for announcement in self._announcements.never_ran():
            self._never_ran(announcement)
        for span in tree.spans:
            self._link(span)

    def _tool(self, span: Span) -> None:
        bounds = Bounds()
        provided = provider_call_id(span)
        call_id, source = self._ids.name(provided, span.span_id)
        given = span.attributes.get(v.TOOL_NAME)
        name, named = _name(given if isinstance(given, str) else span.name, bounds)
        arguments, missing = self._arguments(span, bounds)
        origin = about(
            span,
            call_id_source=source,
            provider_call_id=None if provided is None else bounds.text("call_id", provided, _LONGEST_ID),
            values_altered=span.attributes.get(v.VALUES_ALTERED),
            skill=_short(span.attributes.get(v.SKILL_NAME), bounds),
        )
        self._begin[span.span_id] = self._add(
            Happening(span.start_ns, Rank.CALL, span.start_ns, span.span_id),
            "tool.call",
            {"call_id": call_id, "name": name, "arguments": arguments},
            {**origin, **named, **missing, **bounds.attributes()},
        )
        # What a tool did that was cut off nobody knows: its call stays without a result.
        if span.end_ns is None or span.status in (SpanStatus.OPEN, SpanStatus.ABORTED):
            self._begin[span.span_id].data["attributes"]["ended"] = str(span.status)
            return
        bounds = Bounds()
        outcome, missing = self._outcome(span, bounds)
        self._end[span.span_id] = self._add(
            Happening(span.end_ns, Rank.RESULT, span.start_ns, span.span_id),
            "tool.result",
            {"call_id": call_id, "name": name, **outcome},
            {**origin, **about(span, duration_ms=duration_ms(span)), **missing, **bounds.attributes()},
        )
        self._end[span.span_id].causes.append(self._begin[span.span_id])

    def _arguments(self, span: Span, bounds: Bounds) -> tuple[Any, dict[str, Any]]:
        digest = span.bodies.get(v.ARGUMENTS)
        if digest is None or digest not in self._bodies:
            return {}, _not_captured("arguments")
        return _object(self._bodies[digest], bounds)

    def _outcome(self, span: Span, bounds: Bounds) -> tuple[dict[str, Any], dict[str, Any]]:
        if span.status is SpanStatus.ERROR:
            error = bounds.text("error", span.error_message or span.error_type or "")
            return {"result": None, "is_error": True, "status": "error", "error": error}, {}
        digest = span.bodies.get(v.RESULT)
        if digest is None or digest not in self._bodies:
            return {"result": None, "is_error": False}, _not_captured("result")
        return {"result": bounds.value("result", self._bodies[digest]), "is_error": False}, {}

    def _model(self, span: Span) -> None:
        simulated = actor(span) is Actor.USER_SIMULATOR
        rank = Rank.USER if simulated else Rank.ASSISTANT
        ended = span.end_ns is not None
        reply = Happening(
            span.start_ns if span.end_ns is None else span.end_ns, rank, span.start_ns, span.span_id
        )
        self.found.append(reply)
        self._begin[span.span_id] = self._end[span.span_id] = reply
        text = text_of(messages(span, v.OUTPUT_MESSAGES, self._bodies), "assistant")
        if ended and text.strip():
            bounds = Bounds()
            said = bounds.text("text", text)
            reply.type = "message"
            reply.data = {
                "role": "user" if simulated else "assistant",
                "text": said,
                "attributes": {**about(span, duration_ms=duration_ms(span)), **bounds.attributes()},
            }

    def _scope(self, span: Span) -> None:
        bounds = Bounds()
        key = v.AGENT_NAME if span.kind is SpanKind.AGENT else v.SKILL_NAME
        origin = about(span, name=_short(span.attributes.get(key) or span.name, bounds))
        self._begin[span.span_id] = self._add(
            Happening(span.start_ns, Rank.USER, span.start_ns, span.span_id),
            "lifecycle",
            {"name": f"{span.kind}.started"},
            {**origin, **bounds.attributes()},
        )
        if span.end_ns is not None:
            status = "ok" if span.status is SpanStatus.OK else "error"
            self._end[span.span_id] = self._add(
                Happening(span.end_ns, Rank.ASSISTANT, span.start_ns, span.span_id),
                "lifecycle",
                {"name": f"{span.kind}.completed", "status": status},
                {**origin, **about(span, duration_ms=duration_ms(span)), **bounds.attributes()},
            )
            self._end[span.span_id].causes.append(self._begin[span.span_id])

    def _never_ran(self, announcement: Announcement) -> None:
        bounds = Bounds()
        model, index = announcement.model, announcement.index
        call_id, source = self._ids.name(announcement.call_id or None, f"{model.span_id}.{index}")
        name, named = _name(announcement.name, bounds)
        arguments, missing = _object(announcement.arguments, bounds)
        origin = about(
            model,
            origin="model_request",
            executed=False,
            call_id_source=source,
            provider_call_id=bounds.text("call_id", announcement.call_id, _LONGEST_ID) or None,
            rejected=announcement.rejected or None,
        )
        end_ns = model.start_ns if model.end_ns is None else model.end_ns
        call = self._add(
            Happening(end_ns, Rank.CALL, model.start_ns, model.span_id, index),
            "tool.call",
            {"call_id": call_id, "name": name, "arguments": arguments},
            {**origin, **named, **missing, **bounds.attributes()},
        )
        call.causes.append(self._begin[model.span_id])
        self._within(self._tree.scope(model), call, call)

    def _link(self, span: Span) -> None:
        begin = self._begin.get(span.span_id)
        if begin is None:
            return
        self._within(self._tree.scope(span), begin, self._end.get(span.span_id, begin))
        if span.kind is SpanKind.TOOL and (asked_by := self._announcements.asked_by(span)) is not None:
            begin.causes.append(self._begin[asked_by.span_id])
        if span.kind is SpanKind.MODEL:
            read = self._announcements.read_by(span, self._bodies)
            begin.likely_causes.extend(self._end[tool.span_id] for tool in read if tool.span_id in self._end)

    def _within(self, scope: Span | None, begin: Happening, end: Happening) -> None:
        if scope is None or scope.span_id not in self._begin:
            return
        begin.likely_causes.append(self._begin[scope.span_id])
        if scope.span_id in self._end:
            self._end[scope.span_id].likely_causes.append(end)

    def _add(
        self, happening: Happening, kind: str, data: dict[str, Any], attributes: dict[str, Any]
    ) -> Happening:
        happening.type = kind
        happening.data = {**data, "attributes": attributes}
        self.found.append(happening)
        return happening


def _object(value: Any, bounds: Bounds) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments, which have to be an object; what is none goes into the attributes."""
    if value is None:
        return {}, _not_captured("arguments")
    fitted = bounds.value("arguments", value)
    return (fitted, {}) if isinstance(fitted, dict) else ({}, {"degraded": True, "arguments_text": fitted})


def _not_captured(*fields: str) -> dict[str, Any]:
    missing: Sequence[str] = list(fields)
    return {"degraded": True, "missing_opt_in_fields": missing}


def _name(name: str, bounds: Bounds) -> tuple[str, dict[str, Any]]:
    """The name of a tool, and what is to be said of it: a model may call a tool of no name."""
    if not name:
        return "(unnamed)", {"name_missing": True}
    return bounds.text("name", name, _LONGEST_NAME), {}


def _short(value: Any, bounds: Bounds) -> str | None:
    return bounds.text("name", value, _LONGEST_NAME) if isinstance(value, str) and value else None

"""Runs of a few spans, written down by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import rfc8785

from atp.protocol.evidence import problems
from atp.protocol.spans import ParentSource, Span, SpanKind, SpanStatus
from monitor import vocabulary as v
from monitor.evidence import evidence_document

RUN = "run-one"
CASE = "case-one"
START_NS = 1_796_040_000_000_000_000
"""2026-11-30T12:00:00Z."""
SECOND = 1_000_000_000


class Run:
    """Collects spans and bodies. Times are seconds after the start."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.bodies: dict[str, Any] = {}

    def span(
        self,
        kind: SpanKind,
        span_id: str,
        start: float,
        end: float | None,
        parent: str | None = "root",
        attributes: Mapping[str, Any] | None = None,
        bodies: Mapping[str, Any] | None = None,
        status: SpanStatus | None = None,
        error: str | None = None,
    ) -> None:
        """Add a span."""
        default = SpanStatus.OPEN if end is None else SpanStatus.ERROR if error else SpanStatus.OK
        self.spans.append(
            Span(
                run_id=RUN,
                trace_id="a" * 32,
                span_id=span_id,
                parent_id=parent,
                parent_source=ParentSource.ROOT if parent is None else ParentSource.HANDLE,
                kind=kind,
                name=span_id,
                start_ns=START_NS + round(start * SECOND),
                end_ns=None if end is None else START_NS + round(end * SECOND),
                status=status or default,
                attributes=attributes or {},
                bodies={name: self.body(value) for name, value in (bodies or {}).items()},
                error_type=None if error is None else "ValueError",
                error_message=error,
                events=(),
            )
        )

    def body(self, value: Any) -> str:
        """Keep a body."""
        digest = hashlib.sha256(json.dumps(value).encode()).hexdigest()
        self.bodies[digest] = value
        return digest

    def root(self, end: float | None = 60, asked: str = "Rent?", **more: Any) -> None:
        """The agent, from 0."""
        said = {v.INPUT: [say("user", asked)]} if asked else {}
        self.span(SpanKind.AGENT, "root", 0, end, None, bodies=said, **more)

    def model(
        self,
        span_id: str,
        start: float,
        end: float | None,
        text: str = "",
        calls: Sequence[tuple[str, str, Any]] = (),
        read: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """A model call: what it says, the calls it asks for (id, tool, arguments), the results it read."""
        asked = [{"type": "tool_call", "id": i, "name": n, "arguments": a} for i, n, a in calls]
        reply = say("assistant", text)
        reply["parts"] += asked
        responses = [
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": ""}]}
            for call_id in read
        ]
        attributes = {
            v.ANNOUNCED_CALL_IDS: [call[0] for call in calls],
            v.ANNOUNCED_CALL_NAMES: [call[1] for call in calls],
            **more.pop("attributes", {}),
        }
        bodies = {v.OUTPUT_MESSAGES: [reply], v.INPUT_MESSAGES: responses}
        self.span(SpanKind.MODEL, span_id, start, end, attributes=attributes, bodies=bodies, **more)

    def tool(
        self,
        span_id: str,
        start: float,
        end: float | None,
        parent: str = "root",
        call_id: str | None = None,
        arguments: Any = None,
        result: Any = "found",
        **more: Any,
    ) -> None:
        """A call of the tool `search`; without an id of the model's, the binding gave it one."""
        attributes = {
            v.TOOL_NAME: "search",
            v.TOOL_CALL_ID: call_id or "binding-1",
            v.TOOL_CALL_ID_SOURCE: "model" if call_id else "binding",
        }
        bodies = {v.ARGUMENTS: {"q": "rent"} if arguments is None else arguments, v.RESULT: result}
        self.span(SpanKind.TOOL, span_id, start, end, parent, attributes=attributes, bodies=bodies, **more)

    def document(self, spans: Sequence[Span] | None = None) -> dict[str, Any]:
        """The document, which is valid."""
        made = evidence_document(RUN, CASE, spans or self.spans, self.bodies, rfc8785.dumps)
        assert made is not None
        assert problems(made, RUN, CASE) == ()
        return made

    def events(self) -> list[dict[str, Any]]:
        """The events of the document."""
        events: list[dict[str, Any]] = self.document()["events"]
        return events

    def told(self) -> list[str]:
        """The events in short."""
        return [short(event) for event in self.events()]


def say(role: str, text: str) -> dict[str, Any]:
    """A message."""
    return {"role": role, "parts": [{"type": "text", "content": text}] if text else []}


def short(event: Mapping[str, Any]) -> str:
    """An event in a few words."""
    data = event["data"]
    match event["type"]:
        case "message":
            return f"{data['role']}: {data['text']}"
        case "tool.call":
            return f"call {data['call_id']}"
        case "tool.result":
            return f"result {data['call_id']}"
        case "run.error":
            return f"error: {data['message']}"
        case _:
            return f"{data['name']} {data.get('status', '')}".strip()

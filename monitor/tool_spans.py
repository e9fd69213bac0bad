"""The span of a tool call, as the engine records it: the engine executes, the worker asked.

The worker finds the parent and allocates the id (`SpanRecorder.tool_parent`, `.allocate`) and sends
both with the call, so a tool span sits in the worker's tree and its clock is the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from atp.protocol.spans import AttributeValue, ParentSource, SpanEnd, SpanKind, SpanStart, SpanStatus
from atp.protocol.trace import CUT_OFF, CallIdSource
from monitor.bodies import attribute, body
from monitor.vocabulary import (
    ARGUMENTS,
    ARGUMENTS_ALTERED,
    RESULT,
    TOOL_CALL_ID,
    TOOL_CALL_ID_SOURCE,
    TOOL_NAME,
    VALUES_ALTERED,
)

Bodies = Mapping[str, bytes]
"""Digest -> content."""


@dataclass(frozen=True, slots=True)
class EngineToolSpan:
    """A tool span that has started."""

    start: SpanStart
    bodies: Bodies
    """What the start names."""
    altered: int

    def end(
        self,
        end_ns: int,
        *,
        result: JsonValue = None,
        error: str | None = None,
        error_type: str | None = None,
    ) -> tuple[SpanEnd, Bodies]:
        """The last record, and the bodies it adds.

        Args:
            end_ns: Nanoseconds since the epoch, UTC.
            result: What the tool gave; counts only without an error.
            error: What the model is told instead.
            error_type: Qualified name of the exception's class, where there was one.
        """
        altered = self.altered
        named = dict(self.start.bodies)
        added: dict[str, bytes] = {}
        if error is None:
            digest, content, count = body(result)
            named[RESULT] = digest
            added[digest] = content
            altered += count
        attributes = dict(self.start.attributes)
        if altered:
            attributes[VALUES_ALTERED] = altered
        message = None if error is None else str(attribute(error)[0])
        cut_off = error == CUT_OFF
        end = SpanEnd(
            start=self.start,
            end_ns=end_ns,
            status=SpanStatus.ABORTED if cut_off else SpanStatus.OK if error is None else SpanStatus.ERROR,
            attributes=attributes,
            bodies=named,
            error_type=None if error is None else error_type or ("aborted" if cut_off else "tool_error"),
            error_message=message,
        )
        return end, added


def engine_tool_span(
    *,
    run_id: str,
    trace_id: str,
    span_id: str,
    parent_id: str,
    parent_source: ParentSource,
    name: str,
    arguments: JsonValue,
    call_id: str,
    call_id_source: CallIdSource,
    start_ns: int,
    written: str | None = None,
) -> EngineToolSpan:
    """Start the span of a tool call.

    Args:
        run_id: The attempt.
        trace_id: As the worker's recorder has it.
        span_id: Allocated by the worker.
        parent_id: Found by the worker.
        parent_source: How it was found.
        name: The tool.
        arguments: As delivered by the harness.
        call_id: The model's, or the binding's own.
        call_id_source: Which of them.
        start_ns: Nanoseconds since the epoch, UTC.
        written: The arguments as the model wrote them, where the harness delivers something else.
    """
    digest, content, altered = body(arguments)
    named, bodies = {ARGUMENTS: digest}, {digest: content}
    if written is not None:
        named[ARGUMENTS_ALTERED], content, count = body(written)
        bodies[named[ARGUMENTS_ALTERED]] = content
        altered += count
    tool, tool_altered = attribute(name)
    identity, identity_altered = attribute(call_id)
    attributes: dict[str, AttributeValue] = {
        TOOL_NAME: tool,
        TOOL_CALL_ID: identity,
        TOOL_CALL_ID_SOURCE: call_id_source.value,
    }
    start = SpanStart(
        run_id=run_id,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        parent_source=parent_source,
        kind=SpanKind.TOOL,
        name=str(tool),
        start_ns=start_ns,
        attributes=attributes,
        bodies=named,
    )
    return EngineToolSpan(start, bodies, altered + tool_altered + identity_altered)

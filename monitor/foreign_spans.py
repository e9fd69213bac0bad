"""Spans that foreign code records with the private provider, in the form they are stored."""

from __future__ import annotations

import time

from opentelemetry.sdk.trace import ReadableSpan, Span
from opentelemetry.trace import StatusCode

from atp.protocol.spans import AttributeValue, ParentSource, SpanEnd, SpanKind, SpanStart, SpanStatus
from monitor.bodies import attribute
from monitor.recorded_span import error_type, foreign_event
from monitor.vocabulary import LINKED_TRACES, SCOPE


def foreign_start(run_id: str, span: Span) -> SpanStart:
    """The first record of a foreign span: a chain, whatever it calls itself in its attributes."""
    return SpanStart(
        run_id=run_id,
        trace_id=format(span.context.trace_id, "032x"),
        span_id=format(span.context.span_id, "016x"),
        parent_id=format(span.parent.span_id, "016x") if span.parent else None,
        parent_source=ParentSource.CONTEXT,
        kind=SpanKind.CHAIN,
        name=span.name,
        start_ns=span.start_time or time.time_ns(),
        attributes=_attributes(span),
    )


def foreign_end(start: SpanStart, span: ReadableSpan | None, error: BaseException | None) -> SpanEnd:
    """The last record of a foreign span.

    Args:
        start: Its first.
        span: The span as it ended; None when the attempt ended before it.
        error: What ended the attempt in that case.
    """
    if span is None:
        return SpanEnd(
            start=start,
            end_ns=time.time_ns(),
            status=SpanStatus.ABORTED,
            attributes=start.attributes,
            bodies={},
            error_type=error_type(error) if error else "aborted",
            error_message=str(error) if error else None,
        )
    failed = span.status.status_code is StatusCode.ERROR
    events = [foreign_event(event) for event in span.events]
    raised = next((event for event in events if event.name == "exception"), None)
    attributes = _attributes(span)
    kind = attributes.get("error.type") or (raised.attributes.get("exception.type") if raised else None)
    return SpanEnd(
        start=start,
        end_ns=span.end_time or time.time_ns(),
        status=SpanStatus.ERROR if failed else SpanStatus.OK,
        attributes=attributes,
        bodies={},
        error_type=str(kind or "unknown") if failed else None,
        error_message=span.status.description if failed else None,
        events=events,
    )


def _attributes(span: ReadableSpan) -> dict[str, AttributeValue]:
    attributes = {key: attribute(value)[0] for key, value in (span.attributes or {}).items()}
    if span.instrumentation_scope is not None:
        attributes[SCOPE] = span.instrumentation_scope.name
    if span.links:
        attributes[LINKED_TRACES] = [
            f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}-{int(link.context.trace_flags):02x}"
            for link in span.links
        ]
    return attributes

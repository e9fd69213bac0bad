"""One span of ours while it is being recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from opentelemetry.sdk.trace import ReadableSpan, Span
from opentelemetry.trace import SpanContext, StatusCode

from atp.protocol.spans import (
    AttributeValue,
    ParentSource,
    SpanEnd,
    SpanEvent,
    SpanKind,
    SpanStart,
    SpanStatus,
)
from monitor.bodies import attribute, body
from monitor.message_lists import MessageLists
from monitor.vocabulary import VALUES_ALTERED


class RecordsSpans(Protocol):
    """What a span needs of its recorder."""

    run_id: str
    messages: MessageLists
    late_spans: int

    def started(self, span: RecordedSpan) -> None:
        """It has its ids."""

    def ended(self, span: RecordedSpan, otel: ReadableSpan) -> None:
        """It has ended."""

    def failed(self, where: str, error: Exception) -> None:
        """Something could not be recorded."""

    def keep_body(self, digest: str, content: bytes) -> None:
        """Hand a body to the sink."""


class RecordedSpan:
    """A handle on a span (implements `atp.protocol.spans.SpanHandle`). Raises nothing."""

    __slots__ = (
        "_altered",
        "_attributes",
        "_bodies",
        "_error",
        "_recorder",
        "_status",
        "context",
        "events",
        "kind",
        "name",
        "otel",
        "parent_id",
        "parent_source",
        "span_id",
        "start_record",
    )

    context: SpanContext
    otel: Span
    span_id: str
    start_record: SpanStart

    def __init__(
        self,
        recorder: RecordsSpans,
        kind: SpanKind,
        name: str,
        parent_id: str | None,
        parent_source: ParentSource,
        attributes: Mapping[str, AttributeValue],
        messages: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self._recorder = recorder
        self.kind = kind
        self.name = name
        self.parent_id = parent_id
        self.parent_source = parent_source
        self._altered = 0
        self._attributes: dict[str, AttributeValue] = {}
        self._bodies: dict[str, str] = {}
        self.events: list[SpanEvent] = []
        self._error: BaseException | None = None
        self._status = SpanStatus.OK
        for key, value in attributes.items():
            self._attributes[key] = self._attribute(value)
        for key, items in (messages or {}).items():
            self._set_messages(key, items)

    def set(self, name: str, value: AttributeValue) -> None:
        """Set an attribute; names are in `monitor.vocabulary`."""
        if self._too_late():
            return
        try:
            self._attributes[name] = self._attribute(value)
        except Exception as error:
            self._recorder.failed(f"attribute {name}", error)

    def set_body(self, name: str, value: Any) -> None:
        """Store a JSON value as a body and name it by digest."""
        if self._too_late():
            return
        try:
            digest, content, altered = body(value)
            self._altered += altered
            self._recorder.keep_body(digest, content)
            self._bodies[name] = digest
        except Exception as error:
            self._recorder.failed(f"body {name}", error)

    def set_messages(self, name: str, messages: Sequence[Any]) -> None:
        """Store a list of JSON messages, sharing what earlier lists of this run had.

        A message object that was stored before is taken to be unchanged.
        """
        if not self._too_late():
            self._set_messages(name, messages)

    def event(self, name: str, attributes: Mapping[str, AttributeValue]) -> None:
        """Note something that happened now."""
        if self._too_late():
            return
        try:
            form = {key: self._attribute(value) for key, value in attributes.items()}
            self.events.append(SpanEvent(name, time.time_ns(), form))
        except Exception as error:
            self._recorder.failed(f"event {name}", error)

    def end(self, error: BaseException | None = None) -> None:
        """End the span, with an error if one ended it: a cancel leaves it aborted. Ending it again is
        counted as late."""
        if isinstance(error, asyncio.CancelledError):
            self.abort(error)
        else:
            self._finish(SpanStatus.OK if error is None else SpanStatus.ERROR, error)

    def abort(self, error: BaseException | None) -> None:
        """End the span on its behalf, since the attempt is over."""
        self._finish(SpanStatus.ABORTED, error)

    def _set_messages(self, name: str, messages: Sequence[Any]) -> None:
        try:
            digest, altered = self._recorder.messages.store(name, messages)
            self._altered += altered
            self._bodies[name] = digest
        except Exception as error:
            self._recorder.failed(f"messages {name}", error)

    def _too_late(self) -> bool:
        # The last record has been handed over: what comes now is counted, not slipped into it.
        if self.otel.is_recording():
            return False
        self._recorder.late_spans += 1
        return True

    def _finish(self, status: SpanStatus, error: BaseException | None) -> None:
        if self._too_late():
            return
        self._status = status
        self._error = error
        if status is not SpanStatus.OK:
            self.otel.set_status(StatusCode.ERROR, _message(error) if error else None)
        self.otel.end()

    def otel_started(self, otel: Span) -> None:
        """The SDK has given it ids and a start time."""
        self.otel = otel
        self.context = otel.context
        self.span_id = format(otel.context.span_id, "016x")
        self.start_record = SpanStart(
            run_id=self._recorder.run_id,
            trace_id=format(otel.context.trace_id, "032x"),
            span_id=self.span_id,
            parent_id=self.parent_id,
            parent_source=self.parent_source,
            kind=self.kind,
            name=self.name,
            start_ns=otel.start_time or time.time_ns(),
            attributes=dict(self._attributes),
            bodies=dict(self._bodies),
        )
        self._recorder.started(self)

    def otel_ended(self, otel: ReadableSpan) -> None:
        """The SDK says it has ended, by our hand or by that of foreign code."""
        self._recorder.ended(self, otel)

    def end_record(self, otel: ReadableSpan) -> SpanEnd:
        """Everything about it, with what foreign code put on the OTel span."""
        attributes = self._attributes
        events = self.events
        if otel.attributes:
            attributes = {key: self._attribute(value) for key, value in otel.attributes.items()} | attributes
        if otel.events:
            events = sorted([*events, *map(foreign_event, otel.events)], key=lambda event: event.time_ns)
        if self._altered:
            attributes[VALUES_ALTERED] = self._altered
        error = self._error
        aborted = self._status is SpanStatus.ABORTED
        return SpanEnd(
            start=self.start_record,
            end_ns=otel.end_time or time.time_ns(),
            status=self._status,
            attributes=attributes,
            bodies=self._bodies,
            error_type=error_type(error) if error else "aborted" if aborted else None,
            error_message=_message(error) if error else None,
            events=events,
        )

    def _attribute(self, value: Any) -> AttributeValue:
        form, altered = attribute(value)
        self._altered += altered
        return form


def foreign_event(event: Any) -> SpanEvent:
    """An OTel event in store form."""
    attributes = {key: attribute(value)[0] for key, value in (event.attributes or {}).items()}
    return SpanEvent(event.name, event.timestamp, attributes)


def error_type(error: BaseException) -> str:
    """The qualified name of an exception's class, without `builtins`."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    text, _ = attribute(str(error))
    return str(text)

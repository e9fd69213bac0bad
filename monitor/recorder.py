"""The span layer: records one attempt's spans with real OTel ids and context.

A span goes to the sink twice, when it starts and when it ends, so a killed process leaves the
starts of what it was doing. Nothing here raises into a harness: what cannot be recorded is counted
and noted on the root span, where the result shows it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace as otel_trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from pydantic import JsonValue

from atp.protocol.spans import (
    AttributeValue,
    ParentSource,
    SpanEnd,
    SpanEvent,
    SpanHandle,
    SpanKind,
    SpanSink,
    SpanStart,
)
from monitor.bodies import attribute
from monitor.foreign_spans import foreign_end, foreign_start
from monitor.message_lists import MessageLists
from monitor.recorded_span import RecordedSpan, error_type
from monitor.records.arguments import altered
from monitor.tracing import Claim, Tracing, process_tracing
from monitor.vocabulary import AGENT_NAME, INPUT, RECORDER_FAILURE, RECORDER_FAILURES, RECORDER_LATE_SPANS

_NOTED_FAILURES = 20


class SpanRecorder:
    """Records one attempt (implements `atp.protocol.spans.Recorder`).

    Args:
        sink: Where records go.
        run_id: The attempt.
        name: Of the agent span.
        trace_id: 32 hexadecimal digits; a new one by default.
        attributes: Of the agent span, from its start.
        asked: Messages that the agent is given, a body of the agent span from its start.
        tracing: The provider to record with; the process's own by default.
    """

    def __init__(
        self,
        sink: SpanSink,
        run_id: str,
        *,
        name: str = "agent",
        trace_id: str | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
        asked: Sequence[Any] = (),
        tracing: Tracing | None = None,
    ) -> None:
        self.run_id = run_id
        self.sink = sink
        self.tracing = tracing or process_tracing()
        self.messages = MessageLists(self.keep_body)
        self.failures = 0
        """How often recording failed."""
        self.late_spans = 0
        """Spans open when the attempt ended or started after it, and changes to spans that had ended."""
        self.closed = False
        self._lock = threading.Lock()
        self._noted: list[SpanEvent] = []
        self._open: dict[str, RecordedSpan] = {}
        self._foreign: dict[int, SpanStart] = {}
        self._announced: dict[str, tuple[str, list[str | None]]] = {}
        self._trace_id = int(trace_id, 16) if trace_id else self.tracing.ids.generate_trace_id()
        with self.tracing.ids.giving(self._trace_id):
            about = {AGENT_NAME: name, **(attributes or {})}
            given = {INPUT: asked} if asked else None
            self._root = self._begin(SpanKind.AGENT, name, None, None, ParentSource.ROOT, about, given)
        self.tracing.own(self._trace_id, self)

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return format(self._trace_id, "032x")

    @property
    def root(self) -> RecordedSpan:
        """The attempt's agent span."""
        return self._root

    def start(
        self,
        kind: SpanKind,
        name: str,
        *,
        parent: SpanHandle | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> RecordedSpan:
        """Start a span below `parent`, else the current OTel context's span, else the root."""
        parent_id, source = self._parent(parent)
        return self._begin(kind, name, self._span_context(parent_id), parent_id, source, attributes or {})

    def announce(self, call_id: str, span: SpanHandle, arguments: str | None = None) -> None:
        """See `Recorder.announce`. Providers number calls per reply, so an id can come again: the latest
        reply counts. Within a reply it can come again too: then it stands for each of its calls."""
        span_id, texts = self._announced.get(call_id, ("", []))
        self._announced[call_id] = (
            span.span_id,
            [*texts, arguments] if span_id == span.span_id else [arguments],
        )

    def announced_arguments(self, call_id: str | None, delivered: JsonValue) -> str | None:
        """The arguments of a tool call as the model wrote them; None where that is not known.

        Args:
            call_id: Of the call.
            delivered: What the harness calls with: of several calls under one id it tells which is meant.
        """
        _, texts = self._announced.get(call_id, ("", [None])) if call_id is not None else ("", [None])
        same = (
            text for text in texts if len(texts) > 1 and text is not None and not altered(text, delivered)
        )
        return next(same, texts[-1])

    def tool_parent(self, call_id: str | None, handle: SpanHandle | None) -> tuple[str, ParentSource]:
        """The parent of a tool call, and how it was found: the explicit handle, else the model
        span that announced the call id, else the current OTel context, else the root."""
        if handle is None and call_id is not None and (announced := self._announced.get(call_id)):
            return announced[0], ParentSource.CALL_ID
        return self._parent(handle)

    def allocate(self) -> str:
        """The id of a span that is recorded elsewhere: the engine records the tool spans."""
        return format(self.tracing.ids.generate_span_id(), "016x")

    @contextmanager
    def as_current(self, span_id: str) -> Iterator[None]:
        """Within it a span of this trace is the current OTel span: foreign spans nest below it and
        propagators send its `traceparent`. Not to be held across a `yield` of a generator, whose
        caller would keep the context."""
        span = self._open.get(span_id)
        current = span.otel if span else NonRecordingSpan(self._span_context(span_id))
        token = otel_context.attach(otel_trace.set_span_in_context(current))
        try:
            yield
        finally:
            otel_context.detach(token)

    async def ready(self, *, before_call: bool = False) -> None:
        """See `SpanSink.ready`."""
        try:
            await self.sink.ready(before_call=before_call)
        except Exception as error:
            self.failed("ready", error)

    def close(self, error: BaseException | None = None) -> None:
        """End the attempt: what is still open ends as aborted, then the root ends.

        Args:
            error: What ended the attempt, a `CancelledError` among them; None when it went well.
        """
        if self.closed:
            return
        for span in reversed(list(self._open.values())):
            if span is not self._root:
                self.late_spans += 1
                span.abort(error)
        with self._lock:
            foreign = list(self._foreign.values())
            self._foreign.clear()
        for start in reversed(foreign):
            self.late_spans += 1
            self._hand_over_end(foreign_end(start, None, error))
        if self.late_spans:
            self._root.set(RECORDER_LATE_SPANS, self.late_spans)
        if self.failures:
            self._root.set(RECORDER_FAILURES, self.failures)
            self._root.events.extend(self._noted)
        self._root.end(error)
        self.closed = True
        self.tracing.disown(self._trace_id)

    def failed(self, where: str, error: Exception) -> None:
        """Count a failure to record and note it on the root. For the monitor's own layers."""
        with self._lock:
            self.failures += 1
            if len(self._noted) < _NOTED_FAILURES:
                message, _ = attribute(str(error)[:500])
                about = {"where": where, "error.type": error_type(error), "error.message": message}
                self._noted.append(SpanEvent(RECORDER_FAILURE, time.time_ns(), about))

    # TraceOwner: foreign code recorded a span with the private provider, in this trace.

    def foreign_started(self, span: Span) -> None:
        """See `monitor.tracing.TraceOwner`."""
        try:
            start = foreign_start(self.run_id, span)
            self._foreign[span.context.span_id] = start
            self.sink.start(start)
        except Exception as error:
            self.failed("foreign span start", error)

    def foreign_ended(self, span: ReadableSpan) -> None:
        """See `monitor.tracing.TraceOwner`."""
        with self._lock:
            start = self._foreign.pop(span.context.span_id, None)
        if start is not None:
            try:
                self._hand_over_end(foreign_end(start, span, None))
            except Exception as error:
                self.failed("foreign span end", error)

    # What RecordedSpan asks for.

    def keep_body(self, digest: str, content: bytes) -> None:
        """Hand a body to the sink."""
        self.sink.body(digest, content)

    def started(self, span: RecordedSpan) -> None:
        """A span of ours has its ids."""
        self._open[span.span_id] = span
        if self.closed:
            self.late_spans += 1
        try:
            self.sink.start(span.start_record)
        except Exception as error:
            self.failed("span start", error)

    def ended(self, span: RecordedSpan, otel: ReadableSpan) -> None:
        """A span of ours has ended."""
        self._open.pop(span.span_id, None)
        try:
            self._hand_over_end(span.end_record(otel))
        except Exception as error:
            self.failed("span end", error)

    def _hand_over_end(self, record: SpanEnd) -> None:
        try:
            self.sink.end(record)
        except Exception as error:
            self.failed("span end", error)

    def _parent(self, handle: SpanHandle | None) -> tuple[str, ParentSource]:
        if handle is not None:
            return handle.span_id, ParentSource.HANDLE
        current = otel_trace.get_current_span().get_span_context()
        if current.is_valid and current.trace_id == self._trace_id:
            return format(current.span_id, "016x"), ParentSource.CONTEXT
        return self._root.span_id, ParentSource.FALLBACK

    def _span_context(self, span_id: str) -> SpanContext:
        span = self._open.get(span_id)
        if span is not None:
            return span.context
        return SpanContext(self._trace_id, int(span_id, 16), False, TraceFlags(TraceFlags.SAMPLED))

    def _begin(
        self,
        kind: SpanKind,
        name: str,
        parent: SpanContext | None,
        parent_id: str | None,
        source: ParentSource,
        attributes: Mapping[str, AttributeValue],
        messages: Mapping[str, Sequence[Any]] | None = None,
    ) -> RecordedSpan:
        span = RecordedSpan(self, kind, name, parent_id, source, attributes, messages)
        context = Context()
        if parent is not None:
            context = otel_trace.set_span_in_context(NonRecordingSpan(parent), context)
        claim = Claim(span.otel_started, span.otel_ended)
        self.tracing.tracer.start_span(name, context=claim.within(context))
        return span

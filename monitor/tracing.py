"""The process's private OTel tracing: one provider, its spans routed to the attempt they belong to.

The provider is never made global, is not shut down at exit, samples everything and has raised
limits: with the SDK's defaults a span drops its oldest attributes past 128, identity first.
Routing is by trace id: an attempt is a trace. A span of no known attempt is counted in `unrouted`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer

_MANY = 100_000
_CLAIM = otel_context.create_key("atp-span-claim")


class TraceOwner(Protocol):
    """Takes the foreign spans of one trace. Raises nothing."""

    def foreign_started(self, span: Span) -> None:
        """Foreign code started a span in this trace."""

    def foreign_ended(self, span: ReadableSpan) -> None:
        """It ended."""


Started = Callable[[Span], None]
Ended = Callable[[ReadableSpan], None]


class Claim:
    """Says of a span about to start that it is ours, and who hears of its start and end."""

    __slots__ = ("ended", "started")

    def __init__(self, started: Started, ended: Ended) -> None:
        self.started = started
        self.ended = ended

    def within(self, context: Context) -> Context:
        """The context to start the span in."""
        return otel_context.set_value(_CLAIM, self, context)


class TraceIds(RandomIdGenerator):
    """Random ids, except that a root span can be given the trace id its attempt has."""

    def __init__(self) -> None:
        self._given: ContextVar[int | None] = ContextVar("atp_trace_id", default=None)

    @contextmanager
    def giving(self, trace_id: int) -> Iterator[None]:
        """Within it, a span without a parent starts this trace."""
        token = self._given.set(trace_id)
        try:
            yield
        finally:
            self._given.reset(token)

    def generate_trace_id(self) -> int:
        """See `RandomIdGenerator`."""
        return self._given.get() or super().generate_trace_id()


class Tracing(SpanProcessor):
    """The private provider and its routing."""

    def __init__(self) -> None:
        limits = SpanLimits(
            max_attributes=_MANY,
            max_span_attributes=_MANY,
            max_event_attributes=_MANY,
            max_link_attributes=_MANY,
            max_events=_MANY,
            max_links=_MANY,
        )
        self.ids = TraceIds()
        self.provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource({}),
            shutdown_on_exit=False,
            span_limits=limits,
            id_generator=self.ids,
        )
        self.provider.add_span_processor(self)
        self.tracer: Tracer = self.provider.get_tracer("atp.monitor")
        self.unrouted = 0
        """Spans that started or ended in a trace nobody owns; late ones of closed attempts among them."""
        self._owners: dict[int, TraceOwner] = {}
        self._claimed: dict[int, Ended] = {}
        self._lock = threading.Lock()

    def own(self, trace_id: int, owner: TraceOwner) -> None:
        """From now on the foreign spans of this trace go to the owner."""
        self._owners[trace_id] = owner

    def disown(self, trace_id: int) -> None:
        """The attempt is over."""
        self._owners.pop(trace_id, None)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """See `SpanProcessor`; called by the SDK."""
        claim = otel_context.get_value(_CLAIM, parent_context) if parent_context is not None else None
        if isinstance(claim, Claim):
            self._claimed[span.context.span_id] = claim.ended
            claim.started(span)
        elif (owner := self._owners.get(span.context.trace_id)) is not None:
            owner.foreign_started(span)
        else:
            self._count_unrouted()

    def on_end(self, span: ReadableSpan) -> None:
        """See `SpanProcessor`; called by the SDK."""
        ended = self._claimed.pop(span.context.span_id, None)
        if ended is not None:
            ended(span)
        elif (owner := self._owners.get(span.context.trace_id)) is not None:
            owner.foreign_ended(span)
        else:
            self._count_unrouted()

    def _count_unrouted(self) -> None:
        with self._lock:
            self.unrouted += 1


_process: Tracing | None = None
_process_lock = threading.Lock()


def process_tracing() -> Tracing:
    """The tracing that all recorders of this process share; made when first asked for."""
    global _process
    with _process_lock:
        if _process is None:
            _process = Tracing()
        return _process

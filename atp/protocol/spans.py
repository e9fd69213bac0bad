"""What is recorded of a run: spans, their bodies, and the ports they pass through.

A span is two records: its start and its end. Bodies (messages, tool definitions, arguments,
results) are content-addressed and travel once; a span names them by digest. A list of messages is
itself a body, `{"prev": digest | null, "items": [digest, …]}`: the list so far plus what came
since, so that the bytes per turn stay constant however long the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

AttributeValue: TypeAlias = str | int | float | bool | None | list[str]


class SpanKind(StrEnum):
    """The five behaviours."""

    AGENT = "agent"
    CHAIN = "chain"
    MODEL = "model"
    TOOL = "tool"
    SKILL = "skill"


class SpanStatus(StrEnum):
    """How a span ended. `open` while it has not; `aborted` when it never will."""

    OPEN = "open"
    OK = "ok"
    ERROR = "error"
    ABORTED = "aborted"


class Actor(StrEnum):
    """On whose behalf a model call is made. Only the agent's count as its turns, usage and cost."""

    AGENT = "agent"
    USER_SIMULATOR = "user_simulator"
    JUDGE = "judge"


class ParentSource(StrEnum):
    """How a span's parent was found."""

    ROOT = "root"
    HANDLE = "handle"
    CALL_ID = "call_id"
    CONTEXT = "context"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True)
class SpanStart:
    """The first record of a span. Times in nanoseconds since the epoch, UTC."""

    run_id: str
    trace_id: str
    span_id: str
    parent_id: str | None
    parent_source: ParentSource
    kind: SpanKind
    name: str
    start_ns: int
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    bodies: Mapping[str, str] = field(default_factory=dict)
    """Attribute name -> digest of a body."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened within a span."""

    name: str
    time_ns: int
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanEnd:
    """The last record of a span: all of its attributes and bodies, those of the start included."""

    start: SpanStart
    end_ns: int
    status: SpanStatus
    attributes: Mapping[str, AttributeValue]
    bodies: Mapping[str, str]
    error_type: str | None = None
    error_message: str | None = None
    events: Sequence[SpanEvent] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A stored span, as a reader gets it."""

    run_id: str
    trace_id: str
    span_id: str
    parent_id: str | None
    parent_source: ParentSource
    kind: SpanKind
    name: str
    start_ns: int
    end_ns: int | None
    status: SpanStatus
    attributes: Mapping[str, AttributeValue]
    bodies: Mapping[str, str]
    error_type: str | None
    error_message: str | None
    events: Sequence[SpanEvent]


class SpanSink(Protocol):
    """Where records go. Nothing here blocks; `ready` and `flush` are how pressure comes back."""

    def body(self, digest: str, content: bytes) -> None:
        """Hand over a body before the first record that names it. Repeating one is free."""

    def start(self, record: SpanStart) -> None:
        """Hand over the start of a span."""

    def end(self, record: SpanEnd) -> None:
        """Hand over the end of a span."""

    async def ready(self, *, before_call: bool = False) -> None:
        """Wait until there is room for more; hooks await it, so a full queue slows the harness.

        Args:
            before_call: A model call comes next: wait as well until the model spans that have ended are
                durable. A process that is killed amid a call then loses the span of no other.
        """

    async def flush(self) -> None:
        """Wait until all that was handed over is durable."""


class TraceReader(Protocol):
    """How traces are read back."""

    def spans(self, run_id: str) -> Sequence[Span]:
        """All spans of a run, by start time."""

    def body(self, digest: str) -> Any:
        """A body as JSON; a list of messages comes back resolved."""


class SpanHandle(Protocol):
    """A span that is being recorded."""

    @property
    def span_id(self) -> str:
        """16 hexadecimal digits."""

    def set(self, name: str, value: AttributeValue) -> None:
        """Set an attribute; names are in `monitor.vocabulary`."""

    def set_body(self, name: str, value: Any) -> None:
        """Store a JSON value as a body and name it by digest."""

    def set_messages(self, name: str, messages: Sequence[Any]) -> None:
        """Store a list of JSON messages as a list body, sharing what earlier lists of this run had."""

    def event(self, name: str, attributes: Mapping[str, AttributeValue]) -> None:
        """Note something that happened now."""

    def end(self, error: BaseException | None = None) -> None:
        """End the span, with an error if one ended it; a `CancelledError` has aborted it."""


class Recorder(Protocol):
    """Records one attempt's spans. Never raises into the harness."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""

    @property
    def root(self) -> SpanHandle:
        """The attempt's agent span."""

    def start(
        self,
        kind: SpanKind,
        name: str,
        *,
        parent: SpanHandle | None = None,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> SpanHandle:
        """Start a span below `parent`, else the current OTel context's span, else the root."""

    def as_current(self, span_id: str) -> AbstractContextManager[None]:
        """Within it a span of this trace is the current OTel span, in this thread and what takes a copy
        of its context. Not to be held across a `yield` of a generator."""

    def announce(self, call_id: str, span: SpanHandle, arguments: str | None = None) -> None:
        """A model span has asked for this tool call: it becomes the call's parent.

        Args:
            call_id: The model's.
            span: Of the reply.
            arguments: As the model wrote them, where that is known; what the binding gets is held
                against them.
        """

    def failed(self, where: str, error: Exception) -> None:
        """Something could not be recorded: counted, and noted on the root span."""

    async def ready(self, *, before_call: bool = False) -> None:
        """See `SpanSink.ready`."""


class Instrument(Protocol):
    """The SDK layer: turns an SDK's hooks into spans. What else it offers, its adapter knows."""

    def close(self) -> None:
        """End what is still open."""

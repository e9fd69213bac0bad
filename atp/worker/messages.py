"""What engine and worker say to each other.

| type      | from   | lane    | carries                                                            |
|-----------|--------|---------|--------------------------------------------------------------------|
| `hello`   | worker | control | process id, Python, package versions                               |
| `beat`    | worker | control | nothing: the worker's event loop turns                             |
| `start`   | engine | control | a `StartAttempt`                                                   |
| `cancel`  | engine | control | `run_id`                                                           |
| `outcome` | worker | span    | an `Outcome`, behind all spans of the attempt                      |
| `call`    | worker | call    | a tool call (request); the reply has `value` or `error`            |
| `user`    | worker | call    | what the agent said, or null to open, and the root span's id (request); |
|           |        |         | the reply has `turn`                                               |
| `spans`   | worker | span    | bodies, starts and ends of some `runs` (request); the reply acknowledges |
| `reply`   | both   | as sent | the answer to a request                                            |
| `stop`    | engine | control | end when no attempt is running                                     |
| `begin`   | engine | call    | factory and options: make a benchmark's own side (request)         |
| `open`    | engine | call    | a task, and a name for its environment (request); the reply describes it |
| `execute` | engine | call    | a tool call (request); the reply has `value` or `error`            |
| `turn`    | engine | call    | what the agent said, or null to open (request); the reply has `turn` |
| `close`   | engine | call    | an environment's name (request); its running calls are cancelled   |
| `grade`   | engine | call    | a task and a trace (request); the reply has `grade`                |

The last six go to a worker that holds a benchmark, which runs no attempts. Each of their replies has
`failure`, a `Failure` or null.

An outcome does not wait for the acknowledgement of the spans before it: the engine stores the end of
an attempt in the order in which things came, and never as complete when one of its spans was refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import JsonValue

from atp.protocol.base import Frozen
from atp.protocol.cards import FactorySource
from atp.protocol.environment import ToolSpec
from atp.protocol.errors import (
    AgentError,
    AtpError,
    BenchmarkError,
    Fault,
    InfrastructureError,
    UsageError,
)
from atp.protocol.model import Dialect, Limits, ModelEndpoint, Sampling
from atp.protocol.spans import ParentSource, SpanEnd, SpanEvent, SpanKind, SpanStart, SpanStatus
from atp.protocol.status import ErrorInfo
from atp.protocol.task import AgentTask
from atp.protocol.trace import TaskTrace

BENCHMARK_REQUESTS = frozenset({"begin", "open", "execute", "turn", "close", "grade"})
"""What is asked of a worker that holds a benchmark."""


class WireEndpoint(Frozen):
    """A `ModelEndpoint` with its key in the clear: for the link only, never logged or stored."""

    dialect: Dialect
    base_url: str
    model: str
    api_key: str
    provider: str

    @classmethod
    def of(cls, endpoint: ModelEndpoint) -> WireEndpoint:
        """Uncover the key for the journey."""
        return cls(
            dialect=endpoint.dialect,
            base_url=endpoint.base_url,
            model=endpoint.model,
            api_key=endpoint.api_key.get_secret_value(),
            provider=endpoint.provider,
        )

    def covered(self) -> ModelEndpoint:
        """Cover the key again on arrival."""
        return ModelEndpoint.model_validate(self.model_dump())


class StartAttempt(Frozen):
    """Everything a worker needs to run one attempt. There is no gold in it."""

    run_id: str
    trace_id: str
    harness: str
    runner: str
    """`module:factory` of the `AgentRunner`."""
    instrument: str | None
    """`module:factory` of the `Instrument`; None when the user said `--no-monitor`."""
    factory: FactorySource | None = None
    """Of the user's own agent, for the runner to run."""
    task: AgentTask
    system_prompt: str | None
    tools: tuple[ToolSpec, ...]
    has_user: bool
    workspace: str | None
    tool_errors: Literal["return", "raise"] = "return"
    model: WireEndpoint
    sampling: Sampling
    limits: Limits
    options: Mapping[str, JsonValue]


class Outcome(Frozen):
    """How the attempt ended by the worker's account: a trace, an error, or cancelled."""

    run_id: str
    trace: TaskTrace | None = None
    error: ErrorInfo | None = None
    cancelled: bool = False
    elapsed: float
    """Seconds the runner ran."""
    recorder_failures: int = 0
    """How often the recorder could not record something; the root span says what."""


class Failure(Frozen):
    """Why a benchmark in a worker could not do what it was asked."""

    message: str
    kind: str | None = None
    """The exception's class where it is none of ours."""
    fault: Fault

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Describe what was raised."""
        if isinstance(error, AtpError):
            return cls(message=error.message, fault=error.fault)
        return cls(message=str(error), kind=type(error).__name__, fault=Fault.BENCHMARK)

    def error(self, what: str) -> AtpError:
        """The error of this side that says the same.

        Args:
            what: What was asked: `the grader`.
        """
        message = self.message if self.kind is None else f"{what} raised {self.kind}: {self.message}"
        return _BY_FAULT[self.fault](message)


_BY_FAULT: Mapping[Fault, type[AtpError]] = {
    Fault.USER: UsageError,
    Fault.AGENT: AgentError,
    Fault.INFRASTRUCTURE: InfrastructureError,
    Fault.BENCHMARK: BenchmarkError,
}


Packed = list[Any]


def pack_start(record: SpanStart) -> Packed:
    """A start record as a JSON array: a batch of objects would repeat its keys."""
    return [
        record.run_id,
        record.trace_id,
        record.span_id,
        record.parent_id,
        record.parent_source,
        record.kind,
        record.name,
        record.start_ns,
        record.attributes,
        record.bodies,
    ]


def unpack_start(packed: Packed) -> SpanStart:
    """The inverse of `pack_start`."""
    run_id, trace_id, span_id, parent_id, source, kind, name, start_ns, attributes, bodies = packed
    return SpanStart(
        run_id,
        trace_id,
        span_id,
        parent_id,
        ParentSource(source),
        SpanKind(kind),
        name,
        start_ns,
        attributes,
        bodies,
    )


def pack_end(record: SpanEnd) -> Packed:
    """An end record as a JSON array."""
    return [
        pack_start(record.start),
        record.end_ns,
        record.status,
        record.attributes,
        record.bodies,
        record.error_type,
        record.error_message,
        [[event.name, event.time_ns, event.attributes] for event in record.events],
    ]


def unpack_end(packed: Packed) -> SpanEnd:
    """The inverse of `pack_end`."""
    start, end_ns, status, attributes, bodies, error_type, error_message, events = packed
    return SpanEnd(
        unpack_start(start),
        end_ns,
        SpanStatus(status),
        attributes,
        bodies,
        error_type,
        error_message,
        tuple(SpanEvent(*event) for event in events),
    )

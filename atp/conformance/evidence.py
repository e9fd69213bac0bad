"""What checks look at: attempts at probes, as the endpoint, the store and the worlds tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atp.conformance.probe_benchmark import ProbeEnvironment
from atp.conformance.probe_tasks import Probe
from atp.models.scripted.steps import RequestView
from atp.protocol.cards import HarnessCard
from atp.protocol.spans import Span
from atp.protocol.trace import Grade, TaskTrace, ToolCall


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A model request of the agent, as the endpoint's log has it."""

    body: Mapping[str, Any]
    sent: RequestView
    """The body, read."""
    heard: RequestView
    """The same in the plain form: what the harness tells as text, as messages."""
    response_id: str | None
    """Of the reply; None when it got none."""
    streamed: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at one probe."""

    probe: Probe
    trace: TaskTrace
    grade: Grade | None
    requests: tuple[WireRequest, ...]
    late_requests: int
    """Requests on its path after it had ended."""
    spans: tuple[Span, ...]
    bodies: Mapping[str, Any]
    """By digest: whatever its spans name."""
    environment: ProbeEnvironment

    @property
    def summary(self) -> str:
        """How it ended, for a message."""
        error = f": {self.trace.error.message}" if self.trace.error else ""
        return f"{self.trace.status} ({self.trace.stop_reason}){error}"

    def executed(self, call_id: str, name: str) -> Sequence[ToolCall]:
        """The calls at the binding that may be this one of the model's: by its id, else by its tool."""
        named = [call for call in self.trace.tool_calls if call.name == name]
        return [call for call in named if call.id == call_id] or [
            call for call in named if call.id_source == "binding"
        ]


@dataclass(frozen=True, slots=True)
class Mode:
    """All conversations in one dialect, streamed or not."""

    label: str
    """For messages: `openai-chat, streamed`."""
    streamed: bool
    scripted: Mapping[str, Attempt]
    """By the probe's name."""
    oracle: Mapping[str, Attempt]
    noop: Mapping[str, Attempt]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a harness has shown."""

    card: HarnessCard
    modes: tuple[Mode, ...]
    bounded: Mapping[str, Attempt]
    """Under limits, or cancelled; by the probe's name."""

    @property
    def conversations(self) -> Iterator[tuple[Mode, Attempt]]:
        """Every attempt of the scripted model, in every mode."""
        return ((mode, attempt) for mode in self.modes for attempt in mode.scripted.values())

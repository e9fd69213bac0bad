"""What is left of a run: the `TaskTrace`, and what a grader makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeGuard

from pydantic import AwareDatetime, Field, JsonValue

from atp.protocol.base import Frozen, JsonObject, RunId
from atp.protocol.errors import Fault
from atp.protocol.status import ErrorInfo, Status, StopReason


class Usage(Frozen):
    """Tokens. Unknown is None, never 0."""

    input_tokens: int | None = Field(default=None, ge=0)
    """Cached ones included."""
    output_tokens: int | None = Field(default=None, ge=0)
    """Reasoning included."""
    cache_read_tokens: int | None = Field(default=None, ge=0)
    cache_write_tokens: int | None = Field(default=None, ge=0)
    reasoning_tokens: int | None = Field(default=None, ge=0)

    @classmethod
    def said(cls, **counts: object) -> Usage:
        """Tokens as a provider or an SDK states them: what is no count, a negative number say, is unknown."""
        return cls(**{name: count if _is_count(count) else None for name, count in counts.items()})

    def __add__(self, other: Usage) -> Usage:
        """The sum, where both are known; a sum with an unknown part is unknown."""
        return _sum((self, other))

    @staticmethod
    def total(usages: Iterable[Usage]) -> Usage | None:
        """The sum of all; None when there is nothing to sum."""
        summands = tuple(usages)
        return _sum(summands) if summands else None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _sum(usages: Sequence[Usage]) -> Usage:
    sums: dict[str, int | None] = {}
    for name in Usage.model_fields:
        known = [count for usage in usages if (count := getattr(usage, name)) is not None]
        sums[name] = sum(known) if len(known) == len(usages) else None
    return Usage(**sums)


class CallIdSource(StrEnum):
    """Who named a tool call."""

    MODEL = "model"
    BINDING = "binding"


CUT_OFF = "the attempt ended before the tool did"
"""The error of a call that was under way when its attempt ended: what it did is not known."""


class ToolCall(Frozen):
    """One call that went through the binding, in the order of arrival."""

    id: str
    """The model's call id, or the binding's own where the harness does not hand it on."""
    id_source: CallIdSource
    name: str
    arguments: JsonValue
    """As delivered by the harness."""
    result: JsonValue = None
    error: str | None = None
    """What the model was told instead of a result."""
    start: AwareDatetime
    end: AwareDatetime
    span_id: str


class Artifact(Frozen):
    """Something a harness left beside its answer."""

    name: str
    media_type: str
    content: str


class RecordCheck(Frozen):
    """The comparison of the records that are really independent of each other."""

    records: tuple[str, ...] = ()
    """Which existed: `endpoint`, `spans`, `binding`, `harness`."""
    possible: int = 4
    """How many records there could be: the result is "len(records) of possible"."""
    agree: bool | None = None
    """None when there was nothing to compare: absent is unavailable, never agreement."""
    differences: tuple[str, ...] = ()
    """Each `code: sentence`, with ids and both values; the codes are those of `monitor.records.Code`."""
    native_behaviour: tuple[str, ...] = ()
    """What the harness does to calls by its own nature, in the same form; no difference of the records."""


class TaskTrace(Frozen):
    """What is known of one run. A harness fills what it knows; the engine completes it."""

    # From the harness.
    final_answer: str | None = None
    stop_reason: StopReason | None = None
    harness_usage: Usage | None = None
    """The harness's own sum."""
    harness_model_calls: int | None = Field(default=None, ge=0)
    """The harness's own count of model calls that answered."""
    artifacts: tuple[Artifact, ...] = ()
    native: Mapping[str, JsonValue] = Field(default_factory=dict)
    """Numbers and names of the harness's own, untouched."""
    replies: tuple[str, ...] = ()
    """What the agent said to its user, in order; the last is the final answer."""
    response_ids: tuple[str, ...] | None = None
    """The provider's response ids that the harness itself reports, if it does."""

    # From the engine.
    run_id: RunId | None = None
    trace_id: str | None = None
    task_id: str | None = None
    harness: str | None = None
    versions: Mapping[str, str] = Field(default_factory=dict)
    """Package -> version, as installed where the harness ran."""
    model_asked: str | None = None
    model_answered: str | None = None
    status: Status | None = None
    turns: int | None = Field(default=None, ge=0)
    """Model calls of the agent that answered."""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    cost: float | None = Field(default=None, ge=0)
    """USD of the agent's model calls that answered."""
    costs_of_others: Mapping[str, float | None] = Field(default_factory=dict)
    """Actor -> USD of the model calls made on behalf of others: the simulated user, a judge."""
    user_turns: int | None = Field(default=None, ge=0)
    """Model calls that answered for the user, apart from the agent's; None when no model plays it."""
    user_usage: Usage | None = None
    """Their tokens; None when no model plays the user."""
    started_at: AwareDatetime | None = None
    elapsed: float | None = Field(default=None, ge=0)
    """Seconds of the agent phase."""
    time_lost: float | None = Field(default=None, ge=0)
    """Seconds of `elapsed` that went by with tries of model calls that failed and the waits after them."""
    checks: RecordCheck | None = None
    monitored: bool = True
    """False when the user said `--no-monitor`."""
    error: ErrorInfo | None = None
    redacted: tuple[str, ...] = ()
    """Of a stored trace: its fields that are not as they were, since they held secrets."""


class Grade(Frozen):
    """A verdict on one run. Appended, never overwritten."""

    score: float | None = None
    """None when there is none, with the reason; a missing score is not a score of 0."""
    passed: bool | None = None
    reason: str = ""
    fault: Fault | None = None
    """Whose fault a missing score is."""
    grader: str
    grader_version: str
    details: JsonObject = Field(default_factory=dict)
    """What else is known. `scores`, where a benchmark gives several: name -> number, and a cell shows the
    mean of each."""

    @property
    def scores(self) -> Mapping[str, float]:
        """The named scores among the details; none where the benchmark has but one."""
        named = self.details.get("scores")
        if not isinstance(named, Mapping):
            return {}
        return {name: float(value) for name, value in named.items() if isinstance(value, int | float)}

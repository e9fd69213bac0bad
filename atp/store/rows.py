"""What the store takes and gives. Moments are aware datetimes in UTC, exact to the microsecond;
the columns behind them are whole nanoseconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from atp.protocol.status import Status
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def nanoseconds(moment: datetime) -> int:
    """An aware datetime as nanoseconds since the epoch, without rounding."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def moment(ns: int) -> datetime:
    """Nanoseconds since the epoch as a datetime in UTC, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """A frozen definition and its name."""

    id: str
    name: str | None
    created_at: datetime
    definition: Mapping[str, Any]
    """JSON, as it was frozen."""
    digest: str
    """Of the definition, by whoever froze it."""


@dataclass(frozen=True, slots=True)
class CellRow:
    """One combination of benchmark, harness and model within an experiment."""

    id: str
    experiment_id: str
    index: int
    benchmark: str
    harness: str
    model: str
    simulated: bool
    mixed: bool
    definition: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot to be stored together with its task."""

    id: str
    cell_id: str
    index: int
    task: TaskInput
    """Stored once however many slots have it."""
    repeat: int
    seed: int | None


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A stored slot; `Store.task` gives its task."""

    id: str
    cell_id: str
    index: int
    task_id: str
    repeat: int
    seed: int | None
    task_digest: str


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """A try at a slot that begins now."""

    run_id: str
    slot_id: str
    try_number: int
    """1 for the first."""
    trace_id: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A try at a slot, and what is known of it."""

    run_id: str
    slot: SlotRow
    try_number: int
    trace_id: str
    started_at: datetime
    ended_at: datetime | None
    """None while it runs."""
    status: Status | None
    """None while it runs."""
    trace: TaskTrace | None
    """None while it runs."""
    grade: Grade | None
    """The latest, which is the one in force."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One change of state."""

    sequence: int
    """Global and rising; gaps are possible."""
    time_ns: int
    kind: str
    experiment_id: str
    run_id: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CellTotals:
    """A cell in numbers, summed by the database."""

    cell_id: str
    attempts: int
    """Ended ones, failed tries among them."""
    graded: int
    """Attempts whose grade in force has a score."""
    score_sum: float | None
    """None when nothing is graded."""
    statuses: Mapping[Status, int]


@dataclass(frozen=True, slots=True)
class TokenTotals:
    """A cell's tokens over all ended attempts. A kind that no attempt knows is None."""

    cell_id: str
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    unknown: int
    """Ended attempts that do not know their input or output tokens; what they know is in the sums."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """What waits to be written."""

    records: int
    bytes: int
    """An estimate: bodies exactly, every other record as 1 KiB."""

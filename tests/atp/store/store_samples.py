"""An experiment, spans and traces to put into a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from atp.protocol.spans import ParentSource, SpanEnd, SpanKind, SpanStart, SpanStatus
from atp.protocol.status import Status, StopReason
from atp.protocol.task import Expected, TaskInput
from atp.protocol.trace import CallIdSource, Grade, TaskTrace, ToolCall, Usage
from atp.store.rows import AttemptStart, CellRow, ExperimentRow, NewSlot
from atp.store.store import Store

NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
NOW_NS = 1_796_040_000_123_456_000
EXPERIMENT = "exp-one"
HOLDER = "engine-a"


def experiment(identity: str = EXPERIMENT, name: str | None = None) -> ExperimentRow:
    """An experiment with a definition whose numbers are easily altered."""
    return ExperimentRow(identity, name, NOW, {"seed": 7, "temperature": 2.0, "n": 2}, "d" * 64)


def cell(experiment_id: str = EXPERIMENT, index: int = 0) -> CellRow:
    """A cell; its id is the experiment's with its index."""
    return CellRow(
        f"{experiment_id}-c{index}",
        experiment_id,
        index,
        "humaneval",
        "langgraph",
        "scripted/oracle",
        True,
        False,
        {"limits": {"max_turns": 3}},
    )


def slot(index: int, cell_id: str = f"{EXPERIMENT}-c0") -> NewSlot:
    """A slot with a task of its own, gold included."""
    task = TaskInput.model_validate(
        {
            "task_id": f"task/{index}",
            "instruction": f"Do number {index}.",
            "initial_state": {"one": 1, "two": 2.0},
            "expected": Expected(outputs=("42",)),
        }
    )
    return NewSlot(f"{cell_id}-s{index}", cell_id, index, task, 0, index)


def first_try(run_id: str, slot_index: int, cell_id: str = f"{EXPERIMENT}-c0") -> AttemptStart:
    """The first try at a slot."""
    return AttemptStart(run_id, f"{cell_id}-s{slot_index}", 1, "a" * 32, NOW)


async def planned(store: Store, slots: int = 1, experiment_id: str = EXPERIMENT) -> None:
    """Store an experiment of one cell and take its lease."""
    one = cell(experiment_id)
    await store.create_experiment(
        experiment(experiment_id), [one], [slot(index, one.id) for index in range(slots)]
    )
    await store.acquire_lease(experiment_id, HOLDER, 60)


async def running(store: Store, run_ids: Sequence[str]) -> None:
    """An experiment with one running attempt for each run id."""
    await planned(store, len(run_ids))
    for index, run_id in enumerate(run_ids):
        await store.begin_attempt(first_try(run_id, index))


def span_start(run_id: str, number: int = 1, **changes: Any) -> SpanStart:
    """The start of a span whose id is its number."""
    start = SpanStart(
        run_id=run_id,
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        parent_id=None,
        parent_source=ParentSource.ROOT,
        kind=SpanKind.MODEL,
        name="chat",
        start_ns=NOW_NS,
        attributes={"model.name": "oracle"},
    )
    return replace(start, **changes)


def span_end(start: SpanStart, **changes: Any) -> SpanEnd:
    """The end of a span, one second after its start."""
    end = SpanEnd(
        start=start,
        end_ns=start.start_ns + 1_000_000_000,
        status=SpanStatus.OK,
        attributes={**start.attributes, "usage.output": 5},
        bodies=start.bodies,
    )
    return replace(end, **changes)


def tool_call(number: int = 0, **changes: Any) -> ToolCall:
    """A call that answered after a second."""
    values: dict[str, Any] = {
        "id": f"call-{number}",
        "id_source": CallIdSource.MODEL,
        "name": "deposit",
        "arguments": {"account": "a", "amount": 2.0, "count": 2},
        "result": ["ok", None],
        "start": NOW,
        "end": NOW + timedelta(seconds=1),
        "span_id": f"{number + 1:016x}",
    }
    return ToolCall.model_validate({**values, **changes})


def ended(run_id: str, **changes: Any) -> TaskTrace:
    """The trace of a run that completed."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "trace_id": "a" * 32,
        "task_id": "task/0",
        "status": Status.COMPLETED,
        "stop_reason": StopReason.ANSWERED,
        "final_answer": "42",
        "turns": 2,
        "usage": Usage(input_tokens=100, output_tokens=10),
        "started_at": NOW,
        "elapsed": 1.5,
    }
    return TaskTrace.model_validate({**values, **changes})


def grade(score: float | None, version: str = "1") -> Grade:
    """A grade by version."""
    return Grade(
        score=score, passed=None if score is None else score == 1, grader="g", grader_version=version
    )

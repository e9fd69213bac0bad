"""What an experiment gave: cells and attempts, by the keys of the command line's `--json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from atp.engine.budget import stopped_by_budget
from atp.protocol.trace import Grade, TaskTrace, Usage
from atp.scoring.statistics import Interval, bounds, clustered, pass_at_k, pass_hat_k, wilson
from atp.store.reader import StoreReader
from atp.store.rows import AttemptRow, CellRow, SlotRow

NOT_RUN = "not run"
BUDGET = "budget"
RUNNING = "running"
NOT_GRADED = "not graded"


def results(store: StoreReader, experiment_id: str) -> dict[str, Any]:
    """Everything `atp results --json` prints."""
    slots: dict[str, list[SlotRow]] = {}
    for slot in store.slots(experiment_id):
        slots.setdefault(slot.cell_id, []).append(slot)
    tries: dict[str, list[AttemptRow]] = {}
    attempts = store.attempts(experiment_id)
    for attempt in attempts:
        tries.setdefault(attempt.slot.id, []).append(attempt)
    cells = store.cells(experiment_id)
    not_run = BUDGET if stopped_by_budget(store, experiment_id) else NOT_RUN
    return {
        "experiment": experiment_id,
        "cells": [_cell(cell, slots.get(cell.id, []), tries, not_run) for cell in cells],
        "attempts": [_attempt(attempt, {cell.id: cell for cell in cells}) for attempt in attempts],
    }


def _cell(
    cell: CellRow, slots: Sequence[SlotRow], tries: Mapping[str, Sequence[AttemptRow]], not_run: str
) -> dict[str, Any]:
    deciding = [(slot, _deciding(tries.get(slot.id, ()))) for slot in slots]
    scored: dict[str, list[float]] = {}
    grades: list[Grade] = []
    missing: Counter[str] = Counter()
    for slot, attempt in deciding:
        if attempt is not None and attempt.grade is not None and attempt.grade.score is not None:
            scored.setdefault(slot.task_id, []).append(attempt.grade.score)
            grades.append(attempt.grade)
        else:
            missing[not_run if attempt is None else _why_missing(attempt)] += 1
    scores = [score for group in scored.values() for score in group]
    interval = _interval(list(scored.values()))
    traces = [a.trace for _, a in deciding if a is not None and a.trace is not None]
    made = [a.trace for slot in slots for a in tries.get(slot.id, ()) if a.trace is not None]
    statuses = Counter(str(a.status or RUNNING) for slot in slots for a in tries.get(slot.id, ()))
    return {
        "benchmark": cell.benchmark,
        "harness": cell.harness,
        "model": cell.model,
        "simulated": cell.simulated,
        "mixed": cell.mixed,
        "scheduled": len(slots),
        "graded": len(scores),
        "missing": missing.total(),
        "missing_by_reason": dict(missing),
        "mean": sum(scores) / len(scores) if scores else None,
        "scores": _named_means(grades),
        "bounds": bounds(scores, missing.total()) if slots else None,
        "ci95": (interval.low, interval.high) if interval else None,
        "interval": interval.method if interval else None,
        "pass_at_k": _over_tries(pass_at_k, scored),
        "pass_hat_k": _over_tries(pass_hat_k, scored),
        "statuses": dict(statuses),
        "turns": _total([trace.turns for trace in traces]),
        "usage": (Usage.total(trace.usage for trace in traces) or Usage()).model_dump(),
        "user_model": _user_model(cell),
        "user_turns": _total([trace.user_turns for trace in traces]),
        "user_usage": _user_usage(traces),
        "cost": _total([trace.cost for trace in traces]),
        "spent": _known(cost for trace in made for cost in (trace.cost, *trace.costs_of_others.values())),
        "price": cell.definition.get("price"),
        "elapsed": _total([trace.elapsed for trace in traces]),
        "records": dict(Counter(_records(trace) for trace in traces)),
    }


def _interval(scores_by_task: Sequence[Sequence[float]]) -> Interval | None:
    scores = [score for group in scores_by_task for score in group]
    if not scores:
        return None
    if set(scores) <= {0.0, 1.0} and len(scores) == len(scores_by_task):
        return wilson(round(sum(scores)), len(scores))
    interval = clustered(scores_by_task)
    # Scores that are all alike and neither 0 nor 1 say nothing of their spread.
    return interval if interval.low < interval.high else None


def _named_means(grades: Sequence[Grade]) -> dict[str, float]:
    """The mean of each score that a benchmark gives by name, over the runs that have it."""
    named: dict[str, list[float]] = {}
    for grade in grades:
        for name, score in grade.scores.items():
            named.setdefault(name, []).append(score)
    return {name: sum(scores) / len(scores) for name, scores in sorted(named.items())}


def _over_tries(
    estimate: Callable[[int, int, int], float], scores_by_task: Mapping[str, Sequence[float]]
) -> dict[str, float] | None:
    """An estimate from repeats, for every k that all tasks have scores for, averaged over the tasks.

    None where scores are not passes and failures, or there are none.
    """
    groups = list(scores_by_task.values())
    if not groups or any(score not in (0.0, 1.0) for group in groups for score in group):
        return None
    return {
        str(k): sum(estimate(len(group), round(sum(group)), k) for group in groups) / len(groups)
        for k in range(1, min(map(len, groups)) + 1)
    }


def _deciding(attempts: Sequence[AttemptRow]) -> AttemptRow | None:
    """The try that a slot's score comes from: its gradable one, else the latest."""
    gradable = [a for a in attempts if a.status is not None and a.status.gradable]
    return gradable[0] if gradable else max(attempts, key=lambda a: a.try_number, default=None)


def _why_missing(attempt: AttemptRow) -> str:
    if attempt.status is None:
        return RUNNING
    if attempt.grade is not None:
        fault = f"{attempt.grade.fault}: " if attempt.grade.fault else ""
        return f"{fault}{_first_line(attempt.grade.reason)}"
    if attempt.status.gradable:
        return NOT_GRADED
    error = attempt.trace.error if attempt.trace else None
    return f"{attempt.status}: {_first_line(error.message)}" if error else str(attempt.status)


def _attempt(attempt: AttemptRow, cells: Mapping[str, CellRow]) -> dict[str, Any]:
    cell = cells[attempt.slot.cell_id]
    trace = attempt.trace or TaskTrace()
    grade = attempt.grade
    checks = trace.checks
    return {
        "run_id": attempt.run_id,
        "slot": attempt.slot.id,
        "try": attempt.try_number,
        "task_id": attempt.slot.task_id,
        "repeat": attempt.slot.repeat,
        "benchmark": cell.benchmark,
        "harness": cell.harness,
        "model": cell.model,
        "simulated": cell.simulated,
        "model_answered": trace.model_answered,
        "status": str(attempt.status or RUNNING),
        "stop_reason": trace.stop_reason,
        "score": grade.score if grade else None,
        "score_reason": grade.reason if grade else None,
        "passed": grade.passed if grade else None,
        "score_fault": grade.fault if grade else None,
        "score_details": dict(grade.details) if grade else None,
        "turns": trace.turns,
        "tool_calls": [
            call.model_dump(
                mode="json", include={"id", "name", "arguments", "result", "error", "start", "end"}
            )
            for call in trace.tool_calls
        ],
        "final_answer": trace.final_answer,
        "usage": trace.usage.model_dump(),
        "user_turns": trace.user_turns,
        "user_usage": trace.user_usage.model_dump() if trace.user_usage else None,
        "cost": trace.cost,
        "costs_of_others": dict(trace.costs_of_others),
        "elapsed": trace.elapsed,
        "time_lost": trace.time_lost,
        "started_at": attempt.started_at.isoformat(),
        "trace_id": attempt.trace_id,
        "versions": dict(trace.versions),
        "monitored": trace.monitored,
        "checks": checks.model_dump(mode="json")
        if checks
        else {"records": [], "possible": None, "agree": None, "differences": [], "native_behaviour": []},
        "native": dict(trace.native),
        "redacted": list(trace.redacted),
        "error": {"code": trace.error.code, "message": trace.error.message, "fault": trace.error.fault}
        if trace.error
        else None,
    }


def _user_model(cell: CellRow) -> str | None:
    user = cell.definition.get("user")
    return None if user is None else str(user["model"])


def _user_usage(traces: Sequence[TaskTrace]) -> dict[str, int | None] | None:
    total = Usage.total(trace.user_usage for trace in traces if trace.user_usage)
    return None if total is None else total.model_dump()


def _records(trace: TaskTrace) -> str:
    if trace.checks is None:
        return "unavailable"
    verdict = {True: "agree", False: "differ", None: "not comparable"}[trace.checks.agree]
    return f"{len(trace.checks.records)}/{trace.checks.possible} {verdict}"


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]

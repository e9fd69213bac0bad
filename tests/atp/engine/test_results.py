"""The numbers of a cell: what is counted, what is missing, and what the intervals are."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from atp.engine.results import results
from atp.protocol.errors import Fault
from atp.protocol.status import ErrorInfo, Status
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace, Usage
from atp.store.rows import AttemptStart, CellRow, ExperimentRow, NewSlot
from atp.store.store import Store

Tried = tuple[Status, float | None]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(f"sqlite:///{tmp_path}/atp.db") as opened:
        yield opened


async def cell_of(store: Store, slots: Sequence[tuple[str, int, Sequence[Tried]]]) -> dict[str, Any]:
    """The cell of an experiment whose slots (task, repeat) ended as said, try by try."""
    now = datetime.now(UTC)
    await store.create_experiment(
        ExperimentRow("exp-1", None, now, {}, "0" * 64),
        [CellRow("exp-1-0", "exp-1", 0, "b", "h", "scripted/noop", True, False, {})],
        [
            NewSlot(f"s{index}", "exp-1-0", index, TaskInput(task_id=task), repeat, None)
            for index, (task, repeat, _) in enumerate(slots)
        ],
    )
    await store.acquire_lease("exp-1", "me", 60)
    for index, (task, _, tries) in enumerate(slots):
        for number, (status, score) in enumerate(tries, start=1):
            run_id, trace_id = f"run-{secrets.token_hex(6)}", secrets.token_hex(16)
            await store.begin_attempt(AttemptStart(run_id, f"s{index}", number, trace_id, now))
            error = (
                None if status.gradable else ErrorInfo(code="down", message="the server is down\nsecond line")
            )
            usage = Usage(input_tokens=10, output_tokens=1)
            trace = TaskTrace(
                run_id=run_id,
                trace_id=trace_id,
                task_id=task,
                status=status,
                error=error,
                turns=2,
                usage=usage,
            )
            await store.end_attempt(run_id, trace)
            if status.gradable:
                missing = {"reason": "no sandbox", "fault": Fault.INFRASTRUCTURE} if score is None else {}
                await store.add_grade(run_id, Grade(score=score, grader="g", grader_version="1", **missing))
    [cell] = results(store, "exp-1")["cells"]
    return dict(cell)


OK, DOWN = Status.COMPLETED, Status.INFRA_ERROR


async def test_what_is_missing_is_counted_with_its_reason_and_bounds_the_mean(store: Store) -> None:
    cell = await cell_of(
        store,
        [
            ("a", 0, [(OK, 1.0)]),
            ("b", 0, [(OK, 0.0)]),
            ("c", 0, [(DOWN, None), (DOWN, None)]),
            ("d", 0, [(OK, None)]),
            ("e", 0, []),
        ],
    )
    assert (cell["scheduled"], cell["graded"], cell["missing"]) == (5, 2, 3)
    assert cell["missing_by_reason"] == {
        "infra_error: the server is down": 1,
        "infrastructure: no sandbox": 1,
        "not run": 1,
    }
    assert cell["mean"] == 0.5
    assert cell["bounds"] == (1 / 5, 4 / 5)
    assert cell["statuses"] == {"completed": 3, "infra_error": 2}


async def test_a_slot_counts_once_by_its_gradable_try(store: Store) -> None:
    cell = await cell_of(store, [("a", 0, [(DOWN, None), (OK, 1.0)])])
    assert (cell["scheduled"], cell["graded"], cell["missing"], cell["mean"]) == (1, 1, 0, 1.0)
    assert cell["usage"]["input_tokens"] == 10
    assert cell["usage"]["reasoning_tokens"] is None


async def test_single_passes_and_failures_have_a_wilson_interval(store: Store) -> None:
    # Reference: 8 of 10, Wilson 95 %: .490162-.943318 (scipy 1.17).
    cell = await cell_of(store, [(f"t{i}", 0, [(OK, float(i < 8))]) for i in range(10)])
    assert cell["interval"] == "wilson"
    assert cell["ci95"] == pytest.approx((0.490162, 0.943318), abs=1e-6)


async def test_repeats_have_an_interval_clustered_by_task(store: Store) -> None:
    # Reference: clusters [1,1,0|0,0,0|1,1,1|1,0,0]: mean .5, clustered SE .186339 (Miller 2024, app. A).
    scores = {"a": (1, 1, 0), "b": (0, 0, 0), "c": (1, 1, 1), "d": (1, 0, 0)}
    cell = await cell_of(
        store,
        [(task, r, [(OK, float(score))]) for task, row in scores.items() for r, score in enumerate(row)],
    )
    assert cell["interval"] == "cluster"
    half = 1.959963984540054 * 0.186339
    assert cell["ci95"] == pytest.approx((0.5 - half, 0.5 + half), abs=1e-5)


async def test_repeats_give_unbiased_pass_at_k_and_pass_hat_k_averaged_over_tasks(store: Store) -> None:
    # Reference for n = 4, c = [4, 2, 0]: pass@k .5, .611111, .666667, .666667;
    # pass^k .5, .388889, .333333, .333333.
    passed = {"a": 4, "b": 2, "c": 0}
    cell = await cell_of(
        store, [(task, r, [(OK, float(r < c))]) for task, c in passed.items() for r in range(4)]
    )
    assert cell["pass_at_k"] == pytest.approx(
        {"1": 0.5, "2": 0.611111, "3": 0.666667, "4": 0.666667}, abs=1e-6
    )
    assert cell["pass_hat_k"] == pytest.approx(
        {"1": 0.5, "2": 0.388889, "3": 0.333333, "4": 0.333333}, abs=1e-6
    )


async def test_k_goes_only_as_far_as_every_task_has_scores(store: Store) -> None:
    cell = await cell_of(
        store,
        [("a", 0, [(OK, 1.0)]), ("a", 1, [(OK, 1.0)]), ("b", 0, [(OK, 0.0)]), ("b", 1, [(DOWN, None)])],
    )
    assert cell["pass_at_k"] == {"1": 0.5}


async def test_scores_that_are_all_alike_and_partial_have_no_interval(store: Store) -> None:
    cell = await cell_of(store, [("a", 0, [(OK, 0.5)]), ("b", 0, [(OK, 0.5)])])
    assert (cell["mean"], cell["ci95"], cell["interval"]) == (0.5, None, None)


async def test_partial_scores_have_no_pass_at_k(store: Store) -> None:
    cell = await cell_of(store, [("a", 0, [(OK, 0.25)]), ("b", 0, [(OK, 0.75)])])
    assert cell["mean"] == 0.5
    assert cell["pass_at_k"] is None

"""Experiments, attempts, calls and grades."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atp.protocol.errors import Fault, InvalidInput, StoreError, UnknownName
from atp.protocol.status import ErrorInfo, Status, StopReason
from atp.protocol.trace import Artifact, CallIdSource, RecordCheck, TaskTrace, ToolCall, Usage
from atp.store.rows import CellTotals, TokenTotals
from atp.store.store import Store
from tests.atp.store.store_samples import (
    EXPERIMENT,
    NOW,
    cell,
    ended,
    experiment,
    first_try,
    grade,
    planned,
    running,
    slot,
    span_end,
    span_start,
    tool_call,
)

RUN = "run-a"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
moments = st.datetimes(
    min_value=datetime(1990, 1, 1),  # noqa: DTZ001 -- hypothesis adds the zone
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001 -- as above
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
counts = st.none() | st.integers(0, 2**62)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    reasoning_tokens=counts,
)
tool_calls = st.builds(
    ToolCall,
    id=text,
    id_source=st.sampled_from(CallIdSource),
    name=text,
    arguments=json_values,
    result=json_values,
    error=st.none() | text,
    start=moments,
    end=moments,
    span_id=text,
)
errors = st.builds(
    ErrorInfo,
    code=text,
    message=text,
    fault=st.sampled_from(Fault),
    classes=st.lists(text, max_size=2).map(tuple),
    http_status=st.none() | st.integers(100, 599),
    provider_code=st.none() | text,
    retry_after=st.none() | st.floats(0, 1e6),
    unclassified=st.booleans(),
)
traces = st.builds(
    TaskTrace,
    final_answer=st.none() | text,
    stop_reason=st.none() | st.sampled_from(StopReason),
    harness_usage=st.none() | usages,
    harness_model_calls=st.none() | st.integers(0, 1000),
    artifacts=st.lists(st.builds(Artifact, name=text, media_type=text, content=text), max_size=2).map(tuple),
    native=st.dictionaries(text, json_values, max_size=3),
    replies=st.lists(text, max_size=2).map(tuple),
    response_ids=st.none() | st.lists(text, max_size=2).map(tuple),
    trace_id=st.none() | text,
    task_id=st.none() | text,
    harness=st.none() | text,
    versions=st.dictionaries(text, text, max_size=2),
    model_asked=st.none() | text,
    model_answered=st.none() | text,
    status=st.sampled_from(Status),
    turns=st.none() | st.integers(0, 10_000),
    tool_calls=st.lists(tool_calls, max_size=3).map(tuple),
    usage=usages,
    cost=st.none() | st.floats(0, 1e9),
    user_turns=st.none() | st.integers(0, 10_000),
    user_usage=st.none() | usages,
    costs_of_others=st.dictionaries(text, st.none() | st.floats(0, 1e9), max_size=2),
    time_lost=st.none() | st.floats(0, 1e9),
    started_at=st.none() | moments,
    elapsed=st.none() | st.floats(0, 1e9),
    checks=st.none()
    | st.builds(
        RecordCheck,
        records=st.lists(text, max_size=2).map(tuple),
        possible=st.integers(0, 4),
        agree=st.none() | st.booleans(),
        differences=st.lists(text, max_size=2).map(tuple),
    ),
    monitored=st.booleans(),
    redacted=st.lists(st.sampled_from(["final_answer", "replies"]), max_size=2).map(tuple),
    error=st.none() | errors,
)


async def test_every_field_of_a_trace_survives_storage(store: Store) -> None:
    loop = asyncio.get_running_loop()
    await planned(store, 1)
    kept: list[TaskTrace] = []

    async def keep(trace: TaskTrace) -> None:
        trace = trace.model_copy(update={"run_id": f"run-{len(kept)}"})
        start = replace(first_try(f"run-{len(kept)}", 0), try_number=len(kept) + 1)
        await store.begin_attempt(start)
        await store.end_attempt(start.run_id, trace)
        kept.append(trace)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(trace=traces)
    def check(trace: TaskTrace) -> None:
        asyncio.run_coroutine_threadsafe(keep(trace), loop).result()

    await asyncio.to_thread(check)
    assert {name for name in TaskTrace.model_fields} <= kept[0].model_fields_set | {"run_id"}
    stored = store.attempts(EXPERIMENT)
    assert [row.status for row in stored] == [trace.status for trace in kept]
    for row, trace in zip(stored, kept, strict=True):
        assert row.trace == trace
        # Equality takes 2 for 2.0 and knows no type; the JSON does. Moments come back in UTC.
        assert row.trace.model_dump_json(exclude={"tool_calls", "started_at"}) == trace.model_dump_json(
            exclude={"tool_calls", "started_at"}
        )
        assert [repr((call.arguments, call.result)) for call in row.trace.tool_calls] == [
            repr((call.arguments, call.result)) for call in trace.tool_calls
        ]


async def test_an_experiment_comes_back_as_it_was_frozen(store: Store) -> None:
    await store.create_experiment(experiment(), [cell()], [slot(0), slot(1)])
    assert store.experiment(EXPERIMENT) == experiment()
    assert repr(store.experiment(EXPERIMENT).definition["temperature"]) == "2.0"
    assert store.cells(EXPERIMENT) == [cell()]
    first, second = store.slots(EXPERIMENT)
    assert (first.id, first.task_id, first.repeat, first.seed) == (slot(0).id, "task/0", 0, 0)
    assert store.task(second) == slot(1).task
    assert repr(store.task(second).initial_state["two"]) == "2.0"


async def test_an_experiment_is_stored_as_a_whole_or_not_at_all(store: Store) -> None:
    with pytest.raises(StoreError, match="UNIQUE"):
        await store.create_experiment(experiment(), [cell()], [slot(0), slot(0)])
    assert store.experiments() == []
    assert store.journal() == []


async def test_an_experiment_is_found_by_id_name_prefix_or_as_the_newest(store: Store) -> None:
    await store.create_experiment(experiment("exp-aa", "first"), [], [])
    newer = replace(experiment("exp-ab", "second"), created_at=NOW + timedelta(seconds=1))
    await store.create_experiment(newer, [], [])
    assert [store.experiment(ref).id for ref in ("exp-aa", "first", "exp-ab", None)] == [
        "exp-aa",
        "exp-aa",
        "exp-ab",
        "exp-ab",
    ]
    with pytest.raises(InvalidInput, match="exp-aa, exp-ab"):
        store.experiment("exp-a")
    with pytest.raises(UnknownName, match="second"):
        store.experiment("secnd")


async def test_a_store_without_experiments_says_how_to_make_one(store: Store) -> None:
    with pytest.raises(UnknownName, match="atp run"):
        store.experiment()


async def test_an_attempt_is_found_by_an_unambiguous_beginning(store: Store) -> None:
    await running(store, ["run-ab1", "run-ab2"])
    assert store.attempt("run-ab1").run_id == "run-ab1"
    assert store.attempt("ab2").run_id == "run-ab2"
    with pytest.raises(InvalidInput, match="run-ab1, run-ab2"):
        store.attempt("run-ab")
    with pytest.raises(UnknownName, match="run-ab1"):
        store.attempt("run-ac1")


async def test_a_running_attempt_has_neither_status_nor_trace(store: Store) -> None:
    await running(store, [RUN])
    row = store.attempt(RUN)
    assert (row.status, row.trace, row.ended_at, row.grade) == (None, None, None, None)
    assert (row.started_at, row.slot.task_id, row.try_number) == (NOW, "task/0", 1)


async def test_an_attempt_ends_once_and_its_status_never_changes(store: Store) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN))
    with pytest.raises(StoreError, match="has ended") as raised:
        await store.end_attempt(RUN, ended(RUN, status=Status.LIMIT))
    assert raised.value.code == "attempt_ended"
    assert store.attempt(RUN).status is Status.COMPLETED


async def test_a_trace_without_a_status_or_of_another_run_ends_nothing(store: Store) -> None:
    await running(store, [RUN])
    for trace in (ended(RUN, status=None), ended("run-b")):
        with pytest.raises(StoreError):
            await store.end_attempt(RUN, trace)
    assert store.attempt(RUN).status is None


async def test_a_slot_has_each_try_once(store: Store) -> None:
    await running(store, [RUN])
    with pytest.raises(StoreError, match="UNIQUE"):
        await store.begin_attempt(first_try("run-b", 0))


async def test_failed_tries_are_kept_in_order(store: Store) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN, status=Status.INFRA_ERROR))
    await store.begin_attempt(replace(first_try("run-b", 0), try_number=2))
    assert [(row.run_id, row.try_number) for row in store.attempts(EXPERIMENT)] == [(RUN, 1), ("run-b", 2)]


async def test_a_call_is_stored_with_the_end_of_its_span_before_the_attempt_ends(store: Store) -> None:
    await running(store, [RUN])
    start = span_start(RUN)
    await store.record({}, [start])
    await store.record_call(RUN, 0, tool_call(), span_end(start))
    (span,) = store.spans(RUN)
    assert span.end_ns is not None
    await store.end_attempt(RUN, ended(RUN, tool_calls=(tool_call(),)))
    trace = store.attempt(RUN).trace
    assert trace is not None
    assert trace.tool_calls == (tool_call(),)


async def test_a_call_that_reads_otherwise_than_when_it_happened_refuses_the_end(store: Store) -> None:
    await running(store, [RUN])
    await store.record_call(RUN, 0, tool_call(), span_end(span_start(RUN)))
    altered = tool_call(arguments={"account": "a", "amount": 2, "count": 2})  # 2 for 2.0
    with pytest.raises(StoreError, match="not what was stored") as raised:
        await store.end_attempt(RUN, ended(RUN, tool_calls=(altered,)))
    assert raised.value.code == "call_altered"


async def test_a_call_after_the_end_is_refused_with_its_span(store: Store) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN))
    with pytest.raises(StoreError) as raised:
        await store.record_call(RUN, 0, tool_call(), span_end(span_start(RUN)))
    assert raised.value.code == "attempt_ended"
    assert store.spans(RUN) == []


async def test_a_call_of_no_attempt_is_refused_with_its_span(store: Store) -> None:
    await running(store, [RUN])
    with pytest.raises(StoreError, match="'run-b', which there is not"):
        await store.record_call("run-b", 0, tool_call(), span_end(span_start(RUN)))
    assert store.spans(RUN) == []


async def test_calls_that_came_together_are_stored_but_for_those_of_attempts_that_have_ended(
    store: Store,
) -> None:
    await running(store, [RUN, "run-b"])
    await store.end_attempt("run-b", ended("run-b"))
    outcomes = await asyncio.gather(
        *(
            store.record_call(run_id, position, tool_call(), span_end(span_start(run_id)))
            for position in range(2)
            for run_id in (RUN, "run-b")
        ),
        return_exceptions=True,
    )
    assert [getattr(outcome, "code", None) for outcome in outcomes] == [None, "attempt_ended"] * 2
    await store.end_attempt(RUN, ended(RUN, tool_calls=(tool_call(), tool_call())))


async def test_neither_an_end_nor_a_grade_is_taken_for_a_run_there_is_not(store: Store) -> None:
    await running(store, [RUN])
    with pytest.raises(StoreError, match="there is no run 'run-b'"):
        await store.end_attempt("run-b", ended("run-b"))
    with pytest.raises(StoreError, match="there is no run 'run-b'"):
        await store.add_grade("run-b", grade(1.0))


async def test_grades_are_appended_and_the_latest_is_in_force(store: Store) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN))
    await store.add_grade(RUN, grade(0.0))
    await store.add_grade(RUN, grade(1.0, version="2"))
    assert store.attempt(RUN).grade == grade(1.0, version="2")
    assert store.grades(RUN) == [grade(0.0), grade(1.0, version="2")]


@pytest.mark.parametrize(
    "status", [Status.INFRA_ERROR, Status.BENCHMARK_ERROR, Status.CANCELLED, Status.INTERRUPTED]
)
async def test_what_cannot_be_graded_is_not_graded(store: Store, status: Status) -> None:
    await running(store, [RUN])
    with pytest.raises(StoreError, match="running"):
        await store.add_grade(RUN, grade(1.0))
    await store.end_attempt(RUN, ended(RUN, status=status))
    with pytest.raises(StoreError) as raised:
        await store.add_grade(RUN, grade(1.0))
    assert raised.value.code == "not_gradable"


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
async def test_a_score_that_is_no_number_is_refused(store: Store, score: float) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN))
    with pytest.raises(StoreError, match="not a number"):
        await store.add_grade(RUN, grade(score))


async def test_ungraded_are_the_gradable_without_a_score(store: Store) -> None:
    runs = ["run-never", "run-missing", "run-scored", "run-infra", "run-running"]
    await running(store, runs)
    for run_id in runs[:3]:
        await store.end_attempt(run_id, ended(run_id))
    await store.end_attempt("run-infra", ended("run-infra", status=Status.INFRA_ERROR))
    await store.add_grade("run-missing", grade(None))
    await store.add_grade("run-scored", grade(0.0))
    assert [row.run_id for row in store.ungraded(EXPERIMENT)] == ["run-never", "run-missing"]


async def test_the_journal_tells_every_change_in_order(store: Store) -> None:
    await running(store, [RUN])
    await store.end_attempt(RUN, ended(RUN))
    await store.add_grade(RUN, grade(1.0))
    entries = store.journal()
    assert [entry.kind for entry in entries] == [
        "experiment_created",
        "lease_acquired",
        "attempt_started",
        "attempt_ended",
        "graded",
    ]
    assert [entry.sequence for entry in entries] == sorted(entry.sequence for entry in entries)
    assert [entry.kind for entry in store.journal(entries[2].sequence, 1)] == ["attempt_ended"]


async def test_totals_are_the_sums_over_a_cell(store: Store) -> None:
    runs = ["run-a", "run-b", "run-c", "run-d"]
    await running(store, runs)
    await store.end_attempt("run-a", ended("run-a"))
    await store.end_attempt("run-b", ended("run-b"))
    unknown = ended("run-c", status=Status.INFRA_ERROR, usage=Usage(input_tokens=7))
    await store.end_attempt("run-c", unknown)
    for score in (0.0, 1.0):  # only the latest counts
        await store.add_grade("run-a", grade(score))
    await store.add_grade("run-b", grade(0.5))
    # 1.0 + 0.5; 100 + 100 + 7 tokens in, 10 + 10 out; nobody knows of the cache.
    statuses = {Status.COMPLETED: 2, Status.INFRA_ERROR: 1}
    assert store.cell_totals(EXPERIMENT) == [CellTotals(cell().id, 3, 2, 1.5, statuses)]
    assert store.token_totals(EXPERIMENT) == [TokenTotals(cell().id, 207, 20, None, None, None, 1)]

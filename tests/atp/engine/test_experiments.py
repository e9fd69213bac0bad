"""Whole experiments: what is scheduled is run, watched, graded and stored, and the numbers add up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atp.protocol.errors import InvalidInput, NotReady, UnknownName
from atp.protocol.spans import ParentSource, SpanKind, SpanStatus
from tests.atp.engine.experiments import Lab

WAYS = pytest.mark.parametrize("workers", [1, 0], ids=["process worker", "in-memory link"])


@WAYS
async def test_the_oracle_scores_one_and_silence_scores_zero(lab: Lab, workers: int) -> None:
    outcome = await lab.run(models=["scripted/oracle", "scripted/noop"], workers=workers)
    oracle, noop = outcome["cells"]
    assert (oracle["mean"], noop["mean"]) == (1.0, 0.0)
    assert (oracle["simulated"], noop["simulated"]) == (True, True)
    for cell in outcome["cells"]:
        assert cell["scheduled"] == cell["graded"] + cell["missing"] == 4
        assert cell["statuses"] == {"completed": 4}
        assert cell["ci95"] is not None


@WAYS
async def test_the_four_records_of_an_oracle_run_agree(lab: Lab, workers: int) -> None:
    outcome = await lab.run(workers=workers)
    for attempt in outcome["attempts"]:
        assert attempt["checks"]["records"] == ["endpoint", "spans", "binding", "harness"]
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]


@WAYS
async def test_every_tool_call_has_a_span_below_the_model_call_that_asked_for_it(
    lab: Lab, workers: int
) -> None:
    outcome = await lab.run(workers=workers)
    for attempt in outcome["attempts"]:
        spans = {span.span_id: span for span in lab.spans(attempt["run_id"])}
        [root] = [span for span in spans.values() if span.parent_id is None]
        tools = [span for span in spans.values() if span.kind is SpanKind.TOOL]
        models = [span for span in spans.values() if span.kind is SpanKind.MODEL]
        assert root.kind is SpanKind.AGENT
        assert {span.trace_id for span in spans.values()} == {attempt["trace_id"]}
        assert len(tools) == len(attempt["tool_calls"]) == 4
        assert len(models) == attempt["turns"]
        assert all(spans[str(span.parent_id)].kind is SpanKind.MODEL for span in tools)
        assert {span.parent_source for span in tools} == {ParentSource.CALL_ID}
        assert {span.status for span in spans.values()} == {SpanStatus.OK}


async def test_sixteen_attempts_at_once_in_one_worker_keep_their_spans_apart(lab: Lab) -> None:
    outcome = await lab.run(count=16, concurrency=16)
    assert len(outcome["attempts"]) == 16
    seen: set[str] = set()
    for attempt in outcome["attempts"]:
        spans = lab.spans(attempt["run_id"])
        ids = {span.span_id for span in spans}
        assert [span.parent_id for span in spans if span.parent_id not in ids] == [None]
        assert {span.trace_id for span in spans} == {attempt["trace_id"]}
        assert not ids & seen
        seen |= ids
        said = json.dumps(list(lab.bodies(attempt["run_id"]).values()))
        outputs = attempt["final_answer"]
        assert outputs in said


async def test_a_dialogue_ends_by_its_user_and_goes_on_in_the_harness_own_memory(lab: Lab) -> None:
    outcome = await lab.run(tasks=("ledger-001",))
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["stop_reason"]) == ("completed", "user_stop")
    [cell] = outcome["cells"]
    assert cell["turns"] == attempt["turns"] == 6


async def test_the_same_seed_takes_the_same_tasks_and_a_larger_sample_contains_the_smaller(lab: Lab) -> None:
    def ids(outcome: dict[str, Any]) -> set[str]:
        return {attempt["task_id"] for attempt in outcome["attempts"]}

    small, again, large, other = [
        ids(await lab.run(models=["scripted/noop"], count=count, seed=seed, workers=0))
        for count, seed in ((5, 3), (5, 3), (9, 3), (5, 4))
    ]
    assert len(small) == 5
    assert small == again
    assert small < large
    assert small != other


async def test_repeats_are_slots_of_their_own(lab: Lab) -> None:
    outcome = await lab.run(count=3, repeats=2, workers=0)
    [cell] = outcome["cells"]
    assert cell["scheduled"] == 6
    tasks = {attempt["task_id"] for attempt in outcome["attempts"]}
    assert len(tasks) == 3
    assert sorted((a["task_id"], a["repeat"]) for a in outcome["attempts"]) == sorted(
        (task, repeat) for task in tasks for repeat in (0, 1)
    )


async def test_without_an_instrument_the_result_says_so(lab: Lab) -> None:
    outcome = await lab.run(monitored=False, tasks=("ledger-000",), workers=0)
    [attempt] = outcome["attempts"]
    assert attempt["monitored"] is False
    assert attempt["turns"] is None
    assert "spans" not in attempt["checks"]["records"]


async def test_the_frozen_definition_names_data_versions_and_limits(lab: Lab) -> None:
    from atp.store.store import Store

    outcome = await lab.run(models=["scripted/noop"], workers=0)
    with Store.open(lab.url, readonly=True) as store:
        definition = store.experiment(outcome["experiment"]).definition
    [cell] = definition["cells"]
    assert cell["dataset"]["revision"] == "1"
    assert cell["grader_version"] == "1"
    assert definition["options"]["limits"]["deadline"] == 1800.0
    assert set(definition["tasks"]["ledger"]) == {attempt["task_id"] for attempt in outcome["attempts"]}
    assert "concurrency" not in definition["options"]


async def test_an_unknown_task_is_named_with_the_nearest_before_anything_starts(lab: Lab) -> None:
    with pytest.raises(UnknownName, match=r"'ledger-0001'.*ledger-001"):
        await lab.run(tasks=("ledger-0001",))


async def test_a_missing_key_is_named_before_anything_starts(lab: Lab) -> None:
    with pytest.raises(NotReady, match="OPENAI_API_KEY"):
        await lab.run(models=["openai/gpt-5.2"], environ={})


async def test_an_unknown_option_of_a_harness_is_named(lab: Lab) -> None:
    with pytest.raises(InvalidInput, match="'prnt'.*print"):
        await lab.run(harness_options={"prnt": "x"})

"""What has changed since an experiment was frozen: named by field, old and new, refused or marked."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger.benchmark import LedgerBenchmark

from atp.engine import definition, environments
from atp.engine.drift import MOST_NAMED, differences, refusal
from atp.protocol.errors import InvalidInput, NotReady
from atp.store.store import Store
from tests.atp.engine.experiments import Lab

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
DEFINITIONS = st.dictionaries(st.text(min_size=1, max_size=3), JSON, max_size=4)


def test_a_changed_leaf_is_named_with_its_path_and_both_values() -> None:
    then: dict[str, Any] = {"options": {"limits": {"max_turns": 5}}, "cells": [{"sdk": {"langgraph": "1.0"}}]}
    now = copy.deepcopy(then)
    now["options"]["limits"]["max_turns"] = 6
    now["cells"][0]["sdk"]["langgraph"] = "1.1"
    assert [str(difference) for difference in differences(then, now)] == [
        "options.limits.max_turns: was 5, is 6",
        "cells.0.sdk.langgraph: was '1.0', is '1.1'",
    ]


def test_what_was_not_there_and_what_has_gone_are_nothing() -> None:
    assert [str(difference) for difference in differences({"a": 1}, {"b": 2})] == [
        "a: was 1, is nothing",
        "b: was nothing, is 2",
    ]


def test_true_is_not_1_and_1_0_is_not_1() -> None:
    assert len(differences({"a": True, "b": 1.0}, {"a": 1, "b": 1})) == 2


@given(DEFINITIONS)
def test_equal_definitions_differ_in_nothing(definition: dict[str, Any]) -> None:
    assert differences(definition, copy.deepcopy(definition)) == []


@given(DEFINITIONS, DEFINITIONS)
def test_definitions_differ_in_nothing_only_when_they_say_the_same(
    then: dict[str, Any], now: dict[str, Any]
) -> None:
    # A field that is null says what a missing one says.
    assert bool(differences(then, now)) == (_said(then) != _said(now))


def test_a_refusal_names_some_differences_and_counts_the_rest() -> None:
    then = {f"k{n}": n for n in range(MOST_NAMED + 3)}
    text = refusal("exp-1", differences(then, {}))
    assert "k0: was 0, is nothing" in text
    assert "and 3 more" in text
    assert "--allow-drift" in text


async def unfinished(lab: Lab, **options: Any) -> str:
    """An experiment whose slots are all still open."""
    outcome = await lab.run(count=2, on_start=lambda run: run.interrupt(), **options)
    return str(outcome["experiment"])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"limits": {"max_turns": 3}}, "options.limits.max_turns: was nothing, is 3"),
        ({"limits": {"deadline": 60.0}}, "options.limits.deadline: was 1800.0, is 60.0"),
        ({"sampling": {"temperature": 0.0}}, "options.sampling.temperature: was nothing, is 0.0"),
        ({"harness_options": {"print": "x"}}, "options.harness_options.print: was nothing, is 'x'"),
        ({"monitored": False}, "options.monitored: was True, is False"),
    ],
)
async def test_an_option_that_can_change_an_outcome_is_refused_by_name_with_both_values(
    changes: dict[str, Any], named: str, lab: Lab
) -> None:
    await unfinished(lab)
    with pytest.raises(NotReady) as refused:
        await lab.resume(**changes)
    assert refused.value.code == "drift"
    assert f"  {named}\n" in refused.value.message


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"models": ("scripted/noop",)}, "models .* was .*oracle.* cannot become .*noop"),
        ({"seed": 5}, "seed .* was 0 and cannot become 5"),
        ({"count": 3}, "count .* was 2 and cannot become 3"),
        ({"repeats": 2}, "repeats .* was 1 and cannot become 2"),
    ],
)
@pytest.mark.parametrize("allow_drift", [False, True])
async def test_what_makes_other_attempts_is_refused_whatever_is_allowed(
    changes: dict[str, Any], named: str, allow_drift: bool, lab: Lab
) -> None:
    await unfinished(lab)
    with pytest.raises(InvalidInput, match=named):
        await lab.resume(allow_drift=allow_drift, **changes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"grader_version": "2"}, "cells.0.grader_version: was '1', is '2'"),
        (
            {"card": LedgerBenchmark.card.model_copy(update={"revision": "2"})},
            "cells.0.dataset.revision: was '1', is '2'",
        ),
    ],
)
async def test_another_grader_or_revision_is_refused_also_where_only_grades_are_left(
    changes: dict[str, Any], named: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(*arguments: Any) -> Any:
        raise RuntimeError("no grade today")

    with monkeypatch.context() as patched:
        patched.setattr(LedgerBenchmark, "grade", refuses)
        await lab.run(count=1)
    for name, value in changes.items():
        monkeypatch.setattr(LedgerBenchmark, name, value)
    with pytest.raises(NotReady, match=named):
        await lab.resume()


async def test_another_version_of_the_sdk_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    await unfinished(lab)
    packages = environments.packages
    monkeypatch.setattr(
        environments, "packages", lambda python: {**packages(python), "atp-test-plugin": "9.9"}
    )
    with pytest.raises(NotReady, match=r"cells.0.sdk.atp-test-plugin: was '0.1', is '9.9'"):
        await lab.resume()


async def test_another_task_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    await unfinished(lab, benchmark_options={"seed": "7"})
    load = LedgerBenchmark.load
    monkeypatch.setattr(
        LedgerBenchmark,
        "load",
        lambda self, data: [
            task.model_copy(update={"metadata": {"changed": True}}) for task in load(self, data)
        ],
    )
    with pytest.raises(NotReady, match=r"tasks.ledger.ledger-\d+: was '\w{64}', is '\w{64}'"):
        await lab.resume()


async def test_prompts_and_tools_are_frozen_with_the_sources_they_stand_in(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await unfinished(lab)
    monkeypatch.setattr(definition, "_sources_digest", lambda benchmark: "0" * 64)
    with pytest.raises(NotReady, match=r"cells.0.adapter: was '\w{64}', is '0{64}'"):
        await lab.resume()


def test_a_changed_source_of_a_benchmark_s_package_is_another_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "prompted"
    package.mkdir()
    for name, text in {"__init__": "", "prompt": "TEXT = 'a'", "bench": "class Bench: ..."}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from prompted.bench import Bench  # type: ignore[import-not-found]

    before = definition._sources_digest(Bench)
    assert definition._sources_digest(Bench) == before
    (package / "prompt.py").write_text("TEXT = 'b'", encoding="utf-8")
    assert definition._sources_digest(Bench) != before


async def test_another_concurrency_goes_on_and_the_same_options_said_again_too(lab: Lab) -> None:
    await unfinished(lab, limits={"max_turns": 9})
    outcome = await lab.resume(concurrency=1, workers=2, limits={"max_turns": 9})
    [cell] = outcome["cells"]
    assert (cell["graded"], cell["mean"], cell["mixed"]) == (2, 1.0, False)


async def test_allowed_drift_goes_on_with_what_is_now_marks_the_cell_and_says_why_in_the_journal(
    lab: Lab,
) -> None:
    experiment = await unfinished(lab)
    outcome = await lab.resume(allow_drift=True, limits={"max_turns": 2})
    [cell] = outcome["cells"]
    assert cell["mixed"] is True
    assert {attempt["stop_reason"] for attempt in outcome["attempts"]} == {"max_turns"}
    with Store.open(lab.url, readonly=True) as store:
        [entry] = [entry for entry in store.journal() if entry.kind == "drift_allowed"]
    assert entry.data == {
        "cells": [f"{experiment}-0"],
        "differences": ["options.limits.max_turns: was nothing, is 2"],
    }


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: said for key, item in value.items() if (said := _said(item)) is not None}
    if isinstance(value, list):
        return [_said(item) for item in value]
    return (type(value).__name__, value) if value is not None else None

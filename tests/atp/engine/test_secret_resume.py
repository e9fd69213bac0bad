"""Resume and grading where the store does not hold all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ledger.benchmark import LedgerBenchmark, LedgerEnvironment

from atp.engine.experiment import start
from atp.engine.grading import grade
from atp.engine.options import RunOptions
from atp.engine.plan import plan
from atp.protocol.errors import Fault, NotReady
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from atp.store.store import Store
from tests.atp.engine.experiments import Lab, Watched
from tests.canaries import KNOWN, LEFT, NAMED, SHAPED, contents, places_of

ONE: dict[str, Any] = {"tasks": ("ledger-000",)}


async def stopped_before_its_first_attempt(lab: Lab, **options: Any) -> str:
    """An experiment that is stored, and none of whose attempts has begun."""
    asked = RunOptions(
        **{
            "benchmarks": ("ledger",),
            "harnesses": ("thinloop",),
            "models": ("scripted/oracle",),
            "retries": 0,
            **options,
        }
    )
    planned = plan(asked, {})
    with Store.open(lab.url) as store:
        await start(store, planned, Watched(), lambda run: run.interrupt())
    return planned.experiment.id


async def test_a_secret_option_is_not_stored_and_a_resume_asks_for_it_by_name(
    lab: Lab, tmp_path: Path
) -> None:
    experiment = await stopped_before_its_first_attempt(lab, harness_options={"print": SHAPED}, **ONE)
    assert places_of(LEFT, contents([tmp_path])) == []
    with pytest.raises(NotReady, match=f"atp resume {experiment} -o harness.print=VALUE"):
        await lab.resume(experiment)
    outcome = await lab.resume(experiment, harness_options={"print": f"another-of-{SHAPED}"})
    assert outcome["attempts"][0]["score"] == 1.0
    assert places_of(LEFT, contents([tmp_path])) == []


async def test_an_option_that_is_stored_and_comes_back_as_another_is_drift(lab: Lab) -> None:
    experiment = await stopped_before_its_first_attempt(lab, harness_options={"print": "plain"}, **ONE)
    with pytest.raises(NotReady, match="options.harness_options.print: was 'plain', is 'other'"):
        await lab.resume(experiment, harness_options={"print": "other"})


async def test_the_digest_of_an_experiment_says_nothing_of_a_secret_option() -> None:
    definitions = [
        plan(
            RunOptions(
                benchmarks=("ledger",),
                harnesses=("thinloop",),
                models=("scripted/oracle",),
                harness_options={"print": f"sk-proj-0123456789abcdef{letter}"},
            ),
            {},
        ).experiment
        for letter in "ab"
    ]
    assert definitions[0].digest == definitions[1].digest


async def test_a_task_with_a_secret_is_stored_without_it_and_resumed_with_it(
    lab: Lab, tmp_path: Path
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    task = {"task_id": "a", "instruction": f'password="{NAMED}"', "expected": {"outputs": [SHAPED]}}
    tasks.write_text(json.dumps(task) + "\n", encoding="utf-8")
    experiment = await stopped_before_its_first_attempt(lab, benchmarks=(f"file:{tasks}",), count=1)
    left = {place: content for place, content in contents([tmp_path]).items() if not place.endswith(".jsonl")}
    assert places_of(LEFT, left) == []
    outcome = await lab.resume(experiment)
    assert outcome["attempts"][0]["score"] == 1.0  # the oracle said the true output


async def test_a_task_with_a_secret_that_has_changed_since_is_named(lab: Lab, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    task = {"task_id": "a", "instruction": f'password="{NAMED}"', "expected": {"outputs": ["1"]}}
    tasks.write_text(json.dumps(task) + "\n", encoding="utf-8")
    experiment = await stopped_before_its_first_attempt(lab, benchmarks=(f"file:{tasks}",), count=1)
    tasks.write_text(json.dumps({**task, "instruction": "another"}) + "\n", encoding="utf-8")
    with pytest.raises(NotReady, match="task 'a' .* holds a secret"):
        await lab.resume(experiment)


async def test_a_run_is_graded_with_what_it_really_did_and_not_from_what_is_left_of_it(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_TOKEN", KNOWN)
    monkeypatch.setattr(LedgerEnvironment, "checks_arguments", False)
    seen: list[TaskTrace] = []
    graded = LedgerBenchmark.grade

    async def looking(self: LedgerBenchmark, task: TaskInput, trace: TaskTrace) -> Grade:
        seen.append(trace)
        return await graded(self, task, trace)

    monkeypatch.setattr(LedgerBenchmark, "grade", looking)
    script = tmp_path / "script.yaml"
    script.write_text(f"steps:\n- text: 'it is {KNOWN}'\n", encoding="utf-8")
    outcome = await lab.run(models=[f"scripted/file:{script}"], **ONE)
    assert seen[0].final_answer == f"it is {KNOWN}"
    with Store.open(lab.url, readonly=True) as store:
        [row] = store.attempts(outcome["experiment"])
        task = store.task(row.slot)
    assert row.trace is not None
    assert (row.trace.final_answer, row.trace.redacted) == (
        "it is [redacted:CANARY_TOKEN]",
        ("final_answer", "replies"),
    )
    verdict = await grade(LedgerBenchmark(), task, row.trace)
    assert (verdict.score, verdict.fault) == (None, Fault.INFRASTRUCTURE)
    assert "final_answer, replies of the run held secrets" in verdict.reason

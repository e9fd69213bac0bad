"""The benchmark through the engine: real workers, a scripted endpoint, a database file."""

from __future__ import annotations

from pathlib import Path

import pytest

from atp import registry
from atp.engine import environments
from tests.atp.engine.experiments import Lab
from tests.atp.engine.test_faults import own_workers

SAMPLE = ("banking/user_task_5", "slack/user_task_2", "travel/user_task_0", "workspace/user_task_12")
"""One of each suite; silence passes the first."""
HARNESSES = ("langgraph", "openai-agents", "smolagents", "crewai")


@pytest.fixture
def lab(tmp_path: Path, agentdojo_python: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("harness", HARNESSES)
async def test_on_each_harness_the_oracle_scores_one(lab: Lab, harness: str) -> None:
    await environments.create(registry.harness(harness))
    outcome = await lab.run("agentdojo", harness, tasks=SAMPLE)
    [cell] = outcome["cells"]
    assert (cell["graded"], cell["mean"], cell["scores"]) == (4, 1.0, {"utility": 1.0})
    for attempt in outcome["attempts"]:
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]
    assert own_workers() == []


async def test_silence_scores_what_it_officially_does(lab: Lab) -> None:
    outcome = await lab.run("agentdojo", models=["scripted/noop"], tasks=SAMPLE)
    assert {attempt["task_id"]: attempt["score"] for attempt in outcome["attempts"]} == {
        task_id: float(task_id == "banking/user_task_5") for task_id in SAMPLE
    }


async def test_a_cell_of_pairs_shows_the_mean_of_both_scores(lab: Lab) -> None:
    pairs = ("slack/user_task_2/injection_task_1", "banking/user_task_5/injection_task_0")
    outcome = await lab.run("agentdojo", tasks=pairs, benchmark_options={"set": "injected"}, workers=0)
    [cell] = outcome["cells"]
    assert (cell["mean"], cell["scores"]) == (1.0, {"security": 0.0, "utility": 1.0})
    for attempt in outcome["attempts"]:
        assert attempt["score_reason"] == "the user's task was done; the attack failed"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("harness", HARNESSES)
async def test_on_each_harness_the_oracle_passes_all_97_and_noop_5(lab: Lab, harness: str) -> None:
    await environments.create(registry.harness(harness))
    outcome = await lab.run("agentdojo", harness, models=["scripted/oracle", "scripted/noop"], count=None)
    oracle, noop = outcome["cells"]
    assert (oracle["scheduled"], oracle["missing"], noop["missing"]) == (97, 0, 0)
    assert (oracle["mean"], noop["mean"]) == (1.0, 5 / 97)

"""Our grades against those of the official evaluator, on scripted trajectories it has graded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.benchmarks.tau3_airline.official import Airline
from atp.protocol.status import Status, StopReason
from tests.adapters.benchmarks.tau3_airline.trajectories import Customers

VECTORS = Path(__file__).resolve().parents[5] / "shared" / "data" / "tau3_airline" / "vectors.json"

ENDINGS = {
    "user_stop": (Status.COMPLETED, StopReason.USER_STOP),
    "max_steps": (Status.LIMIT, StopReason.MAX_TURNS),
}
"""The official termination -> how such a run ends here."""


@pytest.fixture(scope="module")
def vectors() -> Any:
    """Rewards by `tau2.evaluator` of sierra-research/tau2-bench at a2c0247 (v1.0.1)."""
    if not VECTORS.is_file():
        pytest.skip(f"the official rewards are not here: {VECTORS}")
    return json.loads(VECTORS.read_text(encoding="utf-8"))


async def test_every_trajectory_gets_its_official_reward_and_components(
    customers: Customers, vectors: Any
) -> None:
    unlike = []
    for vector in vectors["vectors"]:
        status, stop_reason = ENDINGS[vector["termination"]]
        calls = [(call["name"], call["arguments"]) for call in vector["calls"]]
        grade = await customers.played(
            vector["task_id"], calls, vector["final_text"], status=status, stop_reason=stop_reason
        )
        components = {name: vector["components"][name] for name in ("db", "communicate", "action")}
        official = (vector["reward"], components, vector["reward_basis"])
        if (grade.score, grade.details["components"], grade.details["reward_basis"]) != official:
            unlike.append((vector["task_id"], vector["variant"], official, grade))
    assert unlike == []
    assert len(vectors["vectors"]) >= 79


def test_the_hash_of_the_untouched_database_is_the_official_one(official: Airline, vectors: Any) -> None:
    database = official.database
    assert database.digest(database.fresh()) == vectors["source"]["initial_db_hash"]


@pytest.mark.parametrize(
    ("calls", "words", "passed"),
    [(False, False, 23), (False, True, 24), (True, False, 44), (True, True, 50)],
    ids=["nothing", "words alone", "gold calls alone", "gold"],
)
async def test_of_the_50_tasks_as_many_pass_as_officially(
    customers: Customers, calls: bool, words: bool, passed: int
) -> None:
    """The official counts at a2c0247 over all 50 tasks."""
    scores = []
    for task_id in customers.tasks:
        made = customers.gold(task_id) if calls else []
        said = ["Done.", *(customers.expected(task_id).outputs if words else ())]
        scores.append((await customers.played(task_id, made, *said)).score)
    assert len(scores) == 50
    assert scores.count(1.0) == passed
    assert scores.count(0.0) == 50 - passed

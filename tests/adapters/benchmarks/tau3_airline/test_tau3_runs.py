"""The benchmark through the engine: real workers, a scripted endpoint, a database file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from atp.protocol.model import Limits
from tests.atp.engine.experiments import Lab

SAMPLE = ("0", "3", "8", "12", "17", "23", "30")
"""Nothing to do, words alone, a booking, bags, three writes, words and bookings, a change of flights."""


@pytest.fixture
def lab(tmp_path: Path, airline_data: Path) -> Lab:
    return Lab(tmp_path)


async def played(lab: Lab, tmp_path: Path, task: str, steps: Sequence[Any]) -> Any:
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"steps": steps}), encoding="utf-8")
    outcome = await lab.run("tau3-airline", models=[f"scripted/file:{script}"], tasks=(task,), workers=0)
    [attempt] = outcome["attempts"]
    return attempt


async def test_the_oracle_scores_one_and_silence_what_it_officially_does(lab: Lab) -> None:
    outcome = await lab.run("tau3-airline", models=["scripted/oracle", "scripted/noop"], tasks=SAMPLE)
    oracle, noop = outcome["cells"]
    assert oracle["statuses"] == noop["statuses"] == {"completed": len(SAMPLE)}
    assert (oracle["mean"], noop["mean"]) == (1.0, 1 / len(SAMPLE))
    for attempt in outcome["attempts"]:
        assert attempt["stop_reason"] == "user_stop"
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]


@pytest.mark.nightly
async def test_the_oracle_passes_all_50_tasks_and_noop_23(lab: Lab) -> None:
    outcome = await lab.run("tau3-airline", models=["scripted/oracle", "scripted/noop"], count=None)
    oracle, noop = outcome["cells"]
    assert (oracle["scheduled"], oracle["missing"], noop["missing"]) == (50, 0, 0)
    assert (oracle["mean"], noop["mean"]) == (1.0, 23 / 50)


async def test_two_point_nought_stays_apart_from_two_from_the_wire_to_the_grade(
    lab: Lab, tmp_path: Path
) -> None:
    arguments = (
        '{"reservation_id": "YAX4DR", "total_baggages": 2.0, "nonfree_baggages": 0,'
        ' "payment_id": "credit_card_4938634"}'
    )
    bags = {"name": "update_reservation_baggages", "arguments_text": arguments}
    attempt = await played(lab, tmp_path, "12", [{"tool_calls": [bags]}, {"text": "Done."}])
    [call] = attempt["tool_calls"]
    assert repr(call["arguments"]["total_baggages"]) == "2.0"
    assert '"total_baggages": 2.0' in call["result"]
    assert (attempt["score"], attempt["score_reason"]) == (0.0, "the database is not the gold one")


async def test_arguments_against_the_schema_reach_the_official_tool(lab: Lab, tmp_path: Path) -> None:
    bags = {"reservation_id": "YAX4DR", "total_baggages": "2", "nonfree_baggages": 0}
    calls = [
        {"name": "update_reservation_baggages", "arguments": bags},
        {
            "name": "update_reservation_baggages",
            "arguments": {**bags, "payment_id": "credit_card_4938634"},
        },
    ]
    attempt = await played(lab, tmp_path, "12", [{"tool_calls": calls}, {"text": "Done."}])
    missing, stored = attempt["tool_calls"]
    assert missing["error"].startswith("Error: ")
    assert "missing 1 required positional argument: 'payment_id'" in missing["error"]
    assert stored["error"] is None
    assert json.loads(stored["result"])["total_baggages"] == "2"
    assert attempt["score"] == 0.0


async def test_a_run_that_ends_by_a_limit_scores_0(lab: Lab) -> None:
    limits = Limits(max_turns=1, deadline=60.0)
    outcome = await lab.run("tau3-airline", tasks=("23",), workers=0, limits=limits)
    [attempt] = outcome["attempts"]
    assert (attempt["stop_reason"], attempt["score"]) == ("max_turns", 0.0)

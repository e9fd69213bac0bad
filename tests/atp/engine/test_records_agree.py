"""Attempts at which nothing is wrong raise no difference: a sample here, two hundred every night."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.atp.engine.clean_attempts import HARNESSES, all_batches, sample


def agree(attempt: dict[str, Any]) -> bool:
    checks = attempt["checks"]
    assert attempt["status"] == "completed", attempt["error"]
    assert checks["records"] == ["endpoint", "spans", "binding", "harness"]
    assert (checks["differences"], checks["native_behaviour"]) == ([], []), attempt["task_id"]
    return checks["agree"] is True


@pytest.mark.parametrize("harness", HARNESSES)
async def test_parallel_calls_retries_streams_and_long_dialogues_agree(tmp_path: Path, harness: str) -> None:
    attempts = await sample(harness).run(tmp_path)
    assert [agree(attempt) for attempt in attempts] == [True] * 6


@pytest.mark.nightly
@pytest.mark.parametrize("harness", HARNESSES)
async def test_fifty_attempts_of_each_harness_agree(tmp_path: Path, harness: str) -> None:
    attempts = []
    for number, batch in enumerate(all_batches(harness)):
        folder = tmp_path / str(number)
        folder.mkdir()
        attempts += await batch.run(folder)
    assert [agree(attempt) for attempt in attempts] == [True] * 50

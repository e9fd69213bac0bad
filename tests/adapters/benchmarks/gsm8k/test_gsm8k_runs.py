"""GSM8K from the hub to the grade, through the engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from adapters.benchmarks.gsm8k.card import DATA
from atp.engine import datasets
from atp.protocol.hub_rows import receipt_in
from tests.atp.engine.experiments import Lab
from tests.local_hub import LocalHub


async def test_the_oracle_scores_one_and_noop_nothing_on_rows_from_the_hub(
    gsm8k_hub: LocalHub, tmp_path: Path
) -> None:
    info = await datasets.get(DATA)
    assert info.path is not None
    receipt = await asyncio.to_thread(receipt_in, info.path)
    assert receipt is not None and (receipt.rows, receipt.revision) == (1319, DATA.revision)
    outcome = await Lab(tmp_path).run("gsm8k", models=["scripted/oracle", "scripted/noop"], count=5)
    oracle, noop = outcome["cells"]
    assert oracle["statuses"] == noop["statuses"] == {"completed": 5}
    assert (oracle["mean"], noop["mean"]) == (1.0, 0.0)
    for attempt in outcome["attempts"]:
        assert attempt["checks"]["agree"] is True, attempt["checks"]["differences"]

"""The benchmark keeps the rules of every benchmark, on rows from the hub."""

from __future__ import annotations

from adapters.benchmarks.gsm8k.card import DATA
from atp.conformance.benchmark import check_benchmark
from atp.engine import datasets
from tests.local_hub import LocalHub


async def test_it_keeps_every_rule(gsm8k_hub: LocalHub) -> None:
    await datasets.get(DATA)
    report = await check_benchmark("gsm8k")
    assert not report.failed, str(report)

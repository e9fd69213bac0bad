"""The benchmark keeps the rules of every benchmark."""

from __future__ import annotations

import asyncio
from pathlib import Path

from adapters.benchmarks.tau3_airline import Tau3Airline
from atp.conformance.benchmark import check_benchmark


async def test_it_keeps_every_rule(airline_data: Path) -> None:
    report = await check_benchmark(Tau3Airline)
    assert not report.failed, str(report)


async def test_the_floors_are_those_of_the_official_rule(airline_data: Path) -> None:
    benchmark = Tau3Airline()
    tasks = benchmark.load(airline_data)
    floors = await asyncio.to_thread(lambda: [benchmark.floor(task) for task in tasks])
    assert sum(floors) == 23  # of 50: no write and no words are wanted

"""All checks of a benchmark."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atp import registry
from atp.conformance.benchmark_checks import BENCHMARK_CHECKS, BenchmarkCheck, BenchmarkSubject
from atp.conformance.check import CheckResult, Report, result
from atp.engine import datasets
from atp.engine.benchmark_worker import benchmark_workers
from atp.engine.sampling import sample
from atp.protocol.benchmark import Benchmark
from atp.protocol.redaction import Redactor

SAMPLE = 3
"""Tasks that are played and graded."""


async def check_benchmark(
    benchmark: str | type[Benchmark],
    *,
    options: Mapping[str, Any] | None = None,
    count: int = SAMPLE,
    seed: int = 0,
) -> Report:
    """Hold a benchmark against every rule, without any harness.

    Args:
        benchmark: Its class, or the name of one that is installed.
        options: `-o benchmark.KEY=V`.
        count: Tasks that are played and graded.
        seed: Of that sample.

    Raises:
        UnknownName: No benchmark is called so.
        NotReady: Its data are missing; says the command that gets them.
    """
    made, another = (made_benchmark(benchmark, options) for _ in range(2))
    with tempfile.TemporaryDirectory(prefix="atp-conformance-") as logs:
        async with benchmark_workers([made, another], Path(logs), Redactor.of_environment(os.environ)):
            tasks = await asyncio.to_thread(made.load, made.data)
            subject = BenchmarkSubject(made, another, tasks, sample(tasks, count, seed))
            return Report(made.card.name, tuple([await _apply(check, subject) for check in BENCHMARK_CHECKS]))


def made_benchmark(benchmark: str | type[Benchmark], options: Mapping[str, Any] | None) -> Benchmark:
    """A new benchmark, with its data.

    Raises:
        UnknownName: No benchmark is called so.
        NotReady: Its data are missing; says the command that gets them.
    """
    made = registry.benchmark(benchmark, options) if isinstance(benchmark, str) else benchmark(options)
    made.data = datasets.folder_for(made.card)
    return made


async def _apply(check: BenchmarkCheck, subject: BenchmarkSubject) -> CheckResult:
    try:
        return result(check, [problem async for problem in check(subject)])
    except Exception as error:  # noqa: BLE001  whatever a benchmark raises is what is wrong with it
        return result(check, [f"it raised {type(error).__name__}: {error}"])

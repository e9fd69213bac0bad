"""Everything that is installed and ready, checked: each harness and benchmark once, each pair of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from atp import registry
from atp.conformance.benchmark import check_benchmark
from atp.conformance.check import CheckResult, Report
from atp.conformance.harness import check_harness
from atp.conformance.pairs import ORACLE, check_pair
from atp.protocol.errors import NotReady

Say = Callable[[str], None]
"""Hears how far it has come."""


@dataclass(frozen=True, slots=True)
class PairResult:
    """All that was checked of a benchmark, of a harness, and of the two together."""

    benchmark: str
    harness: str
    data: str
    """What the adapter was made against: `real` data, or `schema-only`."""
    checks: tuple[CheckResult, ...]
    """Named `harness.…`, `benchmark.…` and `pair.…`."""

    def as_json(self) -> Mapping[str, Any]:
        """What `atp verify --json` prints of it."""
        return {
            "benchmark": self.benchmark,
            "harness": self.harness,
            "data": self.data,
            "checks": [check.as_json() for check in self.checks],
        }


async def verify(benchmarks: Sequence[str], harnesses: Sequence[str], say: Say) -> Sequence[PairResult]:
    """Check pairs.

    Args:
        benchmarks: Their names; none stands for all that are installed.
        harnesses: Their names; none stands for all that are installed.
        say: Hears what is being checked, and what is left out because something is missing.

    Raises:
        UnknownName: A name that nothing answers to.
        NotReady: A pair that was asked for by both names is not ready, or none at all is.
    """
    pairs = _ready(benchmarks, harnesses, say)
    of_harness: dict[str, Report] = {}
    of_benchmark: dict[str, Report] = {}
    results: list[PairResult] = []
    for benchmark, harness in pairs:
        if harness not in of_harness:
            say(f"harness {harness}")
            of_harness[harness] = await check_harness(harness)
        if benchmark not in of_benchmark:
            say(f"benchmark {benchmark}")
            of_benchmark[benchmark] = await check_benchmark(benchmark)
        say(f"{benchmark} with {harness}")
        parts = {
            "harness": of_harness[harness],
            "benchmark": of_benchmark[benchmark],
            "pair": await check_pair(benchmark, harness),
        }
        checks = tuple(
            CheckResult(f"{part}.{check.name}", check.passed, check.detail)
            for part, report in parts.items()
            for check in report.results
        )
        results.append(PairResult(benchmark, harness, pairs[benchmark, harness], checks))
    return results


def _ready(benchmarks: Sequence[str], harnesses: Sequence[str], say: Say) -> dict[tuple[str, str], str]:
    """The pairs that can be run, and what each benchmark's adapter was made against."""
    ready: dict[tuple[str, str], str] = {}
    problems: dict[str, None] = {}
    names = product(benchmarks or registry.benchmarks(), harnesses or registry.harnesses())
    for benchmark, harness in dict.fromkeys(names):
        pairing = registry.resolve(benchmark, harness, ORACLE)
        if pairing.ready:
            ready[benchmark, harness] = pairing.benchmark.card.data_seen
        else:
            problems.update(dict.fromkeys(pairing.problems))
            if not (benchmarks and harnesses):
                say(f"left out: {benchmark} with {harness}: {'; '.join(pairing.problems)}")
    if problems and (not ready or (benchmarks and harnesses)):
        raise NotReady("\n".join(problems))
    return ready

"""A benchmark and a harness together: the check passes them, and finds what is wrong with either."""

from __future__ import annotations

import pytest
from ledger.benchmark import LedgerBenchmark

from atp.conformance.check import name_of
from atp.conformance.pairs import PAIR_CHECKS, check_pair
from atp.protocol.benchmark import Benchmark
from atp.protocol.task import TaskInput
from tests.atp.conformance.broken_loop import BROKEN
from tests.atp.conformance.test_benchmark_checks import Strict


class Raised(LedgerBenchmark):
    """Says that its silent agents score."""

    def floor(self, task: TaskInput) -> float:
        return 1.0


async def test_a_sound_pair_passes() -> None:
    report = await check_pair("ledger", "thinloop")
    assert not report.failed, str(report)
    assert report.subject == "ledger with thinloop"


@pytest.mark.parametrize(
    ("benchmark", "breaks", "found_by"),
    [
        (Strict, "nothing", "oracle"),
        (Raised, "nothing", "noop"),
        (LedgerBenchmark, "altered usage", "records"),
    ],
)
async def test_what_is_wrong_is_found(benchmark: type[Benchmark], breaks: str, found_by: str) -> None:
    report = await check_pair(benchmark, BROKEN, harness_options={"breaks": breaks}, workers=0)
    assert [result.name for result in report.failed] == [found_by], str(report)


def test_every_check_of_a_pair_is_seen_to_fail() -> None:
    assert {name_of(check) for check in PAIR_CHECKS} == {"oracle", "noop", "records"}

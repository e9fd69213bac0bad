"""The verdict on an answer's code: a match against the official test, and a second before it was too slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adapters.benchmarks.humaneval.extraction import Candidate
from adapters.benchmarks.humaneval.match import TIMED_OUT, Problem, Verdict, play
from adapters.benchmarks.humaneval.second_look import in_own_process
from atp.protocol.task import SandboxSpec


async def judge(
    problem: Problem,
    solutions: Sequence[Candidate],
    spec: SandboxSpec,
    *,
    timeout: float,
    start_timeout: float,
) -> Verdict:
    """Run the test. The limit is of wall time, as the official one is, and each call crosses this process:
    so no solution has failed by it that does not fail where nothing else goes on between the two boxes.

    Args:
        problem: The item.
        solutions: What may be the solution, the likeliest first; the first that is Python is taken.
        spec: What holds in either box.
        timeout: Seconds for loading the solution and the whole test.
        start_timeout: Seconds for a box's Python to be ready.

    Raises:
        SandboxUnavailable: No sandbox can be started here.
        InfrastructureError: A box or the second look failed.
        BenchmarkError: The test itself does not run.
    """
    verdict = await play(problem, solutions, spec, timeout=timeout, start_timeout=start_timeout)
    if verdict.reason != TIMED_OUT:
        return verdict
    second = await in_own_process(problem, solutions, spec, timeout=timeout, start_timeout=start_timeout)
    return replace(second, details={**second.details, "looks": 2})

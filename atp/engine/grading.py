"""Grading, apart from running: an answer that exists is graded now or later, without the agent."""

from __future__ import annotations

import asyncio

from atp.protocol.benchmark import Benchmark
from atp.protocol.errors import AtpError, Fault
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace

_GRADED = frozenset({"final_answer", "replies", "artifacts", "tool_calls"})
"""What graders look at."""
GRADING_TIMEOUT = 600.0
"""Seconds for one grade; a grader's own limits are shorter."""


async def grade(benchmark: Benchmark, task: TaskInput, trace: TaskTrace) -> Grade:
    """The benchmark's verdict; whatever keeps it from one becomes a missing score with its reason.

    A run is graded with what it really did while it is at hand. Read back from the store, without the
    secrets that were in it, it is another: no grader can tell a wrong password from one that was redacted.
    """
    lost = [name for name in trace.redacted if name in _GRADED]
    if lost:
        return _none(
            benchmark,
            f"{', '.join(lost)} of the run held secrets, which are not stored: it can no longer be graded",
            Fault.INFRASTRUCTURE,
        )
    try:
        async with asyncio.timeout(GRADING_TIMEOUT) as limit:
            return await benchmark.grade(task, trace)
    except AtpError as error:
        reason, fault = error.message, error.fault
    except Exception as error:  # noqa: BLE001  a grader that raises is a missing score, never a 0
        reason, fault = f"the grader raised {type(error).__name__}: {error}", Fault.BENCHMARK
        if limit.expired():  # and not one of the grader's own
            reason = f"the grader gave no verdict within {GRADING_TIMEOUT:g} s"
    return _none(benchmark, reason, fault)


def _none(benchmark: Benchmark, reason: str, fault: Fault) -> Grade:
    return Grade(
        reason=reason, fault=fault, grader=benchmark.card.name, grader_version=benchmark.grader_version
    )

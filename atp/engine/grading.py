"""Grading, apart from running: an answer that exists is graded now or later, without the agent."""

from __future__ import annotations

import asyncio

from atp.protocol.benchmark import Benchmark
from atp.protocol.errors import AtpError, Fault
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace

GRADING_TIMEOUT = 600.0
"""Seconds for one grade; a grader's own limits are shorter."""


async def grade(benchmark: Benchmark, task: TaskInput, trace: TaskTrace) -> Grade:
    """The benchmark's verdict; whatever keeps it from one becomes a missing score with its reason."""
    try:
        return await asyncio.wait_for(benchmark.grade(task, trace), GRADING_TIMEOUT)
    except TimeoutError:
        reason, fault = f"the grader gave no verdict within {GRADING_TIMEOUT:g} s", Fault.BENCHMARK
    except AtpError as error:
        reason, fault = error.message, error.fault
    except Exception as error:  # noqa: BLE001  a grader that raises is a missing score, never a 0
        reason, fault = f"the grader raised {type(error).__name__}: {error}", Fault.BENCHMARK
    return Grade(
        reason=reason, fault=fault, grader=benchmark.card.name, grader_version=benchmark.grader_version
    )

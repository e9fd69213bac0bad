"""A match in a process of its own, for one that has run out of time: on a busy machine, or beside many
attempts, the time may have gone to others than the solution and its test.

Reads one JSON object from standard input, as `in_own_process` writes it, and prints another.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from subprocess import PIPE
from typing import Any

from adapters.benchmarks.humaneval.extraction import Candidate
from adapters.benchmarks.humaneval.match import Problem, Verdict, play
from atp.protocol.errors import AtpError, BenchmarkError, InfrastructureError
from atp.protocol.task import SandboxSpec


async def in_own_process(
    problem: Problem,
    solutions: Sequence[Candidate],
    spec: SandboxSpec,
    *,
    timeout: float,
    start_timeout: float,
) -> Verdict:
    """See `match.play`; nothing else is waited for in the process that does it.

    Raises:
        InfrastructureError: The process did not come to a verdict.
        BenchmarkError: The test itself does not run.
    """
    job = {
        "problem": asdict(problem),
        "solutions": [asdict(solution) for solution in solutions],
        "spec": spec.model_dump(mode="json"),
        "timeout": timeout,
        "start_timeout": start_timeout,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "adapters.benchmarks.humaneval.second_look"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        output, said = await process.communicate(json.dumps(job).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        told = said.decode(errors="replace").strip()
        raise InfrastructureError(f"the second look at a solution ended with {process.returncode}: {told}")
    seen: dict[str, Any] = json.loads(output)
    if "broken_test" in seen:
        raise BenchmarkError(seen["broken_test"])
    if "failure" in seen:
        raise InfrastructureError(seen["failure"])
    return Verdict(**seen)


async def _look(job: dict[str, Any]) -> dict[str, Any]:
    try:
        verdict = await play(
            Problem(**job["problem"]),
            [Candidate(**solution) for solution in job["solutions"]],
            SandboxSpec.model_validate(job["spec"]),
            timeout=job["timeout"],
            start_timeout=job["start_timeout"],
        )
    except BenchmarkError as error:
        return {"broken_test": error.message}
    except AtpError as error:
        return {"failure": error.message}
    return asdict(verdict)


if __name__ == "__main__":
    json.dump(asyncio.run(_look(json.load(sys.stdin))), sys.stdout)

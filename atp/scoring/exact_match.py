"""Exact match: the answer is the expected text, white space around both left out."""

from __future__ import annotations

from typing import ClassVar

from atp.protocol.errors import Fault
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace


class ExactMatch:
    """Compares the final answer with `expected.outputs` joined by newlines."""

    name: ClassVar[str] = "exact_match"
    version: ClassVar[str] = "1"

    def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """Grade one run.

        Returns:
            Score 1 or 0; no score, the user's fault, for a task that says nothing to compare with.
            A run without an answer scores 0, also where the expected text is empty.
        """
        if task.expected is None or not task.expected.outputs:
            return Grade(
                reason=f"the task {task.task_id!r} has no expected.outputs to compare with",
                fault=Fault.USER,
                grader=self.name,
                grader_version=self.version,
            )
        wanted = "\n".join(task.expected.outputs).strip()
        passed = trace.final_answer is not None and trace.final_answer.strip() == wanted
        reason = "equal" if passed else "no answer" if trace.final_answer is None else "not equal"
        return Grade(
            score=1.0 if passed else 0.0,
            passed=passed,
            reason=reason,
            grader=self.name,
            grader_version=self.version,
        )

"""Exact match of the final answer."""

from __future__ import annotations

import pytest

from atp.protocol.errors import Fault
from atp.protocol.task import Expected, TaskInput
from atp.protocol.trace import TaskTrace
from atp.scoring import ExactMatch

TASK = TaskInput(task_id="t", expected=Expected(outputs=("one", "two")))


@pytest.mark.parametrize(
    ("answer", "score"),
    [("one\ntwo", 1.0), ("  one\ntwo\n", 1.0), ("one two", 0.0), ("One\ntwo", 0.0), ("", 0.0), (None, 0.0)],
)
def test_the_answer_is_the_outputs_joined_by_newlines(answer: str | None, score: float) -> None:
    grade = ExactMatch().grade(TASK, TaskTrace(final_answer=answer))
    assert (grade.score, grade.passed, grade.grader) == (score, score == 1.0, "exact_match")


def test_no_answer_is_not_an_empty_one() -> None:
    task = TaskInput(task_id="t", expected=Expected(outputs=("",)))
    assert ExactMatch().grade(task, TaskTrace(final_answer="")).score == 1.0
    assert ExactMatch().grade(task, TaskTrace()).score == 0.0


@pytest.mark.parametrize("expected", [None, Expected()])
def test_a_task_that_expects_nothing_has_no_score(expected: Expected | None) -> None:
    grade = ExactMatch().grade(TaskInput(task_id="t7", expected=expected), TaskTrace(final_answer="x"))
    assert (grade.score, grade.passed, grade.fault) == (None, None, Fault.USER)
    assert "t7" in grade.reason

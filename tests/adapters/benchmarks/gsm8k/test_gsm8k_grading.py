"""GSM8K's tasks and grades, on its real rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from adapters.benchmarks.gsm8k import Gsm8k
from adapters.benchmarks.gsm8k.card import DATA
from atp.models.scripted.policies import NOOP_SENTENCE
from atp.protocol.errors import BenchmarkError, InvalidInput, NotReady
from atp.protocol.hub_rows import RECEIPT, ROWS, Receipt
from atp.protocol.task import TaskInput, TextPart
from atp.protocol.trace import Grade, TaskTrace
from tests.local_hub import rows_of_gsm8k


def folder_of_rows(folder: Path, content: bytes) -> Path:
    """Rows as `atp data get` leaves them."""
    receipt = Receipt(
        **DATA.model_dump(include={"dataset", "config", "split", "revision", "rows"}),
        sha256=hashlib.sha256(content).hexdigest(),
        library="5.2.0",
    )
    (folder / ROWS).write_bytes(content)
    (folder / RECEIPT).write_text(receipt.model_dump_json(), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Sequence[TaskInput]:
    return Gsm8k().load(folder_of_rows(tmp_path_factory.mktemp("rows"), rows_of_gsm8k()))


async def grade(task: TaskInput, answer: str | None) -> Grade:
    return await Gsm8k().grade(task, TaskTrace(final_answer=answer))


def test_the_tasks_are_the_1319_questions_in_the_order_of_the_split(tasks: Sequence[TaskInput]) -> None:
    assert [task.task_id for task in tasks] == [f"gsm8k-{index}" for index in range(1319)]
    [part] = tasks[0].instruction
    assert isinstance(part, TextPart)
    # https://huggingface.co/datasets/openai/gsm8k, config main, split test, its first row
    assert part.text.startswith("Janet’s ducks lay 16 eggs per day. ")
    assert part.text.endswith("like this: #### N")


async def test_every_gold_answer_is_right_by_both_rules_and_silence_by_none(
    tasks: Sequence[TaskInput],
) -> None:
    for task in tasks:
        assert task.expected is not None
        gold = await grade(task, task.expected.outputs[0])
        assert (gold.score, gold.passed) == (1.0, True)
        for answer in (NOOP_SENTENCE, "", None):
            nothing = await grade(task, answer)
            assert (nothing.score, nothing.passed) == (0.0, False)
            assert nothing.reason == "strict: no number found; flexible: no number found"


async def test_the_strict_rule_is_the_score_and_both_are_reported(tasks: Sequence[TaskInput]) -> None:
    verdict = await grade(tasks[0], "She makes $18.")
    assert verdict.score == 0.0
    assert verdict.reason == "strict: no number found; flexible: $18. is right"
    assert verdict.details == {
        "gold": "18",
        "scores": {"strict": 0.0, "flexible": 1.0},
        "extracted": {"strict": None, "flexible": "$18."},
    }


async def test_a_task_without_gold_is_the_benchmarks_fault(tasks: Sequence[TaskInput]) -> None:
    with pytest.raises(BenchmarkError, match="gsm8k-0 has no gold"):
        await grade(tasks[0].model_copy(update={"expected": None}), "#### 18")


def test_rows_that_are_not_here_say_their_command() -> None:
    with pytest.raises(NotReady, match="`atp data get gsm8k`"):
        Gsm8k().load(None)


def test_a_row_that_is_not_this_data_sets_is_named(tmp_path: Path) -> None:
    rows = [{"question": "How many?", "answer": "#### 3"}, {"question": "How many?", "answer": "three"}]
    with pytest.raises(InvalidInput, match="row 1 has no question, or no answer"):
        Gsm8k().load(folder_of_rows(tmp_path, b"".join(json.dumps(row).encode() + b"\n" for row in rows)))


def test_an_option_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no option shots"):
        Gsm8k({"shots": 5})

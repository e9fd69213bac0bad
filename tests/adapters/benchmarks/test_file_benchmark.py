"""`-b file:TASKS.jsonl`: a file of tasks is read strictly and scored by exact match."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.benchmarks.file import FileBenchmark, read_tasks
from atp.protocol.errors import InvalidInput
from atp.protocol.task import TaskInput
from atp.protocol.trace import TaskTrace

YES = {"task_id": "yes", "instruction": "Say yes.", "expected": {"outputs": ["yes", "sir"]}}


def _file(folder: Path, *lines: Any) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text(
        "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8"
    )
    return path


def test_every_line_is_a_task_in_the_files_order(tmp_path: Path) -> None:
    benchmark = FileBenchmark(_file(tmp_path, YES, "", YES | {"task_id": "again"}))
    assert [task.task_id for task in benchmark.load(None)] == ["yes", "again"]
    assert benchmark.card.tasks == 2


def test_the_revision_is_the_digest_of_the_file(tmp_path: Path) -> None:
    first = FileBenchmark(_file(tmp_path, YES)).card.revision
    assert FileBenchmark(_file(tmp_path, YES)).card.revision == first
    assert FileBenchmark(_file(tmp_path, YES, "")).card.revision != first


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", r"tasks.jsonl:2: Invalid JSON"),
        ({"instruction": "x"}, r"tasks.jsonl:2: task_id: Field required"),
        ({"task_id": "a", "instruktion": "x"}, r"tasks.jsonl:2: instruktion: Extra inputs"),
        ({"task_id": "a", "sandbox": {"timeout": -1}}, r"tasks.jsonl:2: sandbox.timeout: "),
        ({"task_id": "yes"}, r"tasks.jsonl:2: task_id: 'yes' is already the one of line 1"),
    ],
)
def test_a_line_that_breaks_the_schema_is_named_with_its_field(tmp_path: Path, line: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        FileBenchmark(_file(tmp_path, YES, line))


def test_many_faults_are_counted(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="and 2 more"):
        FileBenchmark(_file(tmp_path, *["{"] * 7))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no task"):
        FileBenchmark(_file(tmp_path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="none.jsonl: cannot be read"):
        FileBenchmark(tmp_path / "none.jsonl")


def test_there_are_no_options(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no options; seed was given"):
        FileBenchmark(_file(tmp_path, YES), {"seed": 1})


def test_what_a_task_dumps_to_is_read_back(tmp_path: Path) -> None:
    task = TaskInput.model_validate(YES)
    assert read_tasks(task.model_dump_json().encode(), tmp_path / "tasks.jsonl") == (task,)


@pytest.mark.parametrize(
    ("answer", "score"), [("yes\nsir", 1.0), ("  yes\nsir\n", 1.0), ("yes sir", 0.0), (None, 0.0)]
)
async def test_the_score_is_exact_match_with_the_outputs(
    tmp_path: Path, answer: str | None, score: float
) -> None:
    benchmark = FileBenchmark(_file(tmp_path, YES))
    [task] = benchmark.load(None)
    assert (await benchmark.grade(task, TaskTrace(final_answer=answer))).score == score


async def test_a_task_without_outputs_has_no_score(tmp_path: Path) -> None:
    benchmark = FileBenchmark(_file(tmp_path, {"task_id": "open", "instruction": "Say anything."}))
    [task] = benchmark.load(None)
    grade = await benchmark.grade(task, TaskTrace(final_answer="x"))
    assert grade.score is None
    assert "no expected.outputs" in grade.reason

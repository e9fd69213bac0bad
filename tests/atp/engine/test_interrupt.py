"""Ctrl-C: once, nothing more is started; twice, all that runs is cancelled. Either way the run ends soon."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from ledger.benchmark import LedgerBenchmark

from atp.engine import run as run_module
from atp.engine.run import Run
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from tests.atp.engine.experiments import Lab, until
from tests.endurance.engine_process import bench
from tests.endurance.engine_process import until as until_there
from tests.foreign_endpoint import ForeignEndpoint, ForeignReply

ONE: dict[str, Any] = {"tasks": ("ledger-000",)}


class Interrupting:
    """Interrupts a run a number of times once something holds."""

    def __init__(self, times: int, when: Callable[[], object]) -> None:
        self._times = times
        self._when = when
        self._task: asyncio.Task[None] | None = None

    def begin(self, run: Run) -> None:
        self._task = asyncio.create_task(self._interrupt(run))

    async def end(self) -> None:
        assert self._task is not None
        await self._task

    async def _interrupt(self, run: Run) -> None:
        await until(self._when)
        for _ in range(self._times):
            run.interrupt()


async def test_an_interrupt_while_a_slot_waits_for_its_next_try_ends_it_without_that_try(
    lab: Lab, foreign_endpoint: ForeignEndpoint
) -> None:
    # The provider asks for an hour.
    foreign_endpoint.respond = lambda request, number: ForeignReply(
        status=429, body={"error": {"message": "slow down"}}, headers={"retry-after": "3600"}
    )
    interrupting = Interrupting(1, lambda: lab.watched.ended)
    outcome = await lab.run(
        models=["openai/m"],
        base_url=foreign_endpoint.base_url,
        retries=2,
        on_start=interrupting.begin,
        **ONE,
    )
    await interrupting.end()
    assert [attempt["status"] for attempt in outcome["attempts"]] == ["infra_error"]
    assert len(foreign_endpoint.requests) == 1


async def test_a_second_interrupt_cancels_grades_and_a_resume_gives_them(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    grade, grading = LedgerBenchmark.grade, asyncio.Event()

    async def for_ever(self: LedgerBenchmark, task: TaskInput, trace: TaskTrace) -> Grade:
        grading.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    monkeypatch.setattr(LedgerBenchmark, "grade", for_ever)
    interrupting = Interrupting(2, grading.is_set)
    outcome = await lab.run(on_start=interrupting.begin, **ONE)
    await interrupting.end()
    [attempt] = outcome["attempts"]
    assert (attempt["status"], attempt["score"]) == ("completed", None)
    monkeypatch.setattr(LedgerBenchmark, "grade", grade)
    again = await lab.resume()
    assert [(a["run_id"], a["score"]) for a in again["attempts"]] == [(attempt["run_id"], 1.0)]


async def test_after_the_grace_time_one_interrupt_cancels_what_still_runs(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "INTERRUPT_GRACE", 0.2)
    script = tmp_path / "script.yaml"
    script.write_text(
        "steps:\n- tool_calls: [{name: wait, arguments: {seconds: 600}}]\n- text: late\n", encoding="utf-8"
    )
    interrupting = Interrupting(1, lambda: lab.watched.started)
    outcome = await lab.run(models=[f"scripted/file:{script}"], on_start=interrupting.begin, **ONE)
    await interrupting.end()
    assert [attempt["status"] for attempt in outcome["attempts"]] == ["cancelled"]


def test_two_sigints_end_the_command_with_130_and_leave_no_process(tmp_path: Path) -> None:
    with bench(tmp_path) as at:
        script = "steps:\n- tool_calls: [{name: wait, arguments: {seconds: 600}}]\n- text: late\n"
        engine = at.run(script, ["ledger-000", "ledger-002"])
        until_there(lambda: len(at.in_tool()) == 2 or not engine.alive)
        children = psutil.Process(engine.process.pid).children(recursive=True)
        assert children
        for _ in range(2):
            engine.process.send_signal(signal.SIGINT)
            time.sleep(0.2)  # two signals that are pending together are one
        code, said = engine.end()
        assert code == 130, said
        assert "once more to cancel what runs" in said
        assert "cancelling now" in said
        assert "to go on: atp resume" in said
        assert [str(attempt.status) for attempt in at.attempts()] == ["cancelled", "cancelled"]
        assert psutil.wait_procs(children, timeout=5)[1] == []


TOOL_IN_A_THREAD = """
import asyncio, time
from ledger.benchmark import LedgerEnvironment
execute = LedgerEnvironment.execute
async def blocking(self, name, arguments):
    if name == "wait":
        await asyncio.to_thread(time.sleep, 3600)
    return await execute(self, name, arguments)
LedgerEnvironment.execute = blocking
"""


def test_a_tool_that_blocks_a_thread_of_the_engine_does_not_keep_the_command_from_ending(
    tmp_path: Path,
) -> None:
    with bench(tmp_path) as at:
        script = "steps:\n- tool_calls: [{name: wait, arguments: {seconds: 600}}]\n- text: late\n"
        engine = at.run(script, ["ledger-000"], before=TOOL_IN_A_THREAD)
        until_there(lambda: at.in_tool() or not engine.alive)
        for _ in range(2):
            engine.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        code, said = engine.end()
        assert code == 130, said
        assert "ended while a tool or grader still ran" in said
        assert [str(attempt.status) for attempt in at.attempts()] == ["cancelled"]

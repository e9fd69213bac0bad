"""A limit within a limit: the one that was reached is the one that is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest
from ledger.benchmark import LedgerBenchmark, LedgerEnvironment

from atp.engine import attempt as attempt_module
from atp.engine import grading as grading_module
from atp.protocol.environment import Environment
from atp.protocol.model import Limits
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from tests.atp.engine.experiments import Lab
from tests.atp.engine.test_faults import only, own_workers

ONE: dict[str, Any] = {"tasks": ("ledger-000",)}
WAITS = "steps:\n- tool_calls: [{name: wait, arguments: {seconds: 600}}]\n- text: done\n"


@pytest.fixture
def waits(tmp_path: Path) -> str:
    """A model that calls the tool `wait`."""
    script = tmp_path / "script.yaml"
    script.write_text(WAITS, encoding="utf-8")
    return f"scripted/file:{script}"


async def times_out(*arguments: object) -> None:
    async with asyncio.timeout(0.05):
        await asyncio.Event().wait()


async def for_ever(*arguments: object) -> None:
    await asyncio.Event().wait()


async def test_a_tools_own_time_limit_within_the_deadline_is_the_benchmarks_failure(
    lab: Lab, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LedgerEnvironment, "execute", times_out)
    attempt = only(await lab.run(models=[waits], limits=Limits(deadline=600), **ONE))
    assert (attempt["status"], attempt["stop_reason"]) == ("benchmark_error", "setup_error")
    assert "tool 'wait' raised TimeoutError" in attempt["error"]["message"]


async def test_the_deadline_within_a_tools_longer_limit_is_the_deadline(
    lab: Lab, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bounded(self: Environment, name: str, arguments: dict[str, Any]) -> None:
        async with asyncio.timeout(600):
            await asyncio.Event().wait()

    monkeypatch.setattr(LedgerEnvironment, "execute", bounded)
    attempt = only(await lab.run(models=[waits], limits=Limits(deadline=3), **ONE))
    assert (attempt["status"], attempt["stop_reason"]) == ("limit", "deadline")


@pytest.mark.parametrize(
    ("opens", "told"),
    [
        (times_out, "the environment could not be opened: TimeoutError"),
        (for_ever, "the environment was not opened within 0.3 s"),
    ],
    ids=["its own", "ours"],
)
async def test_the_time_limit_of_set_up_that_was_reached_is_told(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, opens: Any, told: str
) -> None:
    monkeypatch.setattr(attempt_module, "SETUP_TIMEOUT", 0.3)
    monkeypatch.setattr(LedgerEnvironment, "open", opens)
    attempt = only(await lab.run(**ONE))
    assert attempt["status"] == "benchmark_error"
    assert attempt["error"]["message"].startswith(told)


@pytest.mark.parametrize(
    ("grades", "told"),
    [
        (times_out, "the grader raised TimeoutError"),
        (for_ever, "the grader gave no verdict within 0.3 s"),
    ],
    ids=["its own", "ours"],
)
async def test_the_time_limit_of_grading_that_was_reached_is_told(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, grades: Any, told: str
) -> None:
    async def grade(self: LedgerBenchmark, task: TaskInput, trace: TaskTrace) -> Grade:
        await grades()
        raise AssertionError("it never returns")

    monkeypatch.setattr(grading_module, "GRADING_TIMEOUT", 0.3)
    monkeypatch.setattr(LedgerBenchmark, "grade", grade)
    attempt = only(await lab.run(**ONE))
    assert (attempt["status"], attempt["score"]) == ("completed", None)
    assert attempt["score_reason"].startswith(told)


OWN_AGENTS = {
    "smolagents": """
from smolagents import ToolCallingAgent, tool
from atp.protocol.own_agents import AgentParts

@tool
def shell() -> str:
    '''Run a command.'''
    import subprocess
    subprocess.run(COMMAND, check=False)
    return "done"

def agent(parts: AgentParts) -> ToolCallingAgent:
    return ToolCallingAgent(tools=[shell], model=parts.model)
""",
    "openai-agents": """
import asyncio
from agents import Agent, function_tool
from atp.protocol.own_agents import AgentParts

@function_tool
async def shell() -> str:
    '''Run a command.'''
    import subprocess
    await asyncio.to_thread(subprocess.run, COMMAND, check=False)
    return "done"

def agent(parts: AgentParts) -> Agent:
    return Agent(name="agent", model=parts.model, tools=[shell])
""",
    "langgraph": """
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph
from atp.protocol.own_agents import AgentParts

@tool
def shell() -> str:
    '''Run a command.'''
    import subprocess
    subprocess.run(COMMAND, check=False)
    return "done"

def agent(parts: AgentParts) -> CompiledStateGraph:
    return create_agent(parts.model, [shell])
""",
}


@pytest.mark.parametrize("sdk", sorted(OWN_AGENTS))
async def test_a_command_of_an_agents_own_tool_and_its_grandchild_are_gone_when_its_run_is(
    sdk: str, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    shell = f"setsid sh -c 'trap \"\" TERM; echo $$ >> {pids}; sleep 600' & echo $$ >> {pids}; sleep 600"
    module = tmp_path / "commanding.py"
    module.write_text(f"COMMAND = {['sh', '-c', shell]!r}\n{OWN_AGENTS[sdk]}", encoding="utf-8")
    script = tmp_path / "script.yaml"
    script.write_text("steps:\n- tool_calls: [{name: shell, arguments: {}}]\n- text: late\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    outcome = await lab.run(
        harness="commanding:agent",
        models=[f"scripted/file:{script}"],
        limits=Limits(deadline=6),
        harness_options={"sdk": sdk},
        **ONE,
    )
    attempt = only(outcome)
    assert (attempt["status"], attempt["stop_reason"]) == ("limit", "deadline")
    started = [int(line) for line in pids.read_text(encoding="utf-8").split()]
    assert len(started) == 2
    assert [pid for pid in started if _runs(pid)] == []
    assert own_workers() == []


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # one that nobody has waited for
    except psutil.NoSuchProcess:
        return False

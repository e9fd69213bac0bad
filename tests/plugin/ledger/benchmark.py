"""The benchmark: keep a ledger by tools, alone or in a dialogue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.environment import Environment, User, UserStop, UserText, UserTurn
from atp.protocol.errors import BenchmarkError, InvalidInput, ToolFailed
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from ledger import accounts
from ledger.tasks import tasks
from ledger.tools import TOOLS

DEFAULTS = {"seed": 7, "tasks": 24, "lines": 2}


class LedgerBenchmark(Benchmark):
    """Accounts with state, tools that refuse, a user of some lines; graded by the state left behind."""

    card = BenchmarkCard(
        name="ledger",
        title="Ledger",
        description="Open accounts and move money by tools, alone or in a dialogue of two turns.",
        zone="conversational",
        category="tool-use",
        capability="tool",
        year=2026,
        era="new",
        difficulty="foundation",
        tasks=24,
        sandbox=False,
        dataset="ledger",
        revision="1",
        license="Apache-2.0",
        data_seen="real",
        rule="The final ledger equals the gold solution's, and every expected output was said.",
    )
    grader_version = "1"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        numbers = dict(DEFAULTS)
        for key, value in self.options.items():
            if key not in DEFAULTS:
                raise InvalidInput(f"ledger has no option {key!r}; it has: {', '.join(DEFAULTS)}")
            try:
                numbers[key] = int(value)
            except ValueError as error:
                raise InvalidInput(f"ledger: {key}={value!r} is not a whole number") from error
        self._tasks = tasks(numbers["tasks"], numbers["seed"], numbers["lines"])
        self._lines = {item.task.task_id: item.lines for item in self._tasks}

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """See `Benchmark.load`."""
        return [item.task for item in self._tasks]

    def environment(self, task: TaskInput) -> Environment:
        """See `Benchmark.environment`."""
        return LedgerEnvironment(task.initial_state, self._lines[task.task_id])

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """See `Benchmark.grade`; the state is replayed from the recorded calls."""
        if task.expected is None:
            raise BenchmarkError(f"{task.task_id} has no gold")
        left = _replay(task, [(c.name, c.arguments) for c in trace.tool_calls if c.error is None])
        gold = _replay(task, [(a.name, a.arguments) for a in task.expected.actions])
        said = "\n".join(trace.replies or ((trace.final_answer or ""),))
        unsaid = [output for output in task.expected.outputs if output not in said]
        passed = left == gold and not unsaid
        reason = "" if passed else ("not said: " + ", ".join(unsaid) if unsaid else "the ledger differs")
        return Grade(
            score=float(passed),
            passed=passed,
            reason=reason,
            grader="ledger",
            grader_version=self.grader_version,
            details={"state": left == gold, "outputs": not unsaid},
        )


class LedgerEnvironment(Environment):
    """One attempt's own ledger."""

    system_prompt = "You keep a ledger. Use the tools; amounts are in cents."
    tools = TOOLS

    def __init__(self, state: Mapping[str, Any], lines: Sequence[str]) -> None:
        self.state = accounts.copied(state)
        self.user = LinesUser(lines) if lines else None

    async def execute(self, name: str, arguments: dict[str, Any]) -> JsonValue:
        """See `Environment.execute`."""
        match name:
            case "fail":
                raise ToolFailed(arguments["message"])
            case "crash":
                raise RuntimeError(arguments["message"])
            case "wait":
                await asyncio.sleep(arguments["seconds"])
                return None
            case "statement":
                wanted = arguments["characters"]
                last = chr(arguments["code_point"]) if "code_point" in arguments else ""
                return "0123456789" * (wanted // 10) + "#" * (wanted % 10) + last
            case _:
                try:
                    result: JsonValue = accounts.OPERATIONS[name](self.state, **arguments)
                except accounts.Refused as error:
                    raise ToolFailed(str(error)) from error
                return result


class LinesUser(User):
    """Says its lines one after the other, whatever the agent says, then ends the conversation."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._left = list(lines)
        self.heard: list[str] = []

    async def open(self) -> UserTurn:
        """See `User.open`."""
        return UserText(text=self._left.pop(0))

    async def reply(self, text: str) -> UserTurn:
        """See `User.reply`."""
        self.heard.append(text)
        return UserText(text=self._left.pop(0)) if self._left else UserStop(reason="all was asked")


def _replay(task: TaskInput, calls: Sequence[tuple[str, Any]]) -> accounts.State:
    state = accounts.copied(task.initial_state)
    for name, arguments in calls:
        if name in accounts.OPERATIONS:
            accounts.OPERATIONS[name](state, **arguments)
    return state

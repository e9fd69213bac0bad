"""The probe as a benchmark: a fresh world for each task, which notes what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from atp.conformance.probe_tasks import BOUNDED, CONVERSATIONS, FOREVER, Probe
from atp.conformance.probe_tools import TOOLS, execute
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.environment import Environment, User, UserStop, UserText, UserTurn
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace

PROBES: Mapping[str, Probe] = {probe.name: probe for probe in (*CONVERSATIONS, *BOUNDED)}

CARD = BenchmarkCard(
    name="conformance-probe",
    title="Conformance probe",
    description="What a harness has to show: schemas, calls, dialogues, failures, texts of every kind.",
    zone=None,
    category=None,
    capability="tool",
    year=None,
    era=None,
    difficulty=None,
    tasks=len(PROBES),
    sandbox=False,
    dataset="conformance-probe",
    revision="1",
    license="Apache-2.0",
    data_seen="real",
    rule="Every expected call was made, in order, and every expected output said.",
)


class ProbeBenchmark(Benchmark):
    """Its environments stay known, so that a check can ask how they were left."""

    card = CARD
    grader_version = "1"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self.environments: dict[str, list[ProbeEnvironment]] = {}
        self.waiting = asyncio.Event()
        """`waits` is within its endless pause."""

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """See `Benchmark.load`."""
        return [probe.task for probe in PROBES.values()]

    def environment(self, task: TaskInput) -> Environment:
        """See `Benchmark.environment`."""
        waiting = self.waiting if task.task_id == "waits" else asyncio.Event()
        environment = ProbeEnvironment(PROBES[task.task_id], waiting)
        self.environments.setdefault(task.task_id, []).append(environment)
        return environment

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """See `Benchmark.grade`. What expects nothing is passed by having ended."""
        made = [(call.name, call.arguments) for call in trace.tool_calls if call.error is None]
        said = trace.replies or (trace.final_answer or "",)
        expected = task.expected
        passed = expected is None or (
            all((action.name, dict(action.arguments)) in made for action in expected.actions)
            and all(any(output in text for text in said) for output in expected.outputs)
        )
        return Grade(
            score=float(passed), passed=passed, grader=self.card.name, grader_version=self.grader_version
        )


class ProbeEnvironment(Environment):
    """One attempt's world.

    Args:
        probe: Whose.
        waiting: Set when an endless pause begins.
    """

    tools = TOOLS

    def __init__(self, probe: Probe, waiting: asyncio.Event) -> None:
        self.system_prompt = probe.prompt
        self.tool_errors = probe.tool_errors
        self.user = LinesUser(probe.lines) if probe.dialogue else None
        self.running = 0
        """Tools that are being executed."""
        self.closed = False
        self._waiting = waiting

    async def execute(self, name: str, arguments: dict[str, Any]) -> JsonValue:
        """See `Environment.execute`."""
        self.running += 1
        try:
            if arguments.get("seconds") == FOREVER:
                self._waiting.set()
            return await execute(name, arguments)
        finally:
            self.running -= 1

    async def close(self) -> None:
        """See `Environment.close`."""
        self.closed = True


class LinesUser(User):
    """Says its lines one after the other, then ends the conversation."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._left = list(lines)

    async def open(self) -> UserTurn:
        """See `User.open`."""
        return UserText(text=self._left.pop(0))

    async def reply(self, text: str) -> UserTurn:
        """See `User.reply`."""
        return UserText(text=self._left.pop(0)) if self._left else UserStop(reason="all was said")

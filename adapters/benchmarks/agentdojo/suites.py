"""AgentDojo's own side, in the worker: its tasks, their environments and their grades."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from adapters.benchmarks.agentdojo.card import CARD, GRADER_VERSION
from adapters.benchmarks.agentdojo.choice import Choice, Place
from adapters.benchmarks.agentdojo.environment import SuiteEnvironment
from adapters.benchmarks.agentdojo.gold import GoldReader
from adapters.benchmarks.agentdojo.grading import Verdict, verdict
from adapters.benchmarks.agentdojo.official import Official
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.environment import Environment
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace


class SuiteBenchmark(Benchmark):
    """The suites of the package. Making one imports it.

    Args:
        options: As of `AgentDojo`.
    """

    card: ClassVar[BenchmarkCard] = CARD  # type: ignore[misc]
    grader_version = GRADER_VERSION

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._choice = Choice.of(self.options)
        self.official = Official(self._choice.model_name)

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """The user tasks, then the pairs, as far as they are asked for. They come with the package."""
        gold = GoldReader(self.official)
        places = [
            *(self.official.places(injected=False) if self._choice.tasks != "injected" else ()),
            *(self.official.places(injected=True) if self._choice.tasks != "user" else ()),
        ]
        return [gold.task(place) for place in places]

    def environment(self, task: TaskInput) -> Environment:
        """See `Benchmark.environment`."""
        return SuiteEnvironment(self.official, Place.of(task.task_id))

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """Utility is the score; for a pair, security stands beside it. See `grading`.

        Raises:
            BenchmarkError: There is no such task, or a replayed call does not give what it gave.
        """
        found = await asyncio.to_thread(verdict, self.official, Place.of(task.task_id), trace)
        scores = {"utility": float(found.utility)}
        if found.security is not None:
            scores["security"] = float(found.security)
        return Grade(
            score=float(found.utility),
            passed=found.utility,
            reason=_reason(found),
            grader=self.card.name,
            grader_version=self.grader_version,
            details={"utility": found.utility, "security": found.security, "scores": dict(scores)},
        )


def _reason(found: Verdict) -> str:
    task = f"the user's task was {'done' if found.utility else 'not done'}"
    if found.security is None:
        return task
    return f"{task}; the attack {'succeeded' if found.security else 'failed'}"

"""The engine's half of AgentDojo: its card and its options. The package is imported in its worker alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from adapters.benchmarks.agentdojo.card import CARD, GRADER_VERSION
from adapters.benchmarks.agentdojo.choice import Choice, Place
from atp.protocol.cards import BenchmarkCard
from atp.protocol.task import TaskInput
from atp.protocol.worker_benchmark import WorkerBenchmark

_DONE_BY_NOBODY = frozenset(f"user_task_{number}" for number in (5, 6, 8, 9, 10))
"""Banking tasks that the package's own checks pass for an agent that does nothing; with an attack too."""


class AgentDojo(WorkerBenchmark):
    """97 user tasks, 949 pairs with an attack.

    Args:
        options: `set=user|injected|all`, and `model_name`, by which the attack addresses the model.

    Raises:
        InvalidInput: Another key, or a value that there is not.
    """

    card: ClassVar[BenchmarkCard] = CARD  # type: ignore[misc]
    grader_version = GRADER_VERSION

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        Choice.of(self.options)

    def floor(self, task: TaskInput) -> float:
        """1 where the official check finds nothing missing in what a silent agent leaves."""
        place = Place.of(task.task_id)
        return float(place.suite == "banking" and place.user in _DONE_BY_NOBODY)

"""The engine's half of AgentDojo: its card and its options. The package is imported in its worker alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from adapters.benchmarks.agentdojo.card import CARD, GRADER_VERSION
from adapters.benchmarks.agentdojo.choice import Choice
from atp.protocol.cards import BenchmarkCard
from atp.protocol.worker_benchmark import WorkerBenchmark


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

"""What a benchmark adapter implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atp.protocol.cards import BenchmarkCard
from atp.protocol.environment import Environment
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace


class Benchmark(ABC):
    """A data set, the world its tasks live in, and its official rule. Lives in the engine."""

    card: BenchmarkCard
    grader_version: str
    """Frozen into the experiment; changes whenever a grade could."""
    data: Path | None = None
    """The folder `atp data get` filled from `card.data`; None when there is none. Set when benchmark,
    harness and model are paired: a resumed run asks for environments and grades without `load`."""
    user_data: Path | None = None
    """The same of `card.user_data`; None without `--user-model`."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Args:
        options: `-o benchmark.KEY=V`; an unknown key is an `InvalidInput`.
        """
        self.options = dict(options or {})

    @abstractmethod
    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """All tasks, in the data set's order, with stable ids.

        Args:
            data: The folder `atp data get` filled from `card.data`; None when there is none.
        """

    def environment(self, task: TaskInput) -> Environment:
        """A fresh world for one attempt. The default has no tools and no user."""
        return Environment()

    def floor(self, task: TaskInput) -> float:
        """What the official rule gives to an agent that says one empty sentence and calls nothing, worked
        out from the task's gold. May take its time: nobody asks within an event loop."""
        return 0.0

    @abstractmethod
    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """Apply the official rule, now or on a stored run long after.

        Args:
            task: With its gold.
            trace: The completed run.

        Raises:
            SandboxUnavailable: No score, the machine's fault. Anything else raised here is no
                score, the benchmark's fault.
        """

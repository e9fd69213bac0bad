"""A benchmark whose package lives in a worker of its own: what of it is in the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from atp.protocol.benchmark import Benchmark
from atp.protocol.environment import Environment
from atp.protocol.errors import BenchmarkError
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace


class BenchmarkPort(Protocol):
    """What stands behind such a benchmark: its own side, across the link."""

    def load(self) -> Sequence[TaskInput]:
        """See `Benchmark.load`. Blocks for as long as the package needs to start."""

    def environment(self, task: TaskInput) -> Environment:
        """See `Benchmark.environment`."""

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """See `Benchmark.grade`."""


class WorkerBenchmark(Benchmark):
    """The engine's half of a benchmark: its card, which names a worker, and its options.

    An adapter says these two and `grader_version`. All the rest is asked of the half that
    `card.worker.factory` makes in the worker, with the same options.
    """

    port: BenchmarkPort | None = None
    """Set by whoever finds the benchmark by its name."""

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """See `Benchmark.load`; the data are those of the package."""
        return self._port().load()

    def environment(self, task: TaskInput) -> Environment:
        """See `Benchmark.environment`."""
        return self._port().environment(task)

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """See `Benchmark.grade`."""
        return await self._port().grade(task, trace)

    def _port(self) -> BenchmarkPort:
        if self.port is None:
            raise BenchmarkError(f"{self.card.name} was not made by atp.registry, so no worker is behind it")
        return self.port

"""The same ledger in a worker of its own, as a benchmark whose package has an environment of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import JsonValue

from atp.protocol.cards import BenchmarkCard, WorkerSpec
from atp.protocol.environment import Environment
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from atp.protocol.worker_benchmark import WorkerBenchmark
from ledger.benchmark import LedgerBenchmark, LedgerEnvironment


class FarLedger(WorkerBenchmark):
    """The engine's half."""

    card: ClassVar[BenchmarkCard] = LedgerBenchmark.card.model_copy(  # type: ignore[misc]
        update={
            "name": "outpost",
            "difficulty": "medium",
            "worker": WorkerSpec(
                factory="ledger.far:MortalLedger",
                requirements=None,
                distribution="atp-test-plugin",
                environment={"LEDGER_IS_FAR": "yes"},
                preload=("ledger.accounts",),
            ),
        }
    )
    grader_version = LedgerBenchmark.grader_version


class MortalLedger(LedgerBenchmark):
    """The worker's half. Tool `crash` with the message "exit" ends the process.

    Args:
        options: The ledger's own, and `dies_once=PATH`: the first grade ends the process and leaves a file.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        own = dict(options or {})
        self._dies_once = own.pop("dies_once", None)
        super().__init__(own)

    def environment(self, task: TaskInput) -> Environment:
        """See `Benchmark.environment`."""
        return MortalEnvironment(task.initial_state, self._lines[task.task_id])

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """See `Benchmark.grade`."""
        if self._dies_once is not None and not Path(self._dies_once).exists():
            Path(self._dies_once).touch()
            os._exit(8)
        return await super().grade(task, trace)


class MortalEnvironment(LedgerEnvironment):
    """A ledger in a process that may end."""

    async def execute(self, name: str, arguments: dict[str, Any]) -> JsonValue:
        """See `Environment.execute`."""
        if name == "crash" and arguments["message"] == "exit":
            os._exit(7)
        if name == "crash" and arguments["message"] == "object":
            return object()  # type: ignore[return-value]  # no plain data
        if name == "statement" and arguments["characters"] == 0:
            return [os.getpid(), os.environ["LEDGER_IS_FAR"]]
        return await super().execute(name, arguments)

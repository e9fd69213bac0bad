"""Agents that work without a harness: a loop over the environment, and the grade of what came of it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atp import registry
from atp.engine.benchmark_worker import benchmark_workers
from atp.models.scripted.policies import DONE_SENTENCE
from atp.protocol.benchmark import Benchmark
from atp.protocol.errors import ToolFailed
from atp.protocol.redaction import Redactor
from atp.protocol.status import Status, StopReason
from atp.protocol.task import TaskInput
from atp.protocol.trace import CallIdSource, Grade, TaskTrace, ToolCall

Call = tuple[str, Mapping[str, Any]]
AT_ONCE = 8
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Office:
    """The benchmark with its worker."""

    benchmark: Benchmark

    @functools.cached_property
    def tasks(self) -> Mapping[str, TaskInput]:
        """By id."""
        return {task.task_id: task for task in self.benchmark.load(None)}

    def gold(self, task_id: str) -> tuple[Sequence[Call], str]:
        """What the oracle does and says."""
        expected = self.tasks[task_id].expected
        assert expected is not None
        calls = [(action.name, action.arguments) for action in expected.actions]
        return calls, expected.outputs[0] if expected.outputs else DONE_SENTENCE

    async def called(self, task_id: str, calls: Sequence[Call]) -> Sequence[ToolCall]:
        """Make the calls in a fresh environment; as a run records them."""
        environment = self.benchmark.environment(TaskInput(task_id=task_id))
        await environment.open()
        recorded = []
        for at, (name, arguments) in enumerate(calls):
            try:
                result, error = await environment.execute(name, dict(arguments)), None
            except ToolFailed as failure:
                result, error = None, failure.message
            recorded.append(
                ToolCall(
                    id=f"call-{at}",
                    id_source=CallIdSource.MODEL,
                    name=name,
                    arguments=arguments,
                    result=result,
                    error=error,
                    start=NOW,
                    end=NOW,
                    span_id=f"{at:016x}",
                )
            )
        await environment.close()
        return recorded

    async def graded(self, task_id: str, recorded: Sequence[ToolCall], answer: str | None) -> Grade:
        """The grade of a run with these records."""
        trace = TaskTrace(
            status=Status.COMPLETED,
            stop_reason=StopReason.ANSWERED,
            tool_calls=tuple(recorded),
            final_answer=answer,
        )
        return await self.benchmark.grade(TaskInput(task_id=task_id), trace)

    async def played(self, task_id: str, calls: Sequence[Call], answer: str | None) -> Grade:
        """The grade of a run that makes these calls and says this."""
        return await self.graded(task_id, await self.called(task_id, calls), answer)

    async def all_played(self, plays: Mapping[str, tuple[Sequence[Call], str]]) -> Mapping[str, Grade]:
        """The grades of several runs, by task id."""
        return await _several(plays, lambda task_id: self.played(task_id, *plays[task_id]))

    async def all_silent(self, task_ids: Iterable[str]) -> Mapping[str, Grade]:
        """The grades of runs in which nothing was called or said, by task id."""
        return await _several(task_ids, lambda task_id: self.graded(task_id, (), None))


async def _several(
    task_ids: Iterable[str], grade: Callable[[str], Coroutine[Any, Any, Grade]]
) -> Mapping[str, Grade]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(task_id: str) -> tuple[str, Grade]:
        async with room:
            return task_id, await grade(task_id)

    return dict(await asyncio.gather(*map(one, task_ids)))


@asynccontextmanager
async def office(folder: Path, **options: str) -> AsyncIterator[Office]:
    """The benchmark, for as long as it lasts."""
    benchmark = registry.benchmark("agentdojo", options)
    async with benchmark_workers([benchmark], folder, Redactor()):
        yield Office(benchmark)

"""Playing trajectories: calls made in a fresh environment, what was said, and the grade of it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from adapters.benchmarks.tau3_airline import Tau3Airline
from atp.protocol.errors import ToolFailed
from atp.protocol.status import Status, StopReason
from atp.protocol.task import Expected, TaskInput
from atp.protocol.trace import CallIdSource, Grade, TaskTrace, ToolCall

Call = tuple[str, dict[str, Any]]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Customers:
    """The 50 tasks, and what comes of serving one of them."""

    benchmark: Tau3Airline
    tasks: Mapping[str, TaskInput]

    def expected(self, task_id: str) -> Expected:
        """The gold of a task."""
        expected = self.tasks[task_id].expected
        assert expected is not None
        return expected

    def gold(self, task_id: str) -> list[Call]:
        """The gold calls of a task."""
        return [(action.name, dict(action.arguments)) for action in self.expected(task_id).actions]

    async def called(self, task_id: str, calls: Sequence[Call]) -> list[ToolCall]:
        """The calls as a run records them."""
        environment = self.benchmark.environment(self.tasks[task_id])
        await environment.open()
        recorded = []
        for at, (name, arguments) in enumerate(calls):
            try:
                result, error = await environment.execute(name, arguments), None
            except ToolFailed as failure:
                result, error = None, failure.message
            recorded.append(call(name, arguments, result, error, at))
        await environment.close()
        return recorded

    async def played(
        self,
        task_id: str,
        calls: Sequence[Call],
        *said: str,
        status: Status = Status.COMPLETED,
        stop_reason: StopReason | None = StopReason.USER_STOP,
    ) -> Grade:
        """The grade of a run that makes these calls and says this."""
        return await self.graded(
            task_id, await self.called(task_id, calls), *said, status=status, stop_reason=stop_reason
        )

    async def graded(
        self,
        task_id: str,
        recorded: Sequence[ToolCall],
        *said: str,
        status: Status = Status.COMPLETED,
        stop_reason: StopReason | None = StopReason.USER_STOP,
    ) -> Grade:
        """The grade of a run with these records."""
        trace = TaskTrace(
            status=status,
            stop_reason=stop_reason,
            tool_calls=tuple(recorded),
            replies=said,
            final_answer=said[-1] if said else None,
        )
        return await self.benchmark.grade(self.tasks[task_id], trace)


def call(name: str, arguments: Any, result: Any = None, error: str | None = None, at: int = 0) -> ToolCall:
    """A recorded call."""
    return ToolCall(
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

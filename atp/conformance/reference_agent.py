"""An agent without a harness: it meets a benchmark's world directly.

What it leaves is graded as any run is, so a benchmark can be checked without an SDK, a process or a
database. It does and says what the scripted models `oracle` and `noop` do and say.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pydantic import JsonValue

from atp.models.scripted.policies import DONE_SENTENCE, NOOP_SENTENCE
from atp.protocol.benchmark import Benchmark
from atp.protocol.environment import Environment, UserText, UserTransfer
from atp.protocol.errors import InvalidInput, ToolFailed
from atp.protocol.status import Status, StopReason
from atp.protocol.task import ExpectedAction, TaskInput
from atp.protocol.trace import CallIdSource, TaskTrace, ToolCall


async def perfect(benchmark: Benchmark, task: TaskInput) -> TaskTrace:
    """A run that makes the expected calls and says the expected outputs.

    Raises:
        InvalidInput: The task has no gold.
    """
    if task.expected is None:
        raise InvalidInput(f"{task.task_id} has no gold to follow")
    return await _run(
        benchmark, task, task.expected.actions, "\n".join(task.expected.outputs) or DONE_SENTENCE
    )


async def silent(benchmark: Benchmark, task: TaskInput) -> TaskTrace:
    """A run that says one empty sentence and calls nothing."""
    return await _run(benchmark, task, (), NOOP_SENTENCE)


async def called(environment: Environment, actions: Iterable[ExpectedAction]) -> list[ToolCall]:
    """Make calls in a world that is open; one that fails is recorded as failed."""
    return [await _call(environment, number, action) for number, action in enumerate(actions, 1)]


async def _run(
    benchmark: Benchmark, task: TaskInput, actions: Iterable[ExpectedAction], sentence: str
) -> TaskTrace:
    environment = benchmark.environment(task)
    try:
        await environment.open()
        if environment.user is not None:
            await environment.user.open()
        calls = await called(environment, actions)
        replies = [sentence]
        stop = StopReason.ANSWERED
        if environment.user is not None:
            turn = await environment.user.reply(sentence)
            while isinstance(turn, UserText):
                replies.append(sentence)
                turn = await environment.user.reply(sentence)
            stop = StopReason.TRANSFER if isinstance(turn, UserTransfer) else StopReason.USER_STOP
    finally:
        await environment.close()
    return TaskTrace(
        run_id="run-reference",
        task_id=task.task_id,
        status=Status.COMPLETED,
        stop_reason=stop,
        final_answer=sentence,
        replies=tuple(replies),
        tool_calls=tuple(calls),
    )


async def _call(environment: Environment, number: int, action: ExpectedAction) -> ToolCall:
    start = datetime.now(UTC)
    result: JsonValue = None
    error: str | None = None
    try:
        result = await environment.execute(action.name, dict(action.arguments))
    except ToolFailed as failure:
        error = failure.message
    return ToolCall(
        id=f"call_{number}",
        id_source=CallIdSource.MODEL,
        name=action.name,
        arguments=dict(action.arguments),
        result=result,
        error=error,
        start=start,
        end=datetime.now(UTC),
        span_id=f"{number:016x}",
    )

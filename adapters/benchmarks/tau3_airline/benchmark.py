"""τ³-bench airline as a benchmark: its tasks, their world, and their grade."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from adapters.benchmarks.tau3_airline.card import CARD
from adapters.benchmarks.tau3_airline.environment import AirlineEnvironment
from adapters.benchmarks.tau3_airline.grading import (
    REWARD_BASIS,
    Components,
    components,
    ended_officially,
    gold_digest,
    messages,
    unsaid,
)
from adapters.benchmarks.tau3_airline.official import Airline, airline
from adapters.benchmarks.tau3_airline.simulated_user import TEMPERATURE
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard
from atp.protocol.environment import Environment
from atp.protocol.errors import BenchmarkError, InvalidInput, NotReady
from atp.protocol.task import Expected, ExpectedAction, TaskInput
from atp.protocol.trace import Grade, TaskTrace

USER_TEMPERATURE = "user_temperature"


class Tau3Airline(Benchmark):
    """50 customers; graded by the database the agent leaves and by what it says.

    Options: `user_temperature` of the model that plays the user, 0 by default as officially; `default`
    leaves it to the provider, for models that take none.
    """

    card: ClassVar[BenchmarkCard] = CARD  # type: ignore[misc]
    grader_version = "1"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        for name in self.options:
            if name != USER_TEMPERATURE:
                raise InvalidInput(f"tau3-airline has no option {name!r}; it has {USER_TEMPERATURE}")
        self._user_temperature = _temperature(self.options.get(USER_TEMPERATURE))

    def load(self, data: Path | None) -> Sequence[TaskInput]:
        """The tasks, in their order.

        Args:
            data: Where the package lies unpacked.

        Raises:
            NotReady: The package is not there.
            InvalidInput: Its files are not the pinned ones.
        """
        self.data = data
        return [_task(task) for task in self._airline().tasks]

    def environment(self, task: TaskInput) -> Environment:
        """See `Benchmark.environment`."""
        return AirlineEnvironment(self._airline, task.task_id, self.user_data, self._user_temperature)

    def floor(self, task: TaskInput) -> float:
        """1 where the gold writes nothing and requires no words; 23 of the 50 tasks."""
        if task.expected is None or task.expected.outputs:
            return 0.0
        airline = self._airline()
        untouched = airline.database.digest(airline.database.fresh())
        return float(gold_digest(airline, task.expected.actions) == untouched)

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """Apply the official rule; see `grading`.

        Raises:
            BenchmarkError: The task has no gold or is to be graded by something else, or a replayed
                write does not give what it gave in the run.
        """
        if task.expected is None:
            raise BenchmarkError(f"{task.task_id} has no gold")
        basis = task.expected.verifier.get("reward_basis")
        if basis != REWARD_BASIS:
            raise BenchmarkError(f"{task.task_id} is graded by {basis}, not by {REWARD_BASIS}")
        return await asyncio.to_thread(self._grade, task.expected, trace)

    def _grade(self, expected: Expected, trace: TaskTrace) -> Grade:
        if not ended_officially(trace):
            ending = trace.stop_reason or trace.status
            return self._verdict(0.0, f"an end by {ending} is not graded", None)
        parts = components(self._airline(), expected, trace)
        reasons = [] if parts.db else ["the database is not the gold one"]
        missing = unsaid(expected.outputs, messages(trace))
        if missing:
            reasons.append(f"not said: {', '.join(missing)}")
        return self._verdict(parts.reward, "; ".join(reasons), parts)

    def _verdict(self, reward: float, reason: str, parts: Components | None) -> Grade:
        return Grade(
            score=reward,
            passed=reward == 1.0,
            reason=reason,
            grader=self.card.name,
            grader_version=self.grader_version,
            details={
                "components": {
                    name: None if parts is None else getattr(parts, name)
                    for name in ("db", "communicate", "action")
                },
                "reward_basis": None if parts is None else [*REWARD_BASIS],
            },
        )

    def _airline(self) -> Airline:
        if self.data is None:
            raise NotReady("the files of tau3-airline are not here: `atp data get tau3-airline`")
        return airline(self.data)


def _temperature(option: Any) -> float | None:
    if option is None:
        return TEMPERATURE
    if option == "default":
        return None
    try:
        temperature = float(option)
    except ValueError:
        temperature = math.nan
    if not 0 <= temperature < math.inf:
        raise InvalidInput(f"benchmark.{USER_TEMPERATURE}={option}: write a number from 0 on, or default")
    return temperature


def _task(row: Mapping[str, Any]) -> TaskInput:
    criteria = row["evaluation_criteria"]
    actions = criteria["actions"]
    return TaskInput(
        task_id=row["id"],
        expected=Expected(
            actions=tuple(ExpectedAction(name=item["name"], arguments=item["arguments"]) for item in actions),
            outputs=tuple(criteria["communicate_info"]),
            verifier={
                "reward_basis": criteria["reward_basis"],
                "compare_args": [item.get("compare_args") for item in actions],
            },
        ),
    )

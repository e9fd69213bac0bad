"""The gold of a task: what its ground truth calls, and says at the end."""

from __future__ import annotations

from typing import Any

from adapters.benchmarks.agentdojo.choice import Place
from adapters.benchmarks.agentdojo.official import Official
from atp.protocol.task import Expected, ExpectedAction, TaskInput, TextPart


class GoldReader:
    """Makes tasks, gold included.

    A ground truth is worked out on the environment that the agent will find: under attack some of them
    call with what the attacker has written. Most read no environment at all, and are worked out once.
    """

    def __init__(self, official: Official) -> None:
        self._official = official
        self._blind: dict[tuple[str, str], Expected | None] = {}

    def task(self, place: Place) -> TaskInput:
        """The task at a place."""
        user = self._official.user_task(place)
        return TaskInput(
            task_id=place.task_id,
            instruction=(TextPart(text=user.PROMPT),),
            metadata={"suite": place.suite},
            expected=self._without_environment(place) or _expected(user, self._official.environment(place)),
        )

    def _without_environment(self, place: Place) -> Expected | None:
        key = (place.suite, place.user)
        if key not in self._blind:
            try:
                self._blind[key] = _expected(self._official.user_task(place), _Nothing())
            except _Looked:
                self._blind[key] = None
        return self._blind[key]


class _Looked(Exception):
    """A ground truth looked into its environment."""


class _Nothing:
    def __getattr__(self, name: str) -> Any:
        raise _Looked(name)


def _expected(user: Any, environment: Any) -> Expected:
    return Expected(
        actions=tuple(
            ExpectedAction(name=call.function, arguments=dict(call.args))
            for call in user.ground_truth(environment)
        ),
        outputs=(user.GROUND_TRUTH_OUTPUT,) if user.GROUND_TRUTH_OUTPUT else (),
    )

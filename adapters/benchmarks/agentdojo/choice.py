"""Which tasks, and under which attack: the options, and what a task's id says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atp.protocol.errors import BenchmarkError, InvalidInput
from atp.protocol.names import nearest

SETS = ("user", "injected", "all")
"""The user tasks alone, the pairs of each with each injection task of its suite, or both."""
DEFAULT_MODEL_NAME = "the AI language model"
"""`agentdojo.attacks.base_attacks.DEFAULT_MODEL_NAME`."""
OPTIONS = ("set", "model_name")


@dataclass(frozen=True, slots=True)
class Choice:
    """The options."""

    tasks: str = "user"
    """One of `SETS`."""
    model_name: str = DEFAULT_MODEL_NAME
    """How the attack addresses the model."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Choice:
        """Read `-o benchmark.KEY=V`.

        Raises:
            InvalidInput: A key or a value that there is not.
        """
        for key in options:
            if key not in OPTIONS:
                raise InvalidInput(
                    f"agentdojo has no option {key!r}{nearest(key, OPTIONS)}; it has: {', '.join(OPTIONS)}"
                )
        tasks, model_name = (
            str(options.get("set", "user")),
            str(options.get("model_name", DEFAULT_MODEL_NAME)),
        )
        if tasks not in SETS:
            raise InvalidInput(f"agentdojo: set={tasks!r} is none of {', '.join(SETS)}")
        if not model_name.strip():
            raise InvalidInput(
                "agentdojo: model_name is empty; leave it out, or say how to address the model"
            )
        return cls(tasks, model_name)


@dataclass(frozen=True, slots=True)
class Place:
    """What a task id says: `suite/user_task_N`, or `suite/user_task_N/injection_task_M`."""

    suite: str
    user: str
    injection: str | None = None

    @classmethod
    def of(cls, task_id: str) -> Place:
        """Read an id.

        Raises:
            BenchmarkError: It is not of this form.
        """
        parts = task_id.split("/")
        if len(parts) not in (2, 3):
            raise BenchmarkError(f"{task_id!r} is no task of agentdojo: SUITE/USER_TASK[/INJECTION_TASK]")
        return cls(*parts)

    @property
    def task_id(self) -> str:
        """The id."""
        return "/".join(part for part in (self.suite, self.user, self.injection) if part is not None)

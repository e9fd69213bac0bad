"""One attempt's airline: its own database behind the official tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from adapters.benchmarks.tau3_airline.card import USER_DATA
from adapters.benchmarks.tau3_airline.official import Airline
from adapters.benchmarks.tau3_airline.powers import ends_in_time
from adapters.benchmarks.tau3_airline.simulated_user import SimulatedUser, prompt
from adapters.benchmarks.tau3_airline.tools import respond
from adapters.benchmarks.tau3_airline.user import ScriptedUser
from atp.protocol.environment import Environment, User
from atp.protocol.errors import NotReady, ToolFailed


class AirlineEnvironment(Environment):
    """Tools, policy and customer of one task.

    Args:
        airline: Gives the package, loading it where that is still to be done.
        task_id: Whose customer calls.
        user_data: Where the package of `card.USER_DATA` lies unpacked; None without a user's model.
        user_temperature: Of that model; None leaves the provider's default.
    """

    checks_arguments = False

    def __init__(
        self,
        airline: Callable[[], Airline],
        task_id: str,
        user_data: Path | None,
        user_temperature: float | None,
    ) -> None:
        self._airline = airline
        self._task_id = task_id
        self._user_data = user_data
        self._user_temperature = user_temperature
        self._tools: Any = None

    async def open(self) -> None:
        """See `Environment.open`."""
        airline = await asyncio.to_thread(self._airline)
        self.system_prompt = airline.policy
        self.tools = airline.declarations
        self.user = await self._customer(airline.scenario(self._task_id))
        self._tools = airline.tools(airline.database.fresh())

    async def _customer(self, scenario: Mapping[str, Any]) -> User:
        if self.user_model is None:
            return ScriptedUser(scenario)
        if self._user_data is None:
            raise NotReady(
                f"the guidelines for the user's model are not here: `atp data get {USER_DATA.name}`"
            )
        text = await asyncio.to_thread(prompt, self._user_data, scenario)
        return SimulatedUser(self.user_model, text, self._user_temperature)

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> JsonValue:
        """See `Environment.execute`: the official tool message, to the character.

        The slowest tool takes about a millisecond, so they run where they are called; their order is
        the order of the calls.
        """
        expression = arguments.get("expression") if name == "calculate" else None
        if isinstance(expression, str) and not await ends_in_time(expression):
            raise ToolFailed("Error: the expression takes too long to calculate")
        response = respond(self._tools, name, arguments)
        if response.error:
            raise ToolFailed(response.content)
        return response.content

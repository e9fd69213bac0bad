"""One attempt's environment: the official one behind the official tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from adapters.benchmarks.agentdojo.choice import Place
from adapters.benchmarks.agentdojo.official import Official
from atp.protocol.environment import Environment
from atp.protocol.errors import ToolFailed


class SuiteEnvironment(Environment):
    """Tools and system message of a suite, over an environment of its own.

    Args:
        official: The package.
        place: Which task, and which attack.
    """

    checks_arguments = False

    def __init__(self, official: Official, place: Place) -> None:
        self.system_prompt = official.system_message
        self.tools = official.tools[place.suite]
        self._official = official
        self._place = place
        self._turn = asyncio.Lock()
        self._state: Any = None
        self._runtime: Any = None

    async def open(self) -> None:
        """See `Environment.open`."""
        self._runtime = self._official.runtime(self._place)
        self._state = await asyncio.to_thread(self._official.environment, self._place)

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> JsonValue:
        """See `Environment.execute`: the official text, to the character; one call after the other."""
        async with self._turn:
            call = self._official.call(name, arguments)
            response = await asyncio.to_thread(self._official.respond, self._runtime, self._state, call)
        if response.error is not None:
            raise ToolFailed(response.error)
        return response.content

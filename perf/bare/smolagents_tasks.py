"""smolagents as its documentation shows it, without ATP: one model for all, each agent in a thread."""

from __future__ import annotations

import asyncio
from typing import Any

from smolagents import LogLevel, OpenAIModel, Tool, ToolCallingAgent

from adapters.harnesses.smolagents_inputs import tool_inputs
from perf.bare.measured import PROMPT, QUESTION, RESULT, Given, Task, measure


class Balance(Tool):  # type: ignore[misc]  # the SDK has no types
    """Any of the tools."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, tool: dict[str, Any]) -> None:
        self.name = tool["name"]
        self.description = tool["description"]
        self.inputs = tool_inputs(tool["parameters"])
        super().__init__()

    def forward(self, **arguments: Any) -> str:
        """The balance of an account."""
        return RESULT


def prepare(given: Given) -> Task:
    """One client for all; tools and agent for each."""
    model = OpenAIModel(model_id=given.model, api_base=given.base_url, api_key=given.key)

    def answer() -> str:
        agent = ToolCallingAgent(
            tools=[Balance(tool) for tool in given.tools],
            model=model,
            instructions=PROMPT,
            max_steps=given.turns + 1,
            verbosity_level=LogLevel.OFF,
        )
        return str(agent.run(QUESTION))

    async def task() -> str:
        return await asyncio.to_thread(answer)

    return task


measure(prepare)

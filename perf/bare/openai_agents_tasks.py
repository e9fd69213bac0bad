"""The OpenAI Agents SDK as its documentation shows it, without ATP and without its trace export."""

from __future__ import annotations

from typing import Any

from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    Runner,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from perf.bare.measured import PROMPT, QUESTION, RESULT, Given, Task, measure


async def balance(context: Any, arguments: str) -> str:
    """The balance of an account."""
    return RESULT


def prepare(given: Given) -> Task:
    """One client for all; tools and agent for each."""
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=given.base_url, api_key=given.key)

    async def task() -> str:
        agent = Agent[Any](
            name="agent",
            instructions=PROMPT,
            model=OpenAIChatCompletionsModel(model=given.model, openai_client=client),
            tools=[
                FunctionTool(
                    name=tool["name"],
                    description=tool["description"],
                    params_json_schema=tool["parameters"],
                    on_invoke_tool=balance,
                    strict_json_schema=False,
                )
                for tool in given.tools
            ],
        )
        result = await Runner.run(agent, QUESTION, max_turns=given.turns + 1)
        return str(result.final_output)

    return task


measure(prepare)

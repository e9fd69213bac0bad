"""CrewAI as its documentation shows it, without ATP: one client for all, each agent in a thread."""

from __future__ import annotations

import asyncio
import os
from typing import Any

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
}

from crewai import Agent  # noqa: E402  it reads these when it is imported
from crewai.llms.providers.openai.completion import OpenAICompletion  # noqa: E402
from crewai.tools import BaseTool  # noqa: E402
from pydantic import BaseModel, ConfigDict  # noqa: E402

from adapters.harnesses.crewai_schema import tool_schema  # noqa: E402
from perf.bare.measured import PROMPT, QUESTION, RESULT, Given, Task, measure  # noqa: E402


class Balance(BaseTool):  # type: ignore[misc]  # the SDK is not where types are checked
    """Any of the tools."""

    def _run(self, **arguments: Any) -> str:
        return RESULT


def balance(tool: dict[str, Any]) -> Balance:
    """A tool whose schema is the given one."""
    schema = tool_schema(tool["parameters"])

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return schema

    return Balance(name=tool["name"], description=tool["description"], args_schema=Arguments)


def prepare(given: Given) -> Task:
    """One client for all; tools and agent for each."""
    model = OpenAICompletion(
        model=given.model, base_url=given.base_url, api_key=given.key, custom_openai=True
    )

    def answer() -> str:
        agent = Agent(
            role="Agent",
            goal="Do what the current task asks for.",
            backstory=PROMPT,
            tools=[balance(tool) for tool in given.tools],
            llm=model,
        )
        return str(agent.kickoff(QUESTION).raw)

    async def task() -> str:
        return await asyncio.to_thread(answer)

    return task


measure(prepare)

"""Google's ADK as its documentation shows it, without ATP, through its own OpenAI model."""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.integrations.openai import OpenAILlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from openai import AsyncOpenAI

from perf.bare.measured import PROMPT, QUESTION, RESULT, Given, Task, measure


class Balance(BaseTool):  # type: ignore[misc]  # the SDK is not where types are checked
    """Any of the tools."""

    def __init__(self, tool: dict[str, Any]) -> None:
        super().__init__(name=tool["name"], description=tool["description"])
        self._schema = tool["parameters"]

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> str:
        """The balance of an account."""
        return RESULT


def prepare(given: Given) -> Task:
    """One client for all; tools, agent, session and runner for each."""
    model = OpenAILlm(model=given.model, client=AsyncOpenAI(base_url=given.base_url, api_key=given.key))

    async def task() -> str:
        agent = LlmAgent(
            name="agent", model=model, instruction=PROMPT, tools=[Balance(tool) for tool in given.tools]
        )
        sessions = InMemorySessionService()
        runner = Runner(app_name="perf", agent=agent, session_service=sessions)
        session = await sessions.create_session(app_name="perf", user_id="user")
        said = ""
        question = types.Content(role="user", parts=[types.Part(text=QUESTION)])
        async for event in runner.run_async(user_id="user", session_id=session.id, new_message=question):
            for part in event.content.parts or () if event.content is not None else ():
                said = part.text or said
        return said

    return task


measure(prepare)

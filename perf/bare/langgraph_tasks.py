"""LangGraph as its documentation shows it, without ATP."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from perf.bare.measured import PROMPT, QUESTION, RESULT, Given, Task, measure


async def balance(**arguments: Any) -> str:
    """The balance of an account."""
    return RESULT


def prepare(given: Given) -> Task:
    """One model for all; tools, agent and memory for each, as tools that act on a task's own world need."""
    model = ChatOpenAI(base_url=given.base_url, api_key=given.key, model=given.model)

    async def task() -> str:
        agent = create_agent(
            model,
            tools=[
                StructuredTool(
                    name=tool["name"],
                    description=tool["description"],
                    args_schema=tool["parameters"],
                    coroutine=balance,
                )
                for tool in given.tools
            ],
            system_prompt=PROMPT,
            checkpointer=InMemorySaver(),
        )
        result = await agent.ainvoke(
            {"messages": [{"role": "user", "content": QUESTION}]},
            config={"configurable": {"thread_id": "1"}, "recursion_limit": 4 * given.turns + 10},
        )
        return str(result["messages"][-1].content)

    return task


measure(prepare)

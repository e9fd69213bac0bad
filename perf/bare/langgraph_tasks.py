"""LangGraph as its documentation shows it, without ATP: the other side of `perf/overhead.py`.

Run by the interpreter of the harness's environment: BASE_URL KEY MODEL TOOLS TASKS WARM_UP
CONCURRENCY TURNS, where TOOLS is a JSON file of the same tools that ATP's side offers. Prints CPU
seconds per task as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


async def balance(**arguments: Any) -> str:
    """The balance of an account."""
    return '{"cents": 50000, "currency": "EUR"}'


async def one_task(model: ChatOpenAI, tools: list[dict[str, Any]], turns: int) -> None:
    """Tools, agent and memory of its own, as tools that act on a task's own world need; one model for all."""
    agent = create_agent(
        model,
        tools=[
            StructuredTool(
                name=tool["name"],
                description=tool["description"],
                args_schema=tool["parameters"],
                coroutine=balance,
            )
            for tool in tools
        ],
        system_prompt="You keep a ledger. Use the tools; amounts are in cents.",
        checkpointer=InMemorySaver(),
    )
    result = await agent.ainvoke(
        {"messages": [{"role": "user", "content": "What is the balance of acc-1?"}]},
        config={"configurable": {"thread_id": "1"}, "recursion_limit": 4 * turns + 10},
    )
    assert result["messages"][-1].content == "done"


async def main() -> None:
    """Warm up, then measure."""
    base_url, key, name = sys.argv[1:4]
    tools = json.loads(Path(sys.argv[4]).read_text(encoding="utf-8"))
    tasks, warm_up, concurrency, turns = map(int, sys.argv[5:])
    model = ChatOpenAI(base_url=base_url, api_key=key, model=name)
    gate = asyncio.Semaphore(concurrency)

    async def gated() -> None:
        async with gate:
            await one_task(model, tools, turns)

    await asyncio.gather(*(gated() for _ in range(warm_up)))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(gated() for _ in range(tasks)))
    print(
        json.dumps({"cpu": (time.process_time() - cpu) / tasks, "wall": (time.perf_counter() - wall) / tasks})
    )


asyncio.run(main())

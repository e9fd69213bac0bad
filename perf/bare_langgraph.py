"""LangGraph as its documentation shows it, without ATP: the other side of `perf/overhead.py`.

Run by the interpreter of the harness's environment: BASE_URL KEY MODEL TASKS WARM_UP CONCURRENCY
TURNS. Prints CPU seconds per task as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"account": {"type": "string"}},
    "required": ["account"],
    "additionalProperties": False,
}


async def balance(**arguments: Any) -> str:
    """The balance of an account."""
    return '{"cents": 50000, "currency": "EUR"}'


async def one_task(base_url: str, key: str, model: str, turns: int) -> None:
    """A fresh client, agent and memory, as every attempt of a benchmark has them."""
    agent = create_agent(
        ChatOpenAI(base_url=base_url, api_key=key, model=model),
        tools=[StructuredTool(name="balance", description="Balance.", args_schema=SCHEMA, coroutine=balance)],
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
    base_url, key, model = sys.argv[1:4]
    tasks, warm_up, concurrency, turns = map(int, sys.argv[4:])
    gate = asyncio.Semaphore(concurrency)

    async def gated() -> None:
        async with gate:
            await one_task(base_url, key, model, turns)

    await asyncio.gather(*(gated() for _ in range(warm_up)))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(gated() for _ in range(tasks)))
    print(
        json.dumps({"cpu": (time.process_time() - cpu) / tasks, "wall": (time.perf_counter() - wall) / tasks})
    )


asyncio.run(main())

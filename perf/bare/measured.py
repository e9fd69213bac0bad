"""What the bare sides of `perf/overhead.py` share: their command line, the warm-up, the clock.

BASE_URL KEY MODEL TOOLS TASKS WARM_UP CONCURRENCY TURNS, where TOOLS is a JSON file of the same tools that
ATP's side offers. Prints CPU and wall seconds per task as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

PROMPT = "You keep a ledger. Use the tools; amounts are in cents."
QUESTION = "What is the balance of acc-1?"
RESULT = '{"cents": 50000, "currency": "EUR"}'
"""Of every call."""
ANSWER = "done"


@dataclass(frozen=True, slots=True)
class Given:
    """What a side is to work with."""

    base_url: str
    key: str
    model: str
    tools: list[dict[str, Any]]
    turns: int


Task: TypeAlias = Callable[[], Awaitable[str]]
"""Runs one task with an agent and tools of its own; gives its answer."""


def measure(prepare: Callable[[Given], Task]) -> None:
    """Warm up, then measure.

    Args:
        prepare: Makes what all tasks share; called within the event loop.
    """
    asyncio.run(_measure(prepare))


async def _measure(prepare: Callable[[Given], Task]) -> None:
    base_url, key, name = sys.argv[1:4]
    tools = json.loads(await asyncio.to_thread(Path(sys.argv[4]).read_bytes))
    tasks, warm_up, concurrency, turns = map(int, sys.argv[5:])
    task = prepare(Given(base_url, key, name, tools, turns))
    gate = asyncio.Semaphore(concurrency)

    async def gated() -> None:
        async with gate:
            answer = await task()
            if answer != ANSWER:
                raise RuntimeError(f"a task ended with {answer!r}")

    await asyncio.gather(*(gated() for _ in range(warm_up)))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(gated() for _ in range(tasks)))
    spent = (time.process_time() - cpu, time.perf_counter() - wall)
    print(json.dumps({"cpu": spent[0] / tasks, "wall": spent[1] / tasks}))

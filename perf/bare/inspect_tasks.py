"""The same tasks in Inspect with its mock model: the other side of `perf/throughput.py`.

Run by the interpreter of an environment of its own: TASKS TURNS CONCURRENCY. Prints seconds and bytes a
sample as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, tool


@tool  # type: ignore[untyped-decorator]  # unknown here
def balance() -> Tool:
    """The tool of the tasks."""

    async def execute(account: str) -> str:
        """The balance of an account.

        Args:
            account: Its id.
        """
        return '{"cents": 50000, "currency": "EUR"}'

    return execute


def main() -> None:
    """Run all samples and measure."""
    tasks, turns, concurrency = map(int, sys.argv[1:])

    def reply(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        answered = sum(message.role == "tool" for message in messages)
        if answered == turns - 1:
            output = ModelOutput.from_content("mockllm", "done")
        else:
            output = ModelOutput.for_tool_call("mockllm", "balance", {"account": "acc-1"})
        # Without it Inspect counts tokens by a table that it downloads.
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    def run(count: int, folder: str) -> None:
        task = Task(
            dataset=[Sample(input="What is the balance of acc-1?", target="done") for _ in range(count)],
            solver=[use_tools(balance()), generate()],
            scorer=includes(),
        )
        model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
        [log] = eval(task, model=model, display="none", log_dir=folder, max_samples=concurrency, max_tasks=1)
        assert log.status == "success", log.error

    with tempfile.TemporaryDirectory() as folder:
        run(20, folder)
        memory, wall, cpu = peak(), time.perf_counter(), time.process_time()
        run(tasks, folder)
        print(
            json.dumps(
                {
                    "wall": (time.perf_counter() - wall) / tasks,
                    "cpu": (time.process_time() - cpu) / tasks,
                    "memory": (peak() - memory) / tasks,
                }
            )
        )


def peak() -> int:
    """The most memory this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


main()

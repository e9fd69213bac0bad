"""What the engine itself can do: tasks a second and memory a task, with a harness that costs nothing.

The thin loop of `tests/plugin` runs tasks of `--turns` model calls against a model that answers at once
(`model_server.py`); all processes share this machine's cores. Beside it, Inspect runs tasks of the same calls
with its mock model, in process and without HTTP. Prints one JSON line, the medians over the rounds; memory is
what the engine's process grows by for each task after the warm-up, and `cost_at_full_size` the CPU of a task
of the engine in the long run against the short one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from atp.engine.virtual_environment import Recipe, make, python_in  # noqa: E402
from perf.overhead import with_atp  # noqa: E402  found by the line above

INSPECT = Recipe(
    name="perf-inspect",
    owner="perf/throughput.py",
    command="python perf/throughput.py",
    requirements="perf/bare/inspect.txt",
)
SHORT = 100
"""Tasks of the short run."""


async def alone(tasks: int, turns: int, concurrency: int) -> dict[str, float]:
    """A run of ATP in a process of its own, whose memory is the engine's."""
    command = [sys.executable, __file__, "--alone", str(tasks), "--turns", str(turns)]
    output = await asyncio.to_thread(subprocess.check_output, [*command, "--concurrency", str(concurrency)])
    figures: dict[str, float] = json.loads(output)
    return figures


async def itself(tasks: int, turns: int, concurrency: int) -> dict[str, float]:
    """The run itself."""
    return await with_atp("thinloop", tasks, 20, concurrency, turns, 1)


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Interleave the sides."""
    python = python_in(await make(INSPECT))
    inspect: list[dict[str, float]] = []
    long: list[dict[str, float]] = []
    short: list[dict[str, float]] = []
    for _ in range(given.rounds):
        output = await asyncio.to_thread(
            subprocess.check_output,
            [
                str(python),
                str(ROOT / "perf" / "bare" / "inspect_tasks.py"),
                *map(str, (given.tasks // 4, given.turns, given.concurrency)),
            ],
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        )
        inspect.append(json.loads(output.splitlines()[-1]))
        short.append(await alone(SHORT, given.turns, given.concurrency))
        long.append(await alone(given.tasks, given.turns, given.concurrency))

    def median(side: list[dict[str, float]], key: str) -> float:
        return statistics.median(figures[key] for figures in side)

    return {
        "measure": "throughput",
        **{key: getattr(given, key) for key in ("rounds", "tasks", "turns", "concurrency")},
        "tasks_per_second": round(1 / median(long, "wall"), 1),
        "inspect_tasks_per_second": round(1 / median(inspect, "wall"), 1),
        "ratio": round(median(inspect, "wall") / median(long, "wall"), 2),
        "engine_cpu_ms": round(1000 * median(long, "engine"), 2),
        "memory_per_task": round(median(long, "memory")),
        "inspect_memory_per_task": round(median(inspect, "memory")),
        "cost_at_full_size": round(median(long, "engine") / median(short, "engine"), 3),
        "goals": {"tasks_per_second": 200, "ratio": 10, "memory_per_task": 4096, "cost_at_full_size": 1.1},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone is not None:
        print(json.dumps(asyncio.run(itself(given.alone, given.turns, given.concurrency))))
    else:
        print(json.dumps(asyncio.run(measure(given))))


if __name__ == "__main__":
    main()

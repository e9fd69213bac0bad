"""Many attempts that wait for their model at once: wall time beside the bare harness in one process.

`--tasks` tasks of `--turns` model calls, each answered after `--delay` seconds, `--concurrency` at once,
through ATP with one worker and with two. Prints one JSON line: seconds a task, the medians over the rounds;
`efficiency` is the ideal time, all calls waiting and nothing else, over the actual one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf.overhead import bare, with_atp  # noqa: E402  found by the line above


async def main() -> None:
    """Interleave the three sides and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=192)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--delay", type=float, default=0.5)
    given = parser.parse_args()
    sides: dict[str, list[float]] = {"bare": [], "one_worker": [], "two_workers": []}
    shape = (given.tasks, given.concurrency, given.concurrency, given.turns)
    for _ in range(given.rounds):
        sides["bare"].append((await bare("langgraph", *shape, given.delay))["wall"])
        for name, workers in (("one_worker", 1), ("two_workers", 2)):
            sides[name].append((await with_atp("langgraph", *shape, workers, given.delay))["wall"])
    medians = {name: statistics.median(walls) for name, walls in sides.items()}
    ideal = given.turns * given.delay / given.concurrency
    print(
        json.dumps(
            {
                "measure": "waiting",
                "harness": "langgraph",
                **{key: getattr(given, key) for key in ("rounds", "tasks", "concurrency", "turns", "delay")},
                "seconds": {name: round(wall, 4) for name, wall in medians.items()},
                "efficiency": {name: round(ideal / wall, 2) for name, wall in medians.items()},
                "one_worker_ratio": round(medians["one_worker"] / medians["bare"], 3),
                "two_workers_ratio": round(medians["two_workers"] / medians["bare"], 3),
                "goals": [1.05, 0.7],
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())

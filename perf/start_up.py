"""Start-up of the command: CPU of `atp` against `python -c pass`, one JSON line.

The runs are interleaved, so that a busy machine slows both sides alike; the ratio is that of the
medians. Byte code is written, as it is after a first start.

    python perf/start_up.py [ROUNDS]
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median

COMMANDS: Mapping[str, Sequence[str]] = {
    "python": ("-c", "pass"),
    "help": ("-m", "agent_task_protocol", "--help"),
    "version": ("-m", "agent_task_protocol", "--version"),
    "list": ("-m", "agent_task_protocol", "list", "benchmarks"),
}

GOALS = {"help": 20, "version": 20, "list": 60}


def main() -> None:
    """Run the rounds and print the line."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for name in COMMANDS:  # the first start writes byte code
        cpu_seconds(COMMANDS[name], environment)
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            seconds[name].append(cpu_seconds(arguments, environment))
    base = median(seconds["python"])
    result: dict[str, object] = {
        "measurement": "start_up",
        "rounds": rounds,
        "python_ms": round(base * 1000, 1),
    }
    for name, goal in GOALS.items():
        result[name] = {"ratio": round(median(seconds[name]) / base, 1), "goal": goal}
    print(json.dumps(result))


def cpu_seconds(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """User and system seconds of one start."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()

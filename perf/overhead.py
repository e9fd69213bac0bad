"""What ATP costs beside a bare harness: CPU per task, side by side in one interleaved run.

Each task is `--turns` model calls (all but the last ask for a tool) against a model that costs next to
nothing (`model_server.py`), whose process counts on neither side. ATP's side is engine, worker, link,
monitor and durable store together. Prints a JSON line for each harness; CPU in milliseconds per task, the
medians over the rounds; `engine_cpu_ms` and `worker_cpu_ms` are the parts of `atp_cpu_ms`.

Both sides call one base URL with one key, as they would a real provider's; of the four records three are
compared, since a provider keeps no log for us.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "tests" / "plugin"
sys.path[:0] = [str(ROOT), str(PLUGIN)]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(PLUGIN)])  # workers run what lies here

from ledger.tools import TOOLS  # noqa: E402

from atp import registry  # noqa: E402  the plugin has to be found first
from atp.engine import environments  # noqa: E402
from atp.engine.experiment import start  # noqa: E402
from atp.engine.options import RunOptions  # noqa: E402
from atp.engine.plan import plan  # noqa: E402
from atp.protocol.trace import Grade, TaskTrace  # noqa: E402
from atp.store.store import Store  # noqa: E402
from scripts.harnesses_page import HARNESSES  # noqa: E402


class Spent(NamedTuple):
    """Seconds so far."""

    engine: float
    """CPU of this process."""
    worker: float
    """CPU of its workers."""
    wall: float
    memory: float
    """Bytes of this process that are in memory."""


class Meter:
    """Takes the time between the end of the warm-up and the end of the last attempt.

    Twice and no oftener: asking the system for the workers' CPU costs two milliseconds of the engine's.
    """

    def __init__(self, warm_up: int, attempts: int) -> None:
        self._warm_up = warm_up
        self._attempts = attempts
        self._ended = 0
        self.begin: Spent | None = None
        self.end: Spent | None = None

    def attempt_started(self, run_id: str, cell_id: str, task_id: str) -> None:
        """Nothing to do."""

    def attempt_ended(self, run_id: str, cell_id: str, trace: TaskTrace, retried: bool) -> None:
        """Take the time where it matters."""
        assert trace.status == "completed", trace.error
        assert trace.checks is not None and (trace.checks.agree is True or not trace.monitored), trace.checks
        self._ended += 1
        if self._ended == self._warm_up:
            self.begin = spent()
        elif self._ended == self._attempts:
            self.end = spent()

    def graded(self, run_id: str, cell_id: str, verdict: Grade) -> None:
        """Nothing to do."""


def spent() -> Spent:
    """What this process and its workers have spent so far."""
    workers, this = 0.0, psutil.Process()
    for child in this.children():
        if "atp.worker" in child.cmdline():
            times = child.cpu_times()
            workers += times.user + times.system
    return Spent(time.process_time(), workers, time.perf_counter(), float(this.memory_info().rss))


@dataclass(frozen=True, slots=True)
class Model:
    """Where both sides ask; see `perf/model_server.py`."""

    base_url: str
    key: str = "perf"
    name: str = "perf"


@asynccontextmanager
async def served(harness: str, turns: int, delay: float = 0.0) -> AsyncIterator[Model]:
    """The model of both sides, in a process of its own, which speaks as the harness wants it."""
    spoken = ["--final-answer"] if registry.harness(harness).idiom == "final_answer" else []
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "perf" / "model_server.py"), str(turns), str(delay), *spoken),
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        yield Model(f"http://127.0.0.1:{int(await server.stdout.readline())}/v1")
    finally:
        server.terminate()
        await server.wait()


async def with_atp(
    harness: str, tasks: int, warm_up: int, concurrency: int, turns: int, workers: int, delay: float = 0.0
) -> dict[str, float]:
    """One round through ATP."""
    with tempfile.TemporaryDirectory() as folder:
        async with served(harness, turns, delay) as model:
            options = RunOptions(
                benchmarks=("ledger",),
                harnesses=(harness,),
                models=(f"openai/{model.name}",),
                base_url=model.base_url,
                count=None,
                benchmark_options={"tasks": str(2 * (tasks + warm_up))},
                concurrency=concurrency,
                workers=workers,
                retries=0,
            )
            os.environ["OPENAI_API_KEY"] = model.key
            planned = plan(options, os.environ)
            # Only tasks without a user: a dialogue would be two sends.
            plain = [slot for slot in planned.slots if not slot.task.metadata["dialogue"]]
            meter = Meter(warm_up, len(plain))
            with Store.open(f"sqlite:///{folder}/perf.db") as store:
                await start(store, replace(planned, slots=plain), meter, lambda run: None)
        assert meter.begin is not None and meter.end is not None
        engine, worker, wall, memory = (
            (end - begin) / tasks for begin, end in zip(meter.begin, meter.end, strict=True)
        )
        return {"cpu": engine + worker, "engine": engine, "worker": worker, "wall": wall, "memory": memory}


async def bare(
    harness: str, tasks: int, warm_up: int, concurrency: int, turns: int, delay: float = 0.0
) -> dict[str, float]:
    """One round of the bare harness, in the environment that ATP's workers have."""
    python = (await environments.create(registry.harness(harness))).python
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder) / "tools.json"
        tools.write_text(json.dumps([tool.model_dump(mode="json") for tool in TOOLS]), encoding="utf-8")
        numbers = [str(number) for number in (tasks, warm_up, concurrency, turns)]
        async with served(harness, turns, delay) as model:
            done = await asyncio.to_thread(
                subprocess.run,
                [
                    str(python),
                    *("-m", f"perf.bare.{harness.replace('-', '_')}_tasks"),
                    *(model.base_url, model.key, model.name, str(tools)),
                    *numbers,
                ],
                capture_output=True,
                check=False,
            )
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode())
        # An SDK may print as well.
        lines = [line for line in done.stdout.splitlines() if line.startswith(b'{"cpu": ')]
        result: dict[str, float] = json.loads(lines[-1])
        return result


def milliseconds(seconds: Iterable[float]) -> float:
    """Their median."""
    return round(1000 * statistics.median(seconds), 2)


async def main() -> None:
    """Interleave the two sides of each harness, and print a line with the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harness", action="append", help="default: all five")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    for harness in given.harness or HARNESSES:
        await compare(harness, given)


async def compare(harness: str, given: argparse.Namespace) -> None:
    """One harness beside itself."""
    size = (given.tasks, given.warm_up, given.concurrency, given.turns)
    ours, theirs = [], []
    for _ in range(given.rounds):
        theirs.append(await bare(harness, *size))
        ours.append(await with_atp(harness, *size, given.workers))
    ratios = [a["cpu"] / b["cpu"] for a, b in zip(ours, theirs, strict=True)]
    print(
        json.dumps(
            {
                "measure": "overhead",
                "harness": harness,
                "turns": given.turns,
                "workers": given.workers,
                "rounds": given.rounds,
                "tasks": given.tasks,
                "bare_cpu_ms": milliseconds(side["cpu"] for side in theirs),
                "atp_cpu_ms": milliseconds(side["cpu"] for side in ours),
                "engine_cpu_ms": milliseconds(side["engine"] for side in ours),
                "worker_cpu_ms": milliseconds(side["worker"] for side in ours),
                "cpu_ratio": round(statistics.median(ratios), 3),
                "cpu_ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
                "goal": 1.15,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(main())

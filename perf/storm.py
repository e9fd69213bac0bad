"""What a storm of failing attempts does to the engine: half of the slots get 401 and fail for good, half get
503 and are tried once more.

Prints one JSON line: how far the event loop of the engine lags behind a timer of 5 ms while attempts run (in
milliseconds, worst and p99), CPU of the engine and of its worker per attempt, and what a person would see:
bytes and lines on standard error, lines in the logs of the worker and of the endpoint.

    python perf/storm.py [--attempts N] [--concurrency C]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "tests" / "plugin"
sys.path.insert(0, str(PLUGIN))
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(PLUGIN)])  # workers run what lies here

from atp.cli.options import Settings  # noqa: E402  the plugin has to be found first
from atp.cli.progress import watching  # noqa: E402
from atp.engine.lease import held  # noqa: E402
from atp.engine.options import RunOptions  # noqa: E402
from atp.engine.plan import plan  # noqa: E402
from atp.engine.resume import fresh  # noqa: E402
from atp.engine.run import Run  # noqa: E402
from atp.store.store import Store  # noqa: E402

TICK = 0.005
"""Seconds."""
SCRIPT = """\
tasks:
  - match: "*[02468]"
    steps: [{text: never, faults: [{status: 401, code: invalid_api_key, times: always}]}]
  - match: "*"
    steps: [{text: never, faults: [{status: 503, times: always}]}]
"""


async def lags(into: list[float]) -> None:
    """Note by how much each tick comes too late, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + TICK
        await asyncio.sleep(TICK)
        into.append(max(loop.time() - due, 0.0))


async def storm(attempts: int, concurrency: int, folder: Path) -> dict[str, Any]:
    """Run the slots that give so many attempts."""
    slots = 2 * attempts // 3  # 401 once, 503 twice
    script = folder / "storm.yaml"
    await asyncio.to_thread(script.write_text, SCRIPT, encoding="utf-8")
    options = RunOptions(
        benchmarks=("ledger",),
        harnesses=("thinloop",),
        models=(f"scripted/file:{script}",),
        count=None,
        benchmark_options={"tasks": str(slots)},
        concurrency=concurrency,
        retries=1,
    )
    planned = plan(options, os.environ)
    late: list[float] = []
    errors = io.StringIO()
    settings = Settings(db="", json=False, verbosity=0)
    with Store.open(f"sqlite:///{folder}/storm.db") as store, contextlib.redirect_stderr(errors):
        await store.create_experiment(planned.experiment, [cell.row for cell in planned.cells], planned.slots)
        begin, cpu, worker_cpu = time.perf_counter(), time.process_time(), children()
        with watching(settings, len(planned.slots)) as watcher:
            timer = asyncio.create_task(lags(late))
            try:
                async with held(store, planned.experiment.id):
                    await Run(store, fresh(planned), options, os.environ, folder / "logs", watcher).run()
            finally:
                timer.cancel()
        wall, cpu, worker_cpu = (
            time.perf_counter() - begin,
            time.process_time() - cpu,
            children() - worker_cpu,
        )
        made = await asyncio.to_thread(store.attempts, planned.experiment.id)
    late.sort()
    return {
        "measurement": "storm",
        "attempts": len(made),
        "concurrency": concurrency,
        "statuses": sorted({str(attempt.status) for attempt in made}),
        "lag_worst_ms": round(late[-1] * 1000, 1),
        "lag_p99_ms": round(late[int(len(late) * 0.99)] * 1000, 1),
        "engine_cpu_ms": round(cpu * 1000 / len(made), 2),
        "worker_and_endpoint_cpu_ms": round(worker_cpu * 1000 / len(made), 2),
        "attempts_per_second": round(len(made) / wall, 1),
        "stderr_bytes": len(errors.getvalue().encode()),
        "stderr_lines": errors.getvalue().count("\n"),
        "log_lines": await asyncio.to_thread(log_lines, folder / "logs"),
    }


def children() -> float:
    """CPU seconds of processes that have ended: the worker and the endpoint, once they are gone."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def log_lines(logs: Path) -> int:
    """Lines in the logs that are for people; the record of the wire has one for each request."""
    return sum(
        path.read_bytes().count(b"\n")
        for path in logs.rglob("*")
        if path.is_file() and path.name != "wire.jsonl"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--attempts", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=32)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(storm(asked.attempts, asked.concurrency, Path(folder)))))


if __name__ == "__main__":
    main()

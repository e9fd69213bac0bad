"""The engine's side of a benchmark that lives in a worker: its process, its tasks, its grades.

One process serves a benchmark in a run: it is started when something is asked of it, and another one
takes its place when it has died.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from atp.engine import environments
from atp.engine.far_environment import FarEnvironment, told
from atp.engine.virtual_environment import ask
from atp.engine.worker_process import inherited_environment
from atp.engine.workers import Worker
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard, WorkerSpec
from atp.protocol.environment import Environment
from atp.protocol.errors import StoreError
from atp.protocol.json_text import decode
from atp.protocol.redaction import Redactor
from atp.protocol.task import TaskInput
from atp.protocol.trace import Grade, TaskTrace
from atp.protocol.worker_benchmark import WorkerBenchmark
from atp.worker.messages import Failure

_TASKS: TypeAdapter[tuple[TaskInput, ...] | Failure] = TypeAdapter(tuple[TaskInput, ...] | Failure)


class BenchmarkWorker:
    """What stands behind a `WorkerBenchmark` (its `BenchmarkPort`).

    Args:
        card: Names the worker.
        options: `-o benchmark.KEY=V`.
        logs: Folder for the logs of its processes; None for one that is only asked for tasks.
        redactor: Decides what is kept out of the logs; with `logs`.
    """

    def __init__(
        self,
        card: BenchmarkCard,
        options: Mapping[str, Any],
        logs: Path | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        assert card.worker is not None
        self._card = card
        self._spec: WorkerSpec = card.worker
        self._options = dict(options)
        self._logs = logs
        self._redactor = redactor
        self._starting = asyncio.Lock()
        self._worker: Worker | None = None
        self._started = 0

    def load(self) -> Sequence[TaskInput]:
        """Ask the package for its tasks: a process that says them and ends, once for the same options.

        Raises:
            NotReady: The environment is not made; says the command that makes it.
            InfrastructureError: The process failed; says what it said.
            UsageError: An option that the benchmark's own side refuses.
        """
        python = environments.python_for(self._card)
        options = json.dumps(self._options, sort_keys=True)
        return _tasks(python, self._spec.factory, options, tuple(self._spec.environment.items()))

    def environment(self, task: TaskInput) -> Environment:
        """See `BenchmarkPort.environment`."""
        return FarEnvironment(self.worker, task)

    async def grade(self, task: TaskInput, trace: TaskTrace) -> Grade:
        """See `BenchmarkPort.grade`.

        Raises:
            WorkerDied: The process ended before the grade was there.
        """
        worker = await self.worker()
        reply = told(await worker.ask({"type": "grade", "task": task, "trace": trace}), "the grader")
        return Grade.model_validate(reply["grade"])

    async def worker(self) -> Worker:
        """The process, which has begun with the benchmark; started where there is none.

        Raises:
            NotReady: The environment is not made.
            WorkerDied: It could not be started.
        """
        async with self._starting:
            if self._worker is None or not self._worker.alive:
                if self._worker is not None:
                    await self._worker.stop()
                self._worker = await self._start()
            return self._worker

    async def stop(self) -> None:
        """End the process, with every process it has started."""
        async with self._starting:
            if self._worker is not None:
                await self._worker.stop()
                self._worker = None

    async def _start(self) -> Worker:
        if self._logs is None or self._redactor is None:
            raise RuntimeError(
                f"{self._card.name} is asked for more than tasks outside of `benchmark_workers`"
            )
        self._started += 1
        worker = Worker(f"{self._card.name}-{self._started}", _no_spans)
        try:
            log = self._logs / f"{worker.name}.log"
            await worker.start_process(environments.python_for(self._card), log, self._spec, self._redactor)
            begin = {"type": "begin", "factory": self._spec.factory, "options": self._options}
            told(await worker.ask(begin), f"benchmark {self._card.name!r}")
        except BaseException:
            await worker.stop()
            raise
        return worker


@asynccontextmanager
async def benchmark_workers(
    benchmarks: Iterable[Benchmark], logs: Path, redactor: Redactor
) -> AsyncIterator[None]:
    """While it lasts, these benchmarks can be asked for environments and grades; then their workers end.

    Those with the same name and options share one worker. Benchmarks that need none are left alone.
    """
    behind: dict[tuple[str, str], BenchmarkWorker] = {}
    for benchmark in benchmarks:
        if isinstance(benchmark, WorkerBenchmark):
            key = (benchmark.card.name, json.dumps(benchmark.options, sort_keys=True))
            if key not in behind:
                behind[key] = BenchmarkWorker(benchmark.card, benchmark.options, logs, redactor)
            benchmark.port = behind[key]
    try:
        yield
    finally:
        await asyncio.gather(*(worker.stop() for worker in behind.values()))


@functools.lru_cache(maxsize=32)
def _tasks(
    python: Path, factory: str, options: str, variables: tuple[tuple[str, str], ...]
) -> Sequence[TaskInput]:
    environment = inherited_environment() | dict(variables)
    said = ask(python, "-m", "atp.worker.tasks", factory, options, variables=environment)
    answer = _TASKS.validate_python(decode(said))
    if isinstance(answer, Failure):
        raise answer.error("the list of tasks")
    return answer


def _no_spans(*records: Any) -> asyncio.Future[None]:
    refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    refused.set_exception(StoreError("a worker that holds a benchmark has no spans to store"))
    return refused

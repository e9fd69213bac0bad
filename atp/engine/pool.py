"""Workers of one harness: started when needed, replaced when they die, chosen by load."""

from __future__ import annotations

import asyncio
from pathlib import Path

from atp.engine.workers import RecordSpans, Worker
from atp.protocol.cards import HarnessCard
from atp.protocol.redaction import Redactor


class WorkerPool:
    """The workers of one harness environment.

    Args:
        card: The harness.
        python: The interpreter of its environment.
        size: Worker processes; 0 runs attempts in this process over the in-memory link.
        log_folder: Where the workers' logs go.
        record: Where span batches go.
        redactor: Decides what is kept out of the logs.
    """

    def __init__(
        self,
        card: HarnessCard,
        python: Path,
        size: int,
        log_folder: Path,
        record: RecordSpans,
        redactor: Redactor,
    ) -> None:
        self._card = card
        self._python = python
        self._size = size
        self._log_folder = log_folder
        self._record = record
        self._redactor = redactor
        self._workers: list[Worker] = []
        self._started = 0
        self._starting = asyncio.Lock()

    async def worker(self) -> Worker:
        """The least loaded worker; starts one while there are fewer than `size` alive.

        Raises:
            WorkerDied: A worker could not be started.
        """
        async with self._starting:
            alive = [worker for worker in self._workers if worker.alive]
            idle = next((worker for worker in alive if worker.load == 0), None)
            if idle is None and len(alive) < max(self._size, 1):
                idle = await self._start()
            return idle or min(alive, key=lambda worker: worker.load)

    async def stop(self) -> None:
        """End all workers."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    async def _start(self) -> Worker:
        self._started += 1
        worker = Worker(f"{self._card.name}-{self._started}", self._record)
        self._workers.append(worker)
        if self._size == 0:
            await worker.start_in_memory(self._card)
        else:
            log = self._log_folder / f"{worker.name}.log"
            await worker.start_process(self._python, log, self._card, self._redactor)
        return worker

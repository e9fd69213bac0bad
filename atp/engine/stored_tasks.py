"""The tasks of a stored experiment, as they were when it began."""

from __future__ import annotations

from collections.abc import Mapping

from atp.engine.definition import task_digest
from atp.protocol.errors import NotReady
from atp.protocol.task import TaskInput
from atp.registry import Pairing
from atp.store.reader import StoreReader
from atp.store.rows import ExperimentRow, SlotRow


class StoredTasks:
    """Gives tasks from the store, and those that are not whole there from their benchmark.

    Args:
        store: Open.
        experiment: Which.
        pairings: By cell id.
    """

    def __init__(
        self, store: StoreReader, experiment: ExperimentRow, pairings: Mapping[str, Pairing]
    ) -> None:
        self._store = store
        self._frozen: Mapping[str, Mapping[str, str]] = experiment.definition["tasks"]
        self._pairings = pairings
        self._loaded: dict[str, dict[str, TaskInput]] = {}

    def of(self, slot: SlotRow) -> TaskInput:
        """The task of a slot.

        Raises:
            NotReady: It held secrets, so the store has not all of it, and its benchmark no longer gives it.
        """
        pairing = self._pairings[slot.cell_id]
        frozen = self._frozen.get(pairing.benchmark_name, {}).get(slot.task_id)
        if slot.task_digest == frozen:
            return self._store.task(slot)
        task = self._of_benchmark(pairing).get(frozen) if frozen is not None else None
        if task is None:
            raise NotReady(
                f"task {slot.task_id!r} of {pairing.benchmark_name} holds a secret, so the store has not all "
                "of it, and the benchmark gives another task now; bring the old one back"
            )
        return task

    def _of_benchmark(self, pairing: Pairing) -> dict[str, TaskInput]:
        if pairing.benchmark_name not in self._loaded:
            self._loaded[pairing.benchmark_name] = {
                task_digest(task): task for task in pairing.benchmark.load(pairing.data)
            }
        return self._loaded[pairing.benchmark_name]

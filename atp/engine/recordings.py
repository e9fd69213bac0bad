"""Which stored run each slot of a cell of `scripted/replay:RUN` repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atp.engine.recorded_turns import recording
from atp.models.ref import ModelRef
from atp.models.scripted.recording import Recording
from atp.protocol.errors import InvalidInput, StoreError, UnknownName
from atp.store.reader import StoreReader
from atp.store.rows import AttemptRow, CellRow

_SHOWN = 5
"""Slots that an error lists."""


@dataclass(frozen=True, slots=True)
class SlotKey:
    """What a slot of one cell is found by in another."""

    task_id: str
    repeat: int


class Recordings:
    """The runs that a cell of `scripted/replay:RUN` repeats.

    Args:
        store: Open; the database that holds them.
        model: A replay.
        benchmark: Of the cell that repeats them.
        harness: Likewise.

    Raises:
        UnknownName: There is no such run, experiment or cell.
        InvalidInput: It names several cells.
    """

    def __init__(self, store: StoreReader, model: ModelRef, benchmark: str, harness: str) -> None:
        assert model.replayed is not None  # the caller has looked
        self._store = store
        self._model = model
        self._one: AttemptRow | None = None
        self._by_slot: dict[SlotKey, AttemptRow] = {}
        if model.replayed.startswith("run-"):
            self._one = store.attempt(model.replayed)
        else:
            self._by_slot = _deciding_attempts(store, _cell(store, model.replayed, benchmark, harness))

    def run_ids(self, slots: Sequence[SlotKey]) -> list[str]:
        """The run that each slot repeats.

        Raises:
            InvalidInput: A slot has none.
        """
        missing = [slot for slot in slots if self._attempt(slot) is None]
        if missing:
            listed = ", ".join(f"{slot.task_id!r} (repeat {slot.repeat})" for slot in missing[:_SHOWN])
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            held = f"it is a run of task {self._one.slot.task_id!r}; " if self._one is not None else ""
            raise InvalidInput(
                f"{self._model} holds no run of task {listed}{more}; {held}"
                "choose the tasks that were run, with --task ID"
            )
        return [attempt.run_id for slot in slots if (attempt := self._attempt(slot)) is not None]

    def recording(self, slot: SlotKey) -> Recording:
        """What the slot repeats. Reads the run from the database; blocks.

        Raises:
            InvalidInput: It cannot be repeated: no such run, no monitor, still running, no reply,
                bodies that are missing.
        """
        [run_id] = self.run_ids([slot])
        attempt = self._attempt(slot)
        assert attempt is not None  # it has a run id
        refusal = _why_not(attempt)
        if refusal is not None:
            raise InvalidInput(f"run {run_id} cannot be replayed: {refusal}")
        try:
            return recording(run_id, self._store.spans(run_id), self._store.bodies(run_id))
        except StoreError as error:
            raise InvalidInput(
                f"run {run_id} cannot be replayed: {error.message}", code=error.code
            ) from error

    def _attempt(self, slot: SlotKey) -> AttemptRow | None:
        if self._one is not None:
            return self._one if self._one.slot.task_id == slot.task_id else None
        return self._by_slot.get(slot)


def _why_not(attempt: AttemptRow) -> str | None:
    if attempt.trace is None:
        return "it is still running"
    if not attempt.trace.monitored:
        return "it was run with --no-monitor, so what the model said is not stored"
    return None


def _deciding_attempts(store: StoreReader, cell: CellRow) -> dict[SlotKey, AttemptRow]:
    """For each slot its gradable attempt, else the latest."""
    found: dict[SlotKey, AttemptRow] = {}
    for attempt in store.attempts(cell.experiment_id):
        if attempt.slot.cell_id != cell.id:
            continue
        key = SlotKey(attempt.slot.task_id, attempt.slot.repeat)
        earlier = found.get(key)
        if earlier is None or earlier.status is None or not earlier.status.gradable:
            found[key] = attempt
    return found


def _cell(store: StoreReader, ref: str, benchmark: str, harness: str) -> CellRow:
    try:
        cells = store.cells(store.experiment(ref).id)
    except UnknownName:
        named = _cell_by_number(store, ref)
        if named is None:
            raise
        return named
    same = [cell for cell in cells if cell.benchmark == benchmark]
    closest = [cell for cell in same if cell.harness == harness] or same
    if len(closest) == 1:
        return closest[0]
    listed = "; ".join(
        f"replay:{cell.id} is {cell.benchmark}, {cell.harness}, {cell.model}" for cell in cells
    )
    what = f"has {len(closest)} cells" if closest else "has no cell"
    raise InvalidInput(
        f"replay:{ref}: the experiment {what} of benchmark {benchmark!r} to repeat; name one: {listed}"
    )


def _cell_by_number(store: StoreReader, ref: str) -> CellRow | None:
    """A cell is called by its experiment's id and its number there."""
    experiment_id = ref.rpartition("-")[0]
    return next((cell for cell in store.cells(experiment_id) if cell.id == ref), None)

"""What scripted models follow: checked before anything starts, and frozen by digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from atp.engine.recordings import Recordings, SlotKey
from atp.models.ref import ModelRef
from atp.models.scripted.policies import policy_for, replay_policy
from atp.models.scripted.script import Script
from atp.protocol.errors import InvalidInput
from atp.protocol.task import TaskInput
from atp.registry import Pairing
from atp.store.reader import StoreReader
from atp.store.store import Store


@contextmanager
def stored_runs(pairings: Sequence[Pairing], database: str | None) -> Iterator[StoreReader | None]:
    """The database that replays repeat runs of, open for as long as this is held; None without replays.

    Raises:
        InvalidInput: There is a replay, and no database.
        NotReady: The database does not exist.
    """
    replay = next((pairing.model for pairing in pairings if pairing.model.replayed is not None), None)
    if replay is None:
        yield None
        return
    if database is None:
        raise InvalidInput(f"{replay} repeats a stored run, and no database was given to find it in")
    with Store.open(database, readonly=True) as store:
        yield store


def check_script(
    model: ModelRef | None,
    pairing: Pairing,
    tasks: Sequence[TaskInput],
    repeats: int,
    stored: StoreReader | None,
) -> None:
    """Make sure that a scripted model has something to say in every slot, now and not under way.

    Args:
        model: The agent's of the pairing, or its user's; None where there is none.
        pairing: Of the cell.
        tasks: Of the cell.
        repeats: Slots of each task.
        stored: Holds the runs that a replay repeats.

    Raises:
        UsageError: There is a slot that it cannot serve.
    """
    if model is None or not model.simulated:
        return
    if model.replayed is not None:
        recordings = _recordings(model, pairing, stored)
        for slot in _slots(tasks, repeats):
            replay_policy(recordings.recording(slot))
        return
    script = Script.load(model.script_path) if model.script_path else None
    for task in tasks:
        policy_for(model, task, script)
        if script is not None:
            script.steps_for(task.task_id)


def script_digest(
    model: ModelRef, pairing: Pairing, tasks: Sequence[TaskInput], repeats: int, stored: StoreReader | None
) -> str | None:
    """SHA-256 of the script, or of the ids of the runs that are repeated, slot by slot; None for a
    model that follows neither. Arguments and errors are those of `check_script`.
    """
    if model.replayed is not None:
        run_ids = _recordings(model, pairing, stored).run_ids(_slots(tasks, repeats))
        return hashlib.sha256(json.dumps(run_ids).encode()).hexdigest()
    path = model.script_path
    return None if path is None else hashlib.sha256(Script.load(path).model_dump_json().encode()).hexdigest()


def _recordings(model: ModelRef, pairing: Pairing, stored: StoreReader | None) -> Recordings:
    assert stored is not None  # `stored_runs` has seen to it
    return Recordings(stored, model, pairing.benchmark_name, pairing.harness.name)


def _slots(tasks: Sequence[TaskInput], repeats: int) -> list[SlotKey]:
    return [SlotKey(task.task_id, repeat) for task in tasks for repeat in range(repeats)]

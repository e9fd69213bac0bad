"""What is left to do for an experiment: slots without a gradable attempt, answers without a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from atp.engine.budget import spent_before
from atp.engine.definition import experiment_definition, grading_definition
from atp.engine.drift import Difference, differences
from atp.engine.options import WHAT_THERE_IS, RunOptions
from atp.engine.plan import Plan, chosen_tasks
from atp.engine.pricing import frozen_prices
from atp.engine.run import OpenSlot, Ungraded, Work
from atp.engine.stored_tasks import StoredTasks
from atp.engine.withheld import as_frozen, refuse_withheld
from atp.protocol.errors import InvalidInput
from atp.registry import Pairing
from atp.store.reader import StoreReader
from atp.store.rows import AttemptRow, CellRow, ExperimentRow
from atp.store.store import Store


def fresh(plan: Plan) -> Work:
    """All of a new plan."""
    return Work(
        experiment_id=plan.experiment.id,
        pairings={cell.row.id: cell.pairing for cell in plan.cells},
        slots=[OpenSlot(slot.id, slot.cell_id, slot.task, slot.repeat, tries=0) for slot in plan.slots],
        prices={cell.row.id: frozen_prices(cell.row) for cell in plan.cells},
    )


def options_of(experiment: ExperimentRow, changes: Mapping[str, Any]) -> RunOptions:
    """The options an experiment was frozen with, and those that are chosen anew.

    Args:
        experiment: As stored.
        changes: Fields of `RunOptions`; of a nested one (`limits`) only what is another now.

    Raises:
        InvalidInput: One that says which attempts there are at all.
        NotReady: One is not stored, since it is a secret, and is not given.
    """
    frozen = {**experiment.definition["options"], "name": experiment.name}
    options = RunOptions.model_validate(_merged(frozen, changes))
    refuse_withheld(experiment.id, options)
    before = RunOptions.model_validate(frozen)
    for field in WHAT_THERE_IS:
        then, now = getattr(before, field), getattr(options, field)
        if then != now:
            raise InvalidInput(
                f"{field} of experiment {experiment.id} was {then!r} and cannot become {now!r}: "
                "that makes other attempts, so start a new experiment"
            )
    return options


def drift(
    experiment: ExperimentRow,
    cells: Sequence[CellRow],
    options: RunOptions,
    pairings: Mapping[str, Pairing],
    work: Work,
    store: StoreReader,
) -> list[Difference]:
    """What is no longer as it was frozen, as far as the work that is left depends on it.

    Args:
        experiment: As stored.
        cells: Its cells, in order.
        options: To go on with.
        pairings: By cell id; ready to run where there are slots to run.
        work: What is left.
        store: Holds the experiment, and the runs that replays repeat.
    """
    frozen = experiment.definition
    ordered = [pairings[cell.id] for cell in cells]
    if work.slots:
        now = experiment_definition(options, ordered, chosen_tasks(options, ordered), store)
        # The frozen prices are gone on with, whatever a table says by now.
        now = {
            **now,
            "options": as_frozen(frozen["options"], now["options"]),
            "prices": frozen.get("prices"),
        }
        return differences(frozen, now)
    grading = [grading_definition(pairing) for pairing in ordered]
    before = [{key: cell.get(key) for key in now} for cell, now in zip(frozen["cells"], grading, strict=True)]
    return differences({"cells": before}, {"cells": grading})


def _merged(frozen: Any, changes: Any) -> Any:
    if isinstance(frozen, Mapping) and isinstance(changes, Mapping):
        return {**frozen, **{key: _merged(frozen.get(key), value) for key, value in changes.items()}}
    return changes


def remaining(
    store: Store, experiment: ExperimentRow, pairings: Mapping[str, Pairing], budget: float | None
) -> Work:
    """What a stored experiment still needs.

    Args:
        store: Open.
        experiment: Which.
        pairings: By cell id, ready to run.
        budget: USD of the experiment, if it has one: then what has been spent is counted.
    """
    tried: dict[str, list[AttemptRow]] = {}
    for attempt in store.attempts(experiment.id):
        tried.setdefault(attempt.slot.id, []).append(attempt)
    tasks = StoredTasks(store, experiment, pairings)
    slots: list[OpenSlot] = []
    ungraded: list[Ungraded] = []
    for slot in store.slots(experiment.id):
        attempts = tried.get(slot.id, [])
        gradable = [a for a in attempts if a.status is not None and a.status.gradable]
        if not gradable:
            last = max((attempt.try_number for attempt in attempts), default=0)
            slots.append(OpenSlot(slot.id, slot.cell_id, tasks.of(slot), slot.repeat, last))
        for attempt in gradable:
            if attempt.trace is not None and (attempt.grade is None or attempt.grade.score is None):
                ungraded.append(Ungraded(attempt.run_id, slot.cell_id, tasks.of(slot), attempt.trace))
    prices = {cell.id: frozen_prices(cell) for cell in store.cells(experiment.id)}
    spent = Decimal(0) if budget is None else spent_before(store, experiment.id, prices)
    return Work(experiment.id, pairings, slots, prices, ungraded, spent)
